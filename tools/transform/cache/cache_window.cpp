#include "tools/transform/cache/cache_window.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "fmt/format.h"
#include "onnx_bridge/model/node_order.h"
#include "tools/transform/cache/cache_window_parts.h"
#include "tools/transform/cache/node_axes.h"
#include "tools/transform/edit.h"

namespace saturate {
namespace {

enum class Of : std::uint8_t { kWindow, kPlaces, kRows };  // what the entries along an axis are; kRows: the window's tokens of all rows
using Marks = std::map<int, Of>;

std::optional<int> axis_of(const Marks& marks, Of what) {
  for (const auto& [axis, of] : marks)
    if (of == what) return axis;
  return std::nullopt;
}

class WindowRemover {
 public:
  WindowRemover(const Model& model, const WindowInputs& inputs, const DecoderFacts& facts)
      : model_(model),
        made_(model),
        fresh_(model.graph),
        writer_(made_.graph, fresh_),
        work_{model, facts, inputs, writer_},
        side_(work_) {}

  absl::StatusOr<Model> run() && {
    const WindowInputs& inputs = work_.inputs;
    const auto declared = [&](const std::string& name, std::size_t axis) -> std::int64_t {
      const ValueInfo* info = find_named(model_.graph.inputs, name);
      const auto* size =
          info && info->type.shape && axis < info->type.shape->size() ? std::get_if<std::int64_t>(&(*info->type.shape)[axis]) : nullptr;
      return size ? *size : -1;
    };
    work_.window = declared(inputs.ids, 1);
    if (work_.window < 1)
      return absl::UnimplementedError(fmt::format("input '{}': the tokens of a window are not of a fixed number", inputs.ids));
    work_.places = inputs.mask.empty() ? -1 : declared(inputs.mask, 1);
    pasts_.insert(inputs.pasts.begin(), inputs.pasts.end());
    marks_[inputs.ids][1] = Of::kWindow;
    for (const AxisOf& position : inputs.positions) marks_[position.value][position.axis] = Of::kWindow;
    Graph& graph = made_.graph;
    graph.nodes.clear();
    graph.value_info.clear();
    const std::string shape = writer_.node("Shape", {inputs.ids}, "ids_shape");
    work_.tokens = writer_.node("Gather", {shape, writer_.ints({1})}, "tokens");
    for (const Node& node : model_.graph.nodes)
      if (absl::Status s = see(node); !s.ok()) return s;
    open_dims();
    return std::move(made_);
  }

 private:
  bool is_token(const std::string& value) const { return marks_.contains(value); }
  int rank(const std::string& value) const { return work_.facts.rank(value); }

  absl::Status see(const Node& node) {
    const std::vector<std::string> read = names_read(node);
    const bool tokens = std::any_of(read.begin(), read.end(), [&](const std::string& name) { return is_token(name); });
    if (!tokens) {
      const bool past = std::any_of(read.begin(), read.end(), [&](const std::string& name) { return pasts_.contains(name); });
      if (past)
        pasts_.insert(node.outputs.begin(), node.outputs.end());
      else
        writer_.graph().nodes.push_back(node);
      return absl::OkStatus();
    }
    for (const auto* names : {&read, &node.outputs})
      for (const std::string& name : *names)
        if (!name.empty() && !work_.facts.shape(name) && (name == node.outputs[0] || !is_operator(node, "Attention")))
          return cannot_remove(node, fmt::format("the rank of '{}' is not known", name));
    if (node.domain.empty()) {
      if (node.op_type == "Shape") return shape(node);
      if (node.op_type == "Concat" && pasts_.contains(node.inputs[0])) return joined(node);
      if (is_view_of_axes(node) && node.op_type != "Transpose") return view(node);
      if (node.op_type == "Expand") return expand(node);
      if (node.op_type == "Slice") return slice(node);
      if (node.op_type == "Attention") return attention(node);
      if (node.op_type == "RotaryEmbedding") return rotary(node);
      if (node.op_type.ends_with("Softmax") || node.op_type == "Hardmax") return softmax(node);
    }
    return generic(node);
  }

  absl::Status made(Node node, const std::vector<std::string>& inputs) {
    if (node.inputs != inputs) node.origin = nullptr;
    node.inputs = inputs;
    writer_.graph().nodes.push_back(std::move(node));
    return absl::OkStatus();
  }

  // A present: what stood in front of the window is empty.
  absl::Status joined(const Node& node) {
    const std::int64_t given = int_attribute(node, "axis", 0);
    const auto along = static_cast<int>(given < 0 ? given + rank(node.outputs[0]) : given);
    const std::string& fresh = node.inputs.back();
    const auto marks = marks_.find(fresh);
    if (node.inputs.size() != 2 || marks == marks_.end())
      return cannot_remove(node, "it joins the past and something else than the tokens of the window");
    std::string value = fresh;
    Marks at = marks->second;
    if (const auto row = axis_of(at, Of::kWindow); row && *row != along) {  // an axis of one entry, as others are
      if (work_.window != 1 || work_.size(fresh, along) != 1)
        return cannot_remove(node, "it joins them along another axis than that of the tokens");
      value = swapped(value, *row, along);
      at = {};
    }
    at[along] = Of::kPlaces;
    writer_.node("Identity", {value}, "", {}, node.outputs[0]);
    marks_[node.outputs[0]] = std::move(at);
    return absl::OkStatus();
  }
  std::string swapped(const std::string& value, int a, int b) {
    std::vector<std::int64_t> perm;
    for (int i = 0; i < rank(value); ++i) perm.push_back(i == a ? b : i == b ? a : i);
    return writer_.node("Transpose", {value}, value + "_turned", {Attribute::of("perm", perm)});
  }

  // Sizes that are read stay those of the window: what is made of them is made again.
  absl::Status shape(const Node& node) {
    const int all = rank(node.inputs[0]);
    const auto at = [&](const char* name, int otherwise) {
      const auto given = static_cast<int>(int_attribute(node, name, otherwise));
      return std::clamp(given < 0 ? given + all : given, 0, all);
    };
    const int first = at("start", 0), last = std::max(at("end", all), first);
    const Marks& marks = marks_.at(node.inputs[0]);
    std::vector<std::string> parts;
    for (int i = first; i < last; ++i)
      parts.push_back(marks.contains(i) ? writer_.ints({work_.size(node.inputs[0], i)}) : size_of(writer_, node.inputs[0], i, "size"));
    if (std::none_of(marks.begin(), marks.end(), [&](const auto& mark) { return mark.first >= first && mark.first < last; }))
      writer_.graph().nodes.push_back(node);
    else
      writer_.node("Concat", parts, "", {Attribute::of("axis", std::int64_t{0})}, node.outputs[0]);
    return absl::OkStatus();
  }

  // Axes of a result that have the entries of an operand's; and those of other operands.
  absl::Status generic(const Node& node) {
    const auto found = same_axes(work_.facts, node);
    if (!found) return cannot_remove(node, "nothing is known of what it does along the tokens");
    if (absl::Status s = alone(node, *found); !s.ok()) return s;
    std::map<std::string, Marks> beside;  // axes of what does not depend on the tokens
    const std::set<std::string> outputs(node.outputs.begin(), node.outputs.end());
    for (int round = 0; round < 2; ++round)
      for (const SameAxes& axes : *found) {
        std::optional<Of> what;
        for (const AxisOf& axis : axes.axes)
          if (const auto it = marks_.find(axis.value); it != marks_.end() && it->second.contains(axis.axis)) {
            if (what && *what != it->second.at(axis.axis)) return cannot_remove(node, "tokens of the window stand beside places");
            what = it->second.at(axis.axis);
          }
        if (!what) continue;
        for (const AxisOf& axis : axes.axes)
          (outputs.contains(axis.value) ? marks_[axis.value]
           : is_token(axis.value)       ? marks_.at(axis.value)
                                        : beside[axis.value])[axis.axis] = *what;
      }
    std::vector<std::string> inputs = node.inputs;
    for (std::string& input : inputs) {
      if (input.empty() || is_token(input)) continue;
      const Marks& marks = beside[input];
      Placed at{axis_of(marks, Of::kWindow), axis_of(marks, Of::kPlaces)};
      // A row for all tokens of the window may stand beside scores.
      if (const auto row = axis_of(marks_[node.outputs[0]], Of::kWindow); !at.row && at.column && row && is_elementwise(node))
        at.row = *row - rank(node.outputs[0]) + rank(input);
      absl::StatusOr<std::string> read = side_.at_tokens(node, input, at);
      if (!read.ok()) return read.status();
      input = *std::move(read);
    }
    return made(node, inputs);
  }

  // Each entry along the tokens must be computed alone; sums over places are those of attention, whose weights are 0 where it hides them.
  absl::Status alone(const Node& node, const std::vector<SameAxes>& found) const {
    for (const std::string& input : node.inputs) {
      const auto marks = marks_.find(input);
      if (marks == marks_.end()) continue;
      for (const auto& [axis, of] : marks->second)
        if (!keeps(node, found, {input, axis}) && !(of == Of::kPlaces && is_operator(node, "MatMul")))
          return cannot_remove(node, fmt::format("it mixes tokens along axis {} of '{}'", axis, input));
    }
    return absl::OkStatus();
  }
  // Whether a result has the entries of this axis place by place.
  static bool keeps(const Node& node, const std::vector<SameAxes>& found, const AxisOf& axis) {
    return std::any_of(found.begin(), found.end(), [&](const SameAxes& same) {
      const auto is_result = [&](const AxisOf& a) { return std::count(node.outputs.begin(), node.outputs.end(), a.value) > 0; };
      return same.kind == SameAxes::Kind::kApart && std::count(same.axes.begin(), same.axes.end(), axis) > 0 &&
             std::any_of(same.axes.begin(), same.axes.end(), is_result);
    });
  }

  // The axis of the result on which the tokens stand: where they stood, or, of one token, any axis of one entry.
  std::optional<int> axis_behind_view(const Node& node, int axis) const {
    const std::string& result = node.outputs[0];
    std::vector<int> kept, ones;
    for (int k = axis > 0 ? 1 : 0; k < rank(result); ++k) {  // the batch stays in front
      if (work_.size(result, k) == 1) ones.push_back(k);
      if (work_.size(result, k) == work_.size(node.inputs[0], axis) && axis_in_front(node, k, axis)) kept.push_back(k);
    }
    const auto chosen = [&](const std::vector<int>& from) -> std::optional<int> {
      const auto of_heads = std::find_if(from.begin(), from.end(), [&](int k) { return is_row_of_heads(rank(result), k); });
      if (of_heads != from.end()) return *of_heads;
      return from.empty() ? std::nullopt : std::optional(from[0]);
    };
    if (!kept.empty() || work_.window > 1 || node.op_type != "Reshape") return chosen(kept);
    return chosen(ones);
  }
  bool axis_in_front(const Node& node, int result, int axis) const {
    if (node.op_type != "Reshape" && node.op_type != "Flatten") return axis_in_front_of_view(work_, node, result) == axis;
    const std::int64_t entries = behind(node.inputs[0], axis);
    return entries >= 0 && entries == behind(node.outputs[0], result);
  }
  // How many entries stand behind one along an axis; -1: no number.
  std::int64_t behind(const std::string& value, int axis) const {
    const std::vector<Dim>& dims = *work_.facts.shape(value);
    return work_.facts.dims().value(work_.facts.dims().product(std::span(dims).subspan(static_cast<std::size_t>(axis) + 1))).value_or(-1);
  }

  absl::Status view(const Node& node) {
    if (!is_token(node.inputs[0])) return cannot_remove(node, "its shape depends on tokens");
    if (node.op_type == "Reshape" && marks_.at(node.inputs[0]) == Marks{{1, Of::kWindow}} && joins_rows(node.inputs[0], node.outputs[0]))
      return rows_joined(node);
    if (node.op_type == "Reshape" && marks_.at(node.inputs[0]) == Marks{{0, Of::kRows}} && joins_rows(node.outputs[0], node.inputs[0]))
      return rows_apart(node);
    Marks result;
    std::map<int, WindowSide::Entry> entries;
    std::optional<int> moved;
    for (const auto& [axis, of] : marks_.at(node.inputs[0])) {
      const auto to = axis_behind_view(node, axis);
      if (!to || result.contains(*to) || (of == Of::kPlaces && !axis_in_front(node, *to, axis)))
        return cannot_remove(node, fmt::format("tokens, along axis {} of '{}', don't stay apart", axis, node.inputs[0]));
      result[*to] = of;
      entries[*to] = WindowSide::Entry::kTokens;
      if (!axis_in_front(node, *to, axis)) moved = axis;
    }
    std::vector<std::string> inputs = node.inputs;
    if (moved && result.size() > 1) return cannot_remove(node, "it turns tokens, and has places, too");
    marks_[node.outputs[0]] = result;
    if (moved) return turned(node, *moved, result.begin()->first);
    if (node.op_type == "Reshape") inputs[1] = side_.resized(node, 1, entries);
    return made(node, inputs);
  }
  // Whether [batch, window, ...] becomes [batch * window, ...]. A window of one token is told from heads by the number of dims.
  bool joins_rows(const std::string& apart, const std::string& together) const {
    if (rank(apart) != rank(together) + 1 || rank(apart) < 2 || (work_.window == 1 && rank(apart) != 3)) return false;
    const std::vector<Dim>&from = *work_.facts.shape(apart), &to = *work_.facts.shape(together);
    DimTable& dims = work_.facts.dims();
    return work_.size(apart, 1) == work_.window && dims.equal(dims.mul(from[0], from[1]), to[0]) &&
           std::equal(from.begin() + 2, from.end(), to.begin() + 1, [&](Dim a, Dim b) { return dims.equal(a, b); });
  }
  absl::Status rows_joined(const Node& node) {
    marks_[node.outputs[0]] = {{0, Of::kRows}};
    return made(node, {node.inputs[0], side_.resized(node, 1, {{0, WindowSide::Entry::kRest}})});
  }
  absl::Status rows_apart(const Node& node) {
    marks_[node.outputs[0]] = {{1, Of::kWindow}};
    return made(node, {node.inputs[0], side_.resized(node, 1, {{0, WindowSide::Entry::kRest}, {1, WindowSide::Entry::kTokens}})});
  }

  // Where an axis stands among others of a value, if so many entries are to stand behind it; nullopt: nowhere.
  std::optional<std::size_t> place_among(const std::string& value, const std::vector<int>& others, std::int64_t entries) const {
    std::size_t place = others.size();
    for (std::int64_t behind = 1; behind <= entries; behind *= work_.size(value, others[--place])) {
      if (behind == entries) return place;
      if (place == 0 || work_.size(value, others[place - 1]) < 1) break;
    }
    return std::nullopt;
  }
  std::vector<int> other_axes(const std::string& value, int axis) const {
    std::vector<int> others;
    for (int k = 0; k < rank(value); ++k)
      if (k != axis) others.push_back(k);
    return others;
  }

  // A Reshape that was a Transpose of one token: in front of it, or behind it.
  absl::Status turned(const Node& node, int from, int to) {
    const std::string &value = node.inputs[0], &result = node.outputs[0];
    std::vector<int> others = other_axes(value, from);
    if (const auto place = place_among(value, others, behind(result, to))) {
      others.insert(others.begin() + static_cast<std::ptrdiff_t>(*place), from);
      const std::string front = writer_.node("Transpose", {value}, value + "_turned",
                                             {Attribute::of("perm", std::vector<std::int64_t>(others.begin(), others.end()))});
      return made(node, {front, side_.resized(node, 1, {{to, WindowSide::Entry::kTokens}})});
    }
    others = other_axes(result, to);
    const auto place = place_among(result, others, behind(value, from));
    if (!place) return cannot_remove(node, "where it puts tokens is not known");
    std::vector<std::int64_t> sizes, perm;
    for (const int k : others) sizes.push_back(std::max<std::int64_t>(work_.size(result, k), 0));
    for (std::int64_t k = 0; k < static_cast<std::int64_t>(sizes.size()); ++k)
      perm.push_back(k < static_cast<std::int64_t>(*place) ? k : k + 1);
    if (std::count(sizes.begin(), sizes.end(), 0) > (*place > 0 && sizes[0] == 0 ? 1 : 0))
      return cannot_remove(node, "a size of its result is not known");
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(*place), -1);
    perm.insert(perm.begin() + to, static_cast<std::int64_t>(*place));
    const std::string in_order = writer_.node("Reshape", {value, writer_.ints(sizes)}, result + "_in_order");
    writer_.node("Transpose", {in_order}, "", {Attribute::of("perm", perm)}, result);
    return absl::OkStatus();
  }

  absl::Status expand(const Node& node) {
    if (!is_token(node.inputs[0])) return cannot_remove(node, "its shape depends on tokens");
    std::map<int, WindowSide::Entry> entries;
    const int shift = rank(node.outputs[0]) - rank(node.inputs[0]);
    Marks& result = marks_[node.outputs[0]];
    for (const auto& [axis, of] : marks_.at(node.inputs[0])) {
      if (work_.size(node.outputs[0], axis + shift) != work_.size(node.inputs[0], axis)) return cannot_remove(node, "it repeats tokens");
      result[axis + shift] = of;
      entries[axis + shift] = WindowSide::Entry::kOne;
    }
    return made(node, {node.inputs[0], side_.resized(node, 1, entries)});
  }

  // The last of all places are those that tokens attend to.
  absl::Status slice(const Node& node) {
    const Marks& marks = marks_.at(node.inputs[0]);
    const auto numbers = [&](std::size_t i) { return i < node.inputs.size() ? work_.facts.ints(node.inputs[i]) : std::nullopt; };
    const auto starts = numbers(1), ends = numbers(2), axes = numbers(3), steps = numbers(4);
    if (!starts || !ends || !axes) return cannot_remove(node, "where it cuts is no constant");
    const int all = rank(node.inputs[0]);
    std::size_t whole = 0;
    for (std::size_t i = 0; i < axes->size(); ++i) {
      const auto axis = static_cast<int>((*axes)[i] < 0 ? (*axes)[i] + all : (*axes)[i]);
      if (!marks.contains(axis)) continue;
      const std::int64_t had = work_.size(node.inputs[0], axis), has = work_.size(node.outputs[0], axis);
      const bool last = ((*starts)[i] == had - has || (*starts)[i] == -has) && (*ends)[i] >= had && (!steps || (*steps)[i] == 1);
      if (!last || (had != has && marks.at(axis) == Of::kWindow)) return cannot_remove(node, "it takes tokens out of all");
      ++whole;
    }
    marks_[node.outputs[0]] = marks;
    if (whole == 0) return made(node, node.inputs);
    std::vector<std::vector<std::int64_t>> others(4);  // starts, ends, axes, steps
    for (std::size_t i = 0; i < axes->size(); ++i) {
      if (marks.contains(static_cast<int>((*axes)[i] < 0 ? (*axes)[i] + all : (*axes)[i]))) continue;
      others[0].push_back((*starts)[i]);
      others[1].push_back((*ends)[i]);
      others[2].push_back((*axes)[i]);
      others[3].push_back(steps ? (*steps)[i] : 1);
    }
    if (whole == axes->size()) {
      writer_.node("Identity", {node.inputs[0]}, "", {}, node.outputs[0]);
      return absl::OkStatus();
    }
    std::vector<std::string> inputs{node.inputs[0]};
    for (const auto& numbers : others) inputs.push_back(writer_.ints(numbers));
    return made(node, inputs);
  }

  // A token does not see later ones; and where fewer places are attended to than others have, none that has left them.
  std::string visible(std::int64_t places) { return side_.visible(places < work_.places ? std::optional(places) : std::nullopt); }

  absl::Status softmax(const Node& node) {
    const Marks& marks = marks_.at(node.inputs[0]);
    const std::int64_t given = int_attribute(node, "axis", -1);
    const int all = rank(node.inputs[0]);
    const auto along = static_cast<int>(given < 0 ? given + all : given);
    marks_[node.outputs[0]] = marks;
    const auto at = marks.find(along);
    if (at == marks.end()) return made(node, node.inputs);
    const auto row = axis_of(marks, Of::kWindow);
    if (at->second == Of::kWindow || !row || *row > along) return cannot_remove(node, "it mixes tokens of the window");
    std::string seen = visible(work_.size(node.inputs[0], along));
    std::vector<std::int64_t> between;
    for (int k = 1; k < all - *row; ++k)
      if (k != along - *row) between.push_back(k);
    if (!between.empty()) seen = writer_.node("Unsqueeze", {seen, writer_.ints(between)}, "causal_mask_apart");
    return made(node, {side_.hidden(seen, node.inputs[0])});
  }

  // Of the past that an Attention takes itself, and the present that it makes: nothing stands in front of the window.
  absl::Status with_past(const Node& node, std::vector<std::string>& inputs) {
    for (const std::size_t i : {1, 2}) {
      const std::string& past = node.inputs[i + 3];
      const bool apart = rank(inputs[i]) == 4;
      if (!pasts_.contains(past)) return cannot_remove(node, fmt::format("it reads '{}' as its past", past));
      const auto marks = marks_.find(inputs[i]);
      if (marks == marks_.end() || marks->second.size() != 1 || marks->second.begin()->second != Of::kWindow)
        return cannot_remove(node, "its keys and values are not those of the window");
      const int axis = apart ? 2 : 1;
      if (const int at = marks->second.begin()->first; at != axis) inputs[i] = swapped(inputs[i], at, axis);
      if (node.outputs.size() <= i || node.outputs[i].empty()) continue;
      marks_[node.outputs[i]] = {{2, Of::kPlaces}};
      if (apart) {
        writer_.node("Identity", {inputs[i]}, "", {}, node.outputs[i]);
        continue;
      }
      const std::string heads =
          writer_.node("Reshape", {inputs[i], writer_.ints({0, -1, work_.size(past, 1), work_.size(past, 3)})}, inputs[i]);
      writer_.node("Transpose", {heads}, "", {Attribute::of("perm", std::vector<std::int64_t>{0, 2, 1, 3})}, node.outputs[i]);
    }
    return absl::OkStatus();
  }

  absl::Status attention(const Node& node) {
    const bool past = node.inputs.size() > 5 && !node.inputs[4].empty() && !node.inputs[5].empty();
    for (std::size_t i = past ? 6 : 4; i < node.inputs.size(); ++i)
      if (!node.inputs[i].empty()) return cannot_remove(node, fmt::format("it reads '{}'", node.inputs[i]));
    for (std::size_t i = past ? 3 : 1; i < node.outputs.size(); ++i)
      if (!node.outputs[i].empty()) return cannot_remove(node, fmt::format("it makes '{}', too", node.outputs[i]));
    std::vector<std::string> inputs(node.inputs.begin(), node.inputs.begin() + 3);
    const int tokens = rank(inputs[0]) - 2;  // of [batch, heads, tokens, size] or [batch, tokens, size]
    for (std::size_t i = 0; i < (past ? 1 : 3); ++i) {
      const Of wanted = i == 0 ? Of::kWindow : Of::kPlaces;
      const auto marks = marks_.find(inputs[i]);
      const int axis = rank(inputs[i]) == 4 ? 2 : 1;
      if (marks != marks_.end() && marks->second == Marks{{axis, wanted}}) continue;
      const auto at = marks == marks_.end() ? std::nullopt : axis_of(marks->second, wanted);
      if (!at || marks->second.size() > 1 || work_.size(inputs[i], axis) != 1 || i > 0)
        return cannot_remove(
            node, i == 0 ? "its queries are not those of the window" : "it attends to something else than the past and the window");
      inputs[i] = swapped(inputs[i], *at, axis);
    }
    if (past)
      if (absl::Status s = with_past(node, inputs); !s.ok()) return s;
    Node changed = node;
    std::erase_if(changed.attributes, [](const Attribute& a) { return a.name == "is_causal"; });
    changed.outputs.resize(1);
    changed.origin = nullptr;
    const std::int64_t places =
        past ? work_.size(node.inputs[4], 2) + work_.window : work_.size(node.inputs[1], rank(node.inputs[1]) == 4 ? 2 : 1);
    if (node.inputs.size() > 3 && !node.inputs[3].empty()) {
      if (is_token(node.inputs[3])) return cannot_remove(node, "its mask depends on what the tokens are");
      const int all = rank(node.inputs[3]);
      absl::StatusOr<std::string> mask = side_.at_tokens(node, node.inputs[3], {all - 2, all - 1});
      if (!mask.ok()) return mask.status();
      const std::string seen = visible(places);
      inputs.push_back(work_.facts.dtype(node.inputs[3]) == DType::kBool ? writer_.node("And", {*mask, seen}, "causal_mask_and")
                                                                         : side_.hidden(seen, *mask));
    } else if (places < work_.places) {
      inputs.push_back(visible(places));
    } else {
      changed.attributes.push_back(Attribute::of("is_causal", std::int64_t{1}));
    }
    marks_[node.outputs[0]][tokens] = Of::kWindow;
    return made(std::move(changed), inputs);
  }

  absl::Status rotary(const Node& node) {
    std::vector<std::string> inputs = node.inputs;
    const int axis = rank(inputs[0]) == 4 ? 2 : 1;
    const auto marks = marks_.find(inputs[0]);
    if (marks == marks_.end() || marks->second.size() != 1) return cannot_remove(node, "it turns something else than tokens");
    const auto [at, of] = *marks->second.begin();
    if (at != axis) {
      if (work_.window != 1 || of != Of::kWindow || work_.size(inputs[0], axis) != 1)
        return cannot_remove(node, "its tokens stand elsewhere");
      inputs[0] = swapped(inputs[0], at, axis);
    }
    const bool by_index = inputs.size() > 3 && !inputs[3].empty();
    for (std::size_t i = by_index ? 3 : 1; i < inputs.size(); ++i) {
      if (inputs[i].empty() || is_token(inputs[i])) continue;
      const Placed read = of == Of::kWindow ? Placed{1, std::nullopt} : Placed{std::nullopt, 1};
      absl::StatusOr<std::string> made = side_.at_tokens(node, inputs[i], read);
      if (!made.ok()) return made.status();
      inputs[i] = *std::move(made);
    }
    marks_[node.outputs[0]][axis] = of;
    return made(node, inputs);
  }

  // Dims of inputs and outputs that count tokens.
  void open_dims() {
    Graph& graph = made_.graph;
    const DimSpec& batch = (*find_named(graph.inputs, work_.inputs.ids)->type.shape)[0];
    const DimSpec tokens = batch == DimSpec("sequence_length") ? "tokens" : "sequence_length";
    for (auto* infos : {&graph.inputs, &graph.outputs})
      for (ValueInfo& info : *infos) {
        const auto marks = marks_.find(info.name);
        if (marks == marks_.end() || !info.type.shape) continue;
        info.origin = nullptr;
        for (const auto& [axis, of] : marks->second)
          if (axis < static_cast<int>(info.type.shape->size())) (*info.type.shape)[static_cast<std::size_t>(axis)] = tokens;
      }
  }

  const Model& model_;
  Model made_;
  FreshNames fresh_;
  GraphWriter writer_;
  WindowWork work_;
  WindowSide side_;
  std::map<std::string, Marks> marks_;  // of what depends on the tokens
  std::set<std::string> pasts_;         // and what is made of them alone
};

}  // namespace

absl::StatusOr<Model> without_window(const Model& model, const WindowInputs& inputs) {
  const auto facts = DecoderFacts::as_declared(model);
  if (!facts.ok()) return facts.status();
  return WindowRemover(model, inputs, **facts).run();
}

}  // namespace saturate
