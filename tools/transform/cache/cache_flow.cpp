// The token side of a decoder: along its tokens it computes each alone, but for attention.
#include <algorithm>
#include <limits>
#include <set>

#include "fmt/format.h"
#include "onnx_bridge/model/node_order.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/op_traits.h"
#include "tools/transform/cache/cache_parts.h"
#include "tools/transform/cache/node_axes.h"
#include "tools/transform/edit.h"

namespace saturate {
namespace {

class TokenFlow {
 public:
  TokenFlow(const Model& model, const CacheOptions& options, const DecoderFacts& facts, bool own_indices)
      : model_(model),
        fresh_(model.graph),
        writer_(result_.graph, fresh_),
        work_{facts, options, writer_, own_indices},
        positions_(work_),
        whole_(work_, positions_),
        given_(work_) {}

  absl::StatusOr<CachedModel> run() && {
    result_ = model_;
    result_.graph.nodes.clear();
    result_.graph.value_info.clear();
    for (const std::string& name : work_.options.tokens) {
      Axes& axes = work_.tokens[name];
      axes.resize(work_.facts.rank(name), Axis::kNone);
      axes[1] = Axis::kNew;
    }
    for (const Node& node : model_.graph.nodes)
      if (absl::Status s = see(node); !s.ok()) return s;
    std::vector<CacheSlot> slots = std::move(whole_).take_slots();
    if (slots.empty()) return absl::UnimplementedError("no cache: no attention was found that puts tokens beside each other");
    const CacheDims dims = cache_dims(result_.graph, work_.options);
    declare_outputs(dims);
    absl::StatusOr<Model> once = given_.once(model_);
    if (!once.ok()) return once.status();
    given_.finish(result_.graph, positions_.given());
    CachedModel made{.model = std::move(result_), .slots = std::move(slots), .given = given_.slots(), .once = *std::move(once)};
    made.counted = positions_.counted();
    declare_caches(made, work_.options, dims);
    erase_unread(made.model.graph, {});
    drop_unread_given(made.model.graph);
    for (const ValueInfo& output : model_.graph.outputs) {
      int& axis = made.outputs[output.name] = -1;
      if (token(output.name))
        for (int i = 0; i < rank(output.name); ++i)
          if (axes(output.name)[i] == Axis::kNew) axis = i;
    }
    return made;
  }

 private:
  const DecoderFacts& facts() const { return work_.facts; }
  bool token(const std::string& value) const { return work_.is_token(value); }
  const Axes& axes(const std::string& value) const { return work_.tokens.at(value); }
  int rank(const std::string& value) const { return facts().rank(value); }
  // Whether axis `i` of a value of the position side has entries of positions.
  bool spans(const std::string& value, int i) const { return facts().spans(value, i).value_or(true); }
  bool spans(const std::string& value) const { return facts().spans(value); }

  absl::Status see(const Node& node) {
    const std::vector<std::string> read = names_read(node);
    if (node.domain.empty() && node.op_type == "Shape" && (token(node.inputs[0]) || given_.has(node.inputs[0]))) return shape(node);
    if (is_mask(node)) return mask(node);
    if (std::none_of(read.begin(), read.end(), [&](const std::string& name) { return token(name); })) {
      if (std::any_of(read.begin(), read.end(), [&](const std::string& name) { return given_.has(name); })) given_.take(node);
      writer_.graph().nodes.push_back(node);
      return absl::OkStatus();
    }
    for (const std::string& name : read)
      if (!name.empty() && !facts().shape(name))
        return cannot_cache(node, fmt::format("the rank of '{}', which it reads, is not known", name));
    for (const std::string& name : node.outputs)
      if (!name.empty() && !facts().shape(name)) return cannot_cache(node, fmt::format("the rank of its result '{}' is not known", name));
    return through(node);
  }

  absl::Status through(const Node& node) {
    if (is_operator(node, "MatMul")) return product(node);
    if (is_operator(node, "Attention")) return attention(node);
    if (is_operator(node, "Slice")) return slice(node);
    return has(Trait::kView, node) && !is_elementwise(node) ? view(node) : by_links(node);
  }

  // Writes the node with other inputs; all its results have these axes.
  absl::Status made(const Node& node, std::vector<std::string> inputs, const Axes& result) {
    return made(node, std::move(inputs), std::vector<Axes>(node.outputs.size(), result));
  }
  absl::Status made(const Node& node, std::vector<std::string> inputs, const std::vector<Axes>& results) {
    const bool sized = node.domain.empty() && one_of(node.op_type, {"Reshape", "Expand", "Slice"});
    const auto tells_position = [&](const std::string& input) {
      if (token(input)) return work_.positional.contains(input);
      const bool sizes = sized && &input != node.inputs.data();
      return !input.empty() && !sizes && positions_.tells_index(input);
    };
    return made(node, std::move(inputs), results, std::any_of(node.inputs.begin(), node.inputs.end(), tells_position));
  }
  // `positional`: whether results depend on where the tokens stand.
  absl::Status made(const Node& node, std::vector<std::string> inputs, const std::vector<Axes>& results, bool positional) {
    Node changed = node;
    if (inputs != node.inputs) changed.origin = nullptr;
    changed.inputs = std::move(inputs);
    writer_.graph().nodes.push_back(std::move(changed));
    mark(node, results, positional);
    return absl::OkStatus();
  }
  void mark(const Node& node, const std::vector<Axes>& results, bool positional) {
    const bool scattered =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& i) { return work_.scattered.contains(i); });
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (!node.outputs[i].empty()) {
        work_.tokens[node.outputs[i]] = results[i];
        if (positional) work_.positional.insert(node.outputs[i]);
        if (scattered) work_.scattered.insert(node.outputs[i]);
      }
  }

  bool is_mask(const Node& node) const {
    const auto& masks = work_.options.masks;
    return node.op_type == "Identity" && std::find(masks.begin(), masks.end(), node.inputs[0]) != masks.end();
  }
  // Says what its name can't: it is as long as the cache and the new tokens together.
  absl::Status mask(const Node& node) {
    const std::string sizes =
        writer_.node("Concat", {writer_.ints({0}), positions_.all_tokens()}, "mask_sizes", {Attribute::of("axis", std::int64_t{0})});
    writer_.node("Reshape", {node.inputs[0], sizes}, "", {}, node.outputs[0]);
    return absl::OkStatus();
  }

  // A size of the token side is one of the whole length, as all numbers of the position side.
  absl::Status shape(const Node& node) {
    const std::vector<Dim>* dims = facts().shape(node.inputs[0]);
    if (!dims) return cannot_cache(node, fmt::format("the rank of '{}' is not known", node.inputs[0]));
    const auto rank = static_cast<std::int64_t>(dims->size());
    const auto at = [&](const char* name, std::int64_t otherwise) {
      const std::int64_t i = int_attribute(node, name, otherwise);
      return std::clamp<std::int64_t>(i < 0 ? i + rank : i, 0, rank);
    };
    const std::int64_t first = at("start", 0), last = std::max(at("end", rank), first);
    const std::vector<Dim> part(dims->begin() + first, dims->begin() + last);
    const absl::StatusOr<std::string> made = positions_.sizes(node, part, Axes(part.size(), Axis::kAll), nullptr, {});
    if (!made.ok() && !given_.has(node.inputs[0])) return made.status();
    if (made.ok())
      writer_.node("Identity", {*made}, "", {}, node.outputs[0]);
    else
      writer_.graph().nodes.push_back(node);
    return absl::OkStatus();
  }

  // Keys and values of cross attention are computed once; anything else of what is given is computed in each step.
  void drop_unread_given(Graph& graph) const {
    std::erase_if(graph.inputs, [&](const ValueInfo& input) {
      const auto& given = work_.options.given;
      return std::find(given.begin(), given.end(), input.name) != given.end() && reads_of(graph, input.name) == 0;
    });
  }

  static bool has_all(const Axes& axes) { return std::find(axes.begin(), axes.end(), Axis::kAll) != axes.end(); }

  // The value as an operator reads it whose result's last axes are aligned with the value's.
  absl::StatusOr<std::string> beside(const Node& node, const std::string& value, const Axes& result) {
    return beside(node, value, result, has_all(result));
  }
  // `scores`: of tokens beside all positions, where a token stands at its place among them.
  absl::StatusOr<std::string> beside(const Node& node, const std::string& value, const Axes& result, bool scores) {
    if (value.empty() || token(value)) return value;
    std::string at = value;
    const int shift = static_cast<int>(result.size()) - rank(value);
    for (int i = 0; i < rank(value); ++i)
      if (spans(value, i) && result[i + shift] == Axis::kNew) {
        absl::StatusOr<std::string> rows = positions_.rows(node, value, i, scores ? RowIndex::kOfPlace : RowIndex::kOfToken);
        if (!rows.ok()) return rows;
        if (at != value) return cannot_cache(node, fmt::format("'{}' has two axes of new tokens", value));
        at = *std::move(rows);
      } else if (result[i + shift] == Axis::kNew && facts().along_given(value, i)) {
        return cannot_cache(node, fmt::format("tokens stand beside the entries of '{}', which is given", value));
      }
    return at;
  }

  absl::Status mixes(const Node& node) {
    if (is_operator(node, "NonZero"))
      return cannot_cache(
          node, "it finds tokens by their numbers, as loops over experts do; `saturate --target ort-cpu@1.31` before makes MoE of them");
    const std::string_view help =
        is_operator(node, "CumSum") ? "; where it counts tokens that are no padding, put padding_by_mask before" : "";
    return cannot_cache(node, fmt::format("it mixes tokens, so that a new one changes what was computed of earlier ones{}", help));
  }

  // What is known of the axes of a node, and what stands on them.
  struct Linked {
    OpAxes axes;
    std::map<const AxisLink*, Axis> marks = {};
    std::vector<Axes> results = {};
  };

  // Each place of what is linked is apart, or beside all the others that there are.
  absl::Status by_links(const Node& node) {
    auto axes = axes_of(ViewOfFacts(facts(), node));
    if (!axes) return cannot_cache(node, "nothing is known of what it does along the tokens");
    Linked found{.axes = *std::move(axes)};
    for (const std::string& output : node.outputs) found.results.emplace_back(rank(output), Axis::kNone);
    for (const bool tokens : {true, false})
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (const std::string& input = node.inputs[i]; !input.empty() && token(input) == tokens)
          for (int k = 0; k < rank(input); ++k) {
            const Axis axis = tokens ? this->axes(input)[k] : spans(input, k) ? Axis::kAll : Axis::kNone;
            if (axis == Axis::kNone) continue;
            if (absl::Status s = put(node, found, {{static_cast<int>(i)}, k}, axis); !s.ok()) return s;
          }
    const bool sized = found.axes.sizes.has_value();
    for (int k = 0; sized && k < rank(node.outputs[0]); ++k)
      if (Axis& into = found.results[0][k]; into == Axis::kNone && spans(node.outputs[0], k)) into = Axis::kAll;
    absl::StatusOr<std::vector<std::string>> inputs = read_by_links(node, found);
    if (!inputs.ok()) return inputs.status();
    return sized ? resized(node, found.results[0], nullptr, {}) : made(node, *std::move(inputs), found.results);
  }

  // Marks what has the entries of an axis of an input.
  absl::Status put(const Node& node, Linked& found, const AxisAt& at, Axis axis) {
    const std::string& input = node.inputs[at.port.index];
    const AxisLink* link = found.axes.link(at.port, at.axis);
    if (!link) return put_unlinked(node, found, at, axis);
    if (token(input) && axis == Axis::kNew && !link->apart) return mixes(node);
    const auto [it, is_first] = found.marks.emplace(link, axis);
    if (!is_first && it->second != axis) {
      if (!token(input)) return absl::OkStatus();  // its rows are taken
      return cannot_cache(node, fmt::format("'{}' stands along all positions for one input and along the new tokens for another", input));
    }
    for (const AxisAt& to : link->outputs) {
      Axis& into = found.results[to.port.index][to.axis];
      into = axis;
    }
    return absl::OkStatus();
  }

  // The last token of all is sure to be a new one; the choice of one among all positions, and what goes along all of them, is theirs.
  absl::Status put_unlinked(const Node& node, Linked& found, const AxisAt& at, Axis axis) {
    const std::string& input = node.inputs[at.port.index];
    if (!token(input)) {
      if (found.axes.sizes == at.port.index) return absl::OkStatus();
      return cannot_cache(node, fmt::format("its input '{}' depends on tokens", input));
    }
    if (axis == Axis::kNew) {
      if (!is_operator(node, "Gather") || at.port.index != 0) return mixes(node);
      const auto taken = facts().ints(node.inputs[1]);
      if (!taken || std::any_of(taken->begin(), taken->end(), [](std::int64_t i) { return i != -1; }))
        return cannot_cache(node, "it takes tokens out of all; only the last one is sure to be a new one");
      return absl::OkStatus();
    }
    if ((has(Trait::kLikeFirst, node) && at.port.index == 0) || is_operator(node, "Concat")) {
      found.results[0][at.axis] = axis;
      return absl::OkStatus();
    }
    return is_choice(node, found.axes) ? absl::OkStatus() : mixes(node);
  }
  // Whether it makes one entry of all those along what is not linked.
  bool is_choice(const Node& node, const OpAxes& axes) const {
    for (int o = 0; o < static_cast<int>(node.outputs.size()); ++o)
      for (int k = 0; k < rank(node.outputs[o]); ++k)
        if (!axes.link({o, true}, k) && facts().dims().value((*facts().shape(node.outputs[o]))[k]) != 1) return false;
    return node.inputs.size() == 1;
  }

  // Of what does not depend on the tokens, the rows of new ones.
  absl::StatusOr<std::vector<std::string>> read_by_links(const Node& node, const Linked& found) {
    const bool scores = std::any_of(found.results.begin(), found.results.end(), has_all);
    std::vector<std::string> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      Axes beside_it(rank(node.inputs[i]), Axis::kNone);
      for (const auto& [link, axis] : found.marks)
        if (const AxisAt* at = link->of({static_cast<int>(i)})) beside_it[at->axis] = axis;
      absl::StatusOr<std::string> read = beside(node, node.inputs[i], beside_it, scores);
      if (!read.ok()) return read.status();
      inputs.push_back(*std::move(read));
    }
    return inputs;
  }

  // Scores, sums of values by weights, and products with weights.
  absl::Status product(const Node& node) {
    const std::string &a = node.inputs[0], &b = node.inputs[1];
    const int ra = rank(a), rb = rank(b);
    if (ra < 2 || rb < 2) return cannot_cache(node, "an operand has less than two dims");
    const auto kind = [&](const std::string& v, int i) { return token(v) ? axes(v)[i] : spans(v, i) ? Axis::kAll : Axis::kNone; };
    std::vector<std::string> inputs = node.inputs;
    const Axis summed_a = kind(a, ra - 1), summed_b = kind(b, rb - 2);
    if (token(a) && summed_a == Axis::kNew) return mixes(node);
    Axis row = kind(a, ra - 2), column = kind(b, rb - 1);
    const auto whole_b = [&](const char* part) -> absl::Status {
      absl::StatusOr<std::string> all = whole_.whole(node, b, part);
      if (!all.ok()) return all.status();
      inputs[1] = *std::move(all);
      return absl::OkStatus();
    };
    if (given_.has(b))
      if (absl::Status s = given_.attended(node, b, facts().along_given(b, rb - 1) ? "key" : "value"); !s.ok()) return s;
    if (token(b) && summed_b == Axis::kNew) {
      if (summed_a != Axis::kAll) return mixes(node);
      if (absl::Status s = whole_b("value"); !s.ok()) return s;
      if (!token(a) && row == Axis::kAll) {  // sums over positions by weights that depend on positions alone
        absl::StatusOr<std::string> rows = positions_.rows(node, a, ra - 2, RowIndex::kOfPlace);
        if (!rows.ok()) return rows.status();
        inputs[0] = *std::move(rows);
        row = Axis::kNew;
      }
    } else if (summed_a != summed_b) {
      return mixes(node);
    } else if (token(b) && column == Axis::kNew && row != Axis::kNone) {
      if (row == Axis::kAll) return cannot_cache(node, "keys stand before queries");
      if (absl::Status s = whole_b("key"); !s.ok()) return s;
      column = Axis::kAll;
    }
    return batched(node, std::move(inputs), row, column);
  }
  // The axes in front of the last two broadcast.
  absl::Status batched(const Node& node, std::vector<std::string> inputs, Axis row, Axis column) {
    const int r = rank(node.outputs[0]);
    Axes result(r, Axis::kNone);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::string& value = node.inputs[i];
      for (int at = 0; at < rank(value) - 2; ++at) {
        const Axis axis = token(value) ? axes(value)[at] : spans(value, at) ? Axis::kAll : Axis::kNone;
        if (axis == Axis::kNone) continue;
        Axis& into = result[at + r - rank(value)];
        if (!token(value) || (into != Axis::kNone && into != axis) || inputs[i] != value)
          return cannot_cache(node, "new tokens stand beside all positions");
        into = axis;
      }
    }
    result[r - 2] = row;
    result[r - 1] = column;
    if (inputs[1] == node.inputs[1]) return made(node, std::move(inputs), result);
    const bool scores = column == Axis::kAll;  // of queries and keys, which tell how far two tokens are from each other
    return made(node, std::move(inputs), {result}, !scores && work_.positional.contains(node.inputs[1]));
  }
  absl::Status attention(const Node& node) {
    std::vector<std::string> inputs = node.inputs;
    inputs.resize(std::max<std::size_t>(inputs.size(), 4));
    for (std::size_t i = 4; i < inputs.size(); ++i)
      if (!inputs[i].empty()) return cannot_cache(node, "it has a cache already");
    for (std::size_t i = 1; i < node.outputs.size(); ++i)
      if (!node.outputs[i].empty()) return cannot_cache(node, fmt::format("its output '{}' is read", node.outputs[i]));
    const Axes heads{Axis::kNone, Axis::kNone, Axis::kNew, Axis::kNone};
    if (!token(inputs[0]) || axes(inputs[0]) != heads) return cannot_cache(node, "its queries are not of new tokens");
    if (given_.has(inputs[1]) && given_.has(inputs[2])) return cross_attention(node, std::move(inputs));
    for (const std::size_t i : {1, 2}) {
      if (!token(inputs[i]) || axes(inputs[i]) != heads)
        return cannot_cache(node, "it attends to something else than the tokens themselves, and than what is given");
      if (work_.options.group_query()) continue;
      absl::StatusOr<std::string> all = whole_.whole(node, inputs[i], i == 1 ? "key" : "value");
      if (!all.ok()) return all.status();
      inputs[i] = *std::move(all);
    }
    if (!inputs[3].empty()) {
      absl::StatusOr<std::string> mask = beside(node, inputs[3], {Axis::kNone, Axis::kNone, Axis::kNew, Axis::kAll});
      if (!mask.ok()) return mask.status();
      if (token(inputs[3]))
        for (int i = 1; i <= std::min(2, rank(inputs[3])); ++i)
          if (const Axis axis = axes(inputs[3])[rank(inputs[3]) - i]; axis != Axis::kNone && axis != (i == 1 ? Axis::kAll : Axis::kNew))
            return cannot_cache(node, "its mask depends on what the tokens are; give the mask as an input");
      inputs[3] = *std::move(mask);
    }
    // Queries and keys tell how far two tokens are from each other; what is taken of a token is its value.
    const bool positional = work_.positional.contains(node.inputs[2]);
    if (work_.options.group_query()) {
      mark(node, {heads}, positional);
      return whole_.attend_in_group(node, inputs[3]);  // which is causal by itself
    }
    Node changed = node;
    if (int_attribute(node, "is_causal", 0) != 0) {
      inputs[3] = positions_.with_causal(node, inputs[3]);
      std::erase_if(changed.attributes, [](const Attribute& a) { return a.name == "is_causal"; });
      changed.origin = nullptr;
    }
    if (inputs[3].empty()) inputs.resize(3);
    return made(changed, std::move(inputs), {heads}, positional);
  }
  // Of new tokens, to what is given.
  absl::Status cross_attention(const Node& node, std::vector<std::string> inputs) {
    if (int_attribute(node, "is_causal", 0) != 0) return cannot_cache(node, "it hides some of what is given by the index of a token");
    for (const std::size_t i : {1, 2})
      if (absl::Status s = given_.attended(node, inputs[i], i == 1 ? "key" : "value"); !s.ok()) return s;
    const Axes heads = axes(inputs[0]);
    if (inputs[3].empty()) {
      inputs.resize(3);
    } else if (token(inputs[3])) {
      return cannot_cache(node, "its mask depends on what the tokens are; give the mask as an input");
    } else {
      absl::StatusOr<std::string> mask = beside(node, inputs[3], {Axis::kNone, Axis::kNone, Axis::kNew, Axis::kNone});
      if (!mask.ok()) return mask.status();
      inputs[3] = *std::move(mask);
    }
    const bool positional = work_.positional.contains(inputs[0]);
    return made(node, std::move(inputs), {heads}, positional);
  }
  absl::Status slice(const Node& node) {
    if (!token(node.inputs[0])) return cannot_cache(node, "where it cuts depends on tokens");
    Axes result = axes(node.inputs[0]);
    std::vector<std::optional<std::vector<std::int64_t>>> given;
    for (std::size_t i = 1; i < 5; ++i)
      given.push_back(i < node.inputs.size() && !node.inputs[i].empty() ? facts().ints(node.inputs[i]) : std::nullopt);
    const auto &from = *facts().shape(node.inputs[0]), &to = *facts().shape(node.outputs[0]);
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (result[i] == Axis::kNone || facts().dims().equal(from[i], to[i])) continue;
      if (result[i] == Axis::kAll) {  // of all positions, some
        if (!spans(node.outputs[0], static_cast<int>(i))) result[i] = Axis::kNone;
        continue;
      }
      const auto extent = facts().extents().of(to[i]);
      const auto& axes_given = given[2];
      const auto at =
          axes_given ? std::find_if(axes_given->begin(), axes_given->end(),
                                    [&](std::int64_t a) {
                                      return (a < 0 ? a + static_cast<std::int64_t>(result.size()) : a) == static_cast<std::int64_t>(i);
                                    })
                     : std::vector<std::int64_t>::const_iterator();
      const bool last = axes_given && at != axes_given->end() && given[0] && (*given[0])[at - axes_given->begin()] == -1;
      if (result[i] != Axis::kNew || !last || (extent && !(*extent == Extent{}) && extent->tokens > 0))
        return cannot_cache(node, "it takes tokens out of all; only the last one is sure to be a new one");
      result[i] = Axis::kNone;
    }
    // Cuts that keep all tokens may count on how many there were.
    std::vector<std::string> inputs = node.inputs;
    for (std::size_t i = 1; i < inputs.size(); ++i)
      if (!inputs[i].empty() && !given[i - 1]) {
        if (!whole_cut(node, inputs)) return cannot_cache(node, "where it cuts is no constant");
        break;
      }
    return made(node, std::move(inputs), result);
  }
  // Ends that are sizes of the axes become "to the end".
  bool whole_cut(const Node& node, std::vector<std::string>& inputs) {
    const auto starts = facts().ints(inputs[1]);
    if (!starts || inputs.size() < 4 || !facts().ints(inputs[3]) || (inputs.size() > 4 && !facts().ints(inputs[4]))) return false;
    const auto &from = *facts().shape(node.inputs[0]), &to = *facts().shape(node.outputs[0]);
    for (const std::int64_t axis : *facts().ints(inputs[3])) {
      const auto at = static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(from.size()) : axis);
      if (!facts().dims().equal(from[at], to[at])) return false;
    }
    inputs[2] = writer_.ints(std::vector<std::int64_t>(starts->size(), std::numeric_limits<std::int64_t>::max()));
    return true;
  }

  // The axes of a result of the same entries in the same order.
  absl::StatusOr<Axes> viewed(const Node& node) {
    const bool in_runs = !work_.scattered.contains(node.inputs[0]);
    if (!token(node.inputs[0])) return cannot_cache(node, "its shape depends on tokens");
    const auto &from = *facts().shape(node.inputs[0]), &to = *facts().shape(node.outputs[0]);
    Axes result(to.size(), Axis::kNone);
    for (int i = 0; i < static_cast<int>(from.size()); ++i) {
      const Axis axis = axes(node.inputs[0])[i];
      if (axis == Axis::kNone) continue;
      const auto at = reshaped_axis(facts(), from, to, i, in_runs);
      if (!at || result[*at] != Axis::kNone)
        return cannot_cache(node, fmt::format("tokens, along axis {} of '{}', don't stay apart", i, node.inputs[0]));
      result[*at] = axis;
      if (joins_in_front(from, i, to, *at)) work_.scattered.insert(node.outputs[0]);
    }
    return result;
  }
  // Whether the axis of a view holds all tokens several times.
  bool joins_in_front(const std::vector<Dim>& from, int axis, const std::vector<Dim>& to, int at) const {
    const auto a = facts().extents().of(from[axis]), b = facts().extents().of(to[at]);
    const bool same_behind = facts().dims().equal(facts().dims().product(std::span(from).subspan(axis + 1)),
                                                  facts().dims().product(std::span(to).subspan(at + 1)));
    return !a || !b || (same_behind && b->factor > a->factor);
  }
  absl::Status view(const Node& node) {
    const absl::StatusOr<Axes> result = viewed(node);
    if (!result.ok()) return result.status();
    if (!is_operator(node, "Reshape")) return made(node, node.inputs, *result);
    return resized(node, *result, facts().shape(node.inputs[0]), axes(node.inputs[0]));
  }
  // With sizes of its own, unless they are constants, which count no tokens.
  absl::Status resized(const Node& node, const Axes& result, const std::vector<Dim>* like, const Axes& like_axes) {
    std::vector<std::string> inputs = node.inputs;
    if (!facts().constant(inputs[1])) {
      absl::StatusOr<std::string> sizes = positions_.sizes(node, *facts().shape(node.outputs[0]), result, like, like_axes);
      if (!sizes.ok()) return sizes.status();
      inputs[1] = *std::move(sizes);
    }
    return made(node, std::move(inputs), result);
  }

  // Dims of outputs that count tokens.
  void declare_outputs(const CacheDims& dims) {
    for (ValueInfo& output : result_.graph.outputs) {
      output.origin = nullptr;
      if (!token(output.name) || !output.type.shape) continue;
      if (output.type.shape->size() != axes(output.name).size()) output.type.shape.emplace(axes(output.name).size());  // wrongly declared
      for (std::size_t i = 0; i < output.type.shape->size(); ++i)
        if (const Axis axis = axes(output.name)[i]; axis != Axis::kNone) {
          const auto extent = facts().extents().of((*facts().shape(output.name))[i]);
          (*output.type.shape)[i] = extent && extent->is_tokens() ? (axis == Axis::kNew ? dims.fresh : dims.all) : DimSpec();
        }
    }
  }

  const Model& model_;
  Model result_;
  FreshNames fresh_;
  GraphWriter writer_;
  CacheWork work_;
  PositionSide positions_;
  WholeTokens whole_;
  GivenSide given_;
};

}  // namespace

absl::StatusOr<CachedModel> with_cache(const Model& model, const CacheOptions& options) {
  if (absl::Status s = check_inputs(model, options); !s.ok()) return s;
  const Model apart = with_masks_apart(model, options);
  const auto facts = DecoderFacts::of(apart, options);
  if (!facts.ok()) return facts.status();
  absl::StatusOr<CachedModel> made = TokenFlow(apart, options, **facts, false).run();
  return absl::IsFailedPrecondition(made.status()) ? TokenFlow(apart, options, **facts, true).run() : made;
}

}  // namespace saturate
