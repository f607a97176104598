// What a window's tokens read of masks, sizes and constants, for all tokens at once.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "fmt/format.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/op_traits.h"
#include "tools/transform/cache/cache_window_parts.h"
#include "tools/transform/cache/node_axes.h"
#include "tools/transform/edit.h"

namespace saturate {
namespace {

constexpr std::size_t kMostNodesOfMask = 200;

// A tensor as blocks of bytes: those along an axis, in front of it and behind it.
struct Blocks {
  std::size_t outer = 1, count = 1, inner = 1;
  Blocks(const Tensor& tensor, int axis) : inner(static_cast<std::size_t>(bit_width(tensor.dtype())) / 8) {
    for (int i = 0; i < tensor.rank(); ++i) (i < axis ? outer : i == axis ? count : inner) *= static_cast<std::size_t>(tensor.dims()[i]);
  }
  std::size_t row() const { return outer * inner; }
};

using Rows = std::vector<std::vector<std::byte>>;

Rows rows_along(const Tensor& tensor, int axis) {
  const Blocks at(tensor, axis);
  Rows rows(at.count, std::vector<std::byte>(at.row()));
  for (std::size_t o = 0; o < at.outer; ++o)
    for (std::size_t k = 0; k < at.count; ++k)
      std::memcpy(rows[k].data() + o * at.inner, tensor.bytes().data() + (o * at.count + k) * at.inner, at.inner);
  return rows;
}

// Like `like`, with these rows along an axis.
Tensor of_rows(const Tensor& like, int axis, const Rows& rows) {
  Shape dims = like.dims();
  dims[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(rows.size());
  Tensor made(like.dtype(), std::move(dims));
  const Blocks at(made, axis);
  for (std::size_t o = 0; o < at.outer; ++o)
    for (std::size_t k = 0; k < at.count; ++k)
      std::memcpy(made.mutable_data() + (o * at.count + k) * at.inner, rows[k].data() + o * at.inner, at.inner);
  return made;
}

bool all_equal(const Rows& rows) {
  return std::all_of(rows.begin(), rows.end(), [&](const auto& row) { return row == rows[0]; });
}

// Whole numbers that grow by one: the first. nullopt: others.
std::optional<std::int64_t> counts_from(const Tensor& tensor) {
  const std::vector<std::int64_t> numbers =
      tensor.dtype() == DType::kInt64   ? std::vector(tensor.span<std::int64_t>().begin(), tensor.span<std::int64_t>().end())
      : tensor.dtype() == DType::kInt32 ? std::vector<std::int64_t>(tensor.span<std::int32_t>().begin(), tensor.span<std::int32_t>().end())
                                        : std::vector<std::int64_t>();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] != numbers[0] + static_cast<std::int64_t>(i)) return std::nullopt;
  return numbers.size() < 2 ? std::nullopt : std::optional(numbers[0]);
}

}  // namespace

std::int64_t WindowWork::size(const std::string& value, int axis) const {
  const std::vector<Dim>* dims = facts.shape(value);
  if (!dims || axis < 0 || axis >= static_cast<int>(dims->size())) return -1;
  return facts.dims().value((*dims)[static_cast<std::size_t>(axis)]).value_or(-1);
}

bool is_view_of_axes(const Node& node) { return !is_elementwise(node) && (has(Trait::kView, node) || is_operator(node, "Transpose")); }

std::optional<int> axis_in_front_of_view(const WindowWork& work, const Node& node, int axis) {
  const DecoderFacts& facts = work.facts;
  const std::string& value = node.inputs[0];
  const int rank = facts.rank(value);
  if (node.op_type != "Reshape" && node.op_type != "Flatten") {
    const auto axes = axes_of(ViewOfFacts(facts, node));
    const AxisLink* link = axes ? axes->link({0, true}, axis) : nullptr;
    return link && !link->inputs.empty() ? std::optional(link->inputs[0].axis) : std::nullopt;
  }
  DimTable& dims = facts.dims();
  const std::vector<Dim>&before = *facts.shape(value), &after = *facts.shape(node.outputs[0]);
  const Dim behind = dims.product(std::span(after).subspan(static_cast<std::size_t>(axis) + 1));
  std::optional<int> found;
  for (int k = 0; k < rank; ++k)
    if (dims.equal(before[static_cast<std::size_t>(k)], after[static_cast<std::size_t>(axis)]) &&
        dims.equal(behind, dims.product(std::span(before).subspan(static_cast<std::size_t>(k) + 1))) &&
        (!found || is_row_of_heads(rank, k)))
      found = k;
  return found;
}

WindowSide::WindowSide(WindowWork& work) : work_(work) {
  for (const Initializer& weight : work.model.graph.initializers)
    if (!find_named(work.model.graph.inputs, weight.name) && bit_width(weight.tensor.dtype()) >= 8 &&
        weight.tensor.dtype() != DType::kString)
      constants_[weight.name] = weight.tensor;
  for (const Node& node : work.model.graph.nodes)
    if (is_operator(node, "Constant"))
      if (const Tensor* tensor = constant_tensor(work.model.graph, node.outputs[0])) constants_[node.outputs[0]] = *tensor;
}

const Tensor* WindowSide::constant(const std::string& value) const {
  const auto it = constants_.find(value);
  return it == constants_.end() ? nullptr : &it->second;
}

std::string WindowSide::initializer(const std::string& like, Tensor tensor) {
  std::string name = work_.writer.fresh()(like);
  work_.writer.graph().initializers.push_back({name, std::move(tensor), nullptr, false});
  return name;
}

absl::StatusOr<std::string> WindowSide::at_tokens(const Node& reader, const std::string& value, Placed at) {
  if (at.column && work_.size(value, *at.column) < 2) at.column.reset();
  if (!at.column && at.row && work_.size(value, *at.row) != work_.window) {
    if (work_.size(value, *at.row) == work_.places) at.column = at.row;
    at.row.reset();
  }
  if (value.empty() || (!at.row && !at.column)) return value;
  if (const auto it = made_.find({value, at}); it != made_.end()) return it->second;
  absl::StatusOr<std::string> result = made(reader, value, at);
  if (!result.ok() && at.column)
    if (std::string mask = of_mask(value, at); !mask.empty()) result = std::move(mask);
  if (result.ok()) made_[{value, at}] = *result;
  return result;
}

absl::StatusOr<std::string> WindowSide::made(const Node& reader, const std::string& value, Placed at) {
  if (const Tensor* tensor = constant(value)) {
    if (!at.column) return rows_of_constant(reader, value, *tensor, *at.row);
    return at.row ? by_distance(reader, value, *tensor, *at.row, *at.column) : columns_of_constant(value, *tensor, *at.column);
  }
  if (value == work_.inputs.mask && (at.column ? *at.column : *at.row) == 1) return value;
  const Node* node = work_.facts.producer(value);
  const std::vector<Dim>* dims = work_.facts.shape(value);
  const bool one = dims && std::all_of(dims->begin(), dims->end(), [&](Dim d) { return work_.facts.dims().value(d) == 1; });
  if (work_.window == 1 && !at.column && one && depends_on_before(value)) {
    if (const absl::StatusOr<std::string> each = spread(reader, value); each.ok()) return shaped(*each, value, *at.row);
  }
  if (value == work_.inputs.before && !at.column) return value;
  if (!node) return cannot_remove(reader, fmt::format("nothing is known of the places of '{}'", value));
  for (const std::string& read : node->inputs)
    if (!read.empty() && !work_.facts.shape(read)) return cannot_remove(*node, fmt::format("the rank of '{}' is not known", read));
  return through(*node, value, at);
}

absl::StatusOr<std::string> WindowSide::through(const Node& node, const std::string& value, Placed at) {
  if (is_elementwise(node)) return elementwise(node, at);
  if (is_view_of_axes(node)) return viewed(node, value, at);
  if (const auto read = placed_inputs(node, value, at)) return placed(node, value, *read);
  if (is_operator(node, "Expand") || is_operator(node, "ConstantOfShape")) return expanded(node, value, at);
  if (is_operator(node, "Slice")) return sliced(node, value, at);
  if (is_operator(node, "CumSum")) return summed(node, at);
  if (is_operator(node, "ReduceMax")) return largest(node, value, at);
  return cannot_remove(node, fmt::format("nothing is known of what it does along the places of '{}'", value));
}

// Where each input has the places of a result that treats them one by one (op_axes.inc). nullopt: it does not, or counts all of some.
std::optional<std::vector<Placed>> WindowSide::placed_inputs(const Node& node, const std::string& value, Placed at) const {
  const ViewOfFacts view(work_.facts, node);
  const auto axes = axes_of(view);
  if (!axes || axes->sizes) return std::nullopt;
  const Port result{static_cast<int>(std::find(node.outputs.begin(), node.outputs.end(), value) - node.outputs.begin()), true};
  std::vector<Placed> read(node.inputs.size());
  for (const auto place : {&Placed::row, &Placed::column}) {
    if (!(at.*place)) continue;
    const AxisLink* link = *(at.*place) < 0 ? nullptr : axes->apart(result, *(at.*place));
    if (!link) return std::nullopt;
    for (const AxisAt& input : link->inputs) read[static_cast<std::size_t>(input.port.index)].*place = input.axis;
  }
  for (const AxisLink& link : axes->links)
    for (const AxisAt& input : link.inputs)
      if (!link.apart && work_.size(node.inputs[static_cast<std::size_t>(input.port.index)], input.axis) == work_.places)
        return std::nullopt;
  return read;
}

absl::StatusOr<std::string> WindowSide::placed(const Node& node, const std::string& value, const std::vector<Placed>& read) {
  Node copy = node;
  for (std::size_t i = 0; i < copy.inputs.size(); ++i) {
    absl::StatusOr<std::string> part = at_tokens(node, copy.inputs[i], read[i]);
    if (!part.ok()) return part;
    copy.inputs[i] = *std::move(part);
  }
  const auto result = static_cast<std::size_t>(std::find(node.outputs.begin(), node.outputs.end(), value) - node.outputs.begin());
  return work_.writer.copy(std::move(copy)).outputs[result];
}

// The last axes of its inputs stand on those of its result.
absl::StatusOr<std::string> WindowSide::elementwise(const Node& node, Placed at) {
  Node copy = node;
  for (std::string& input : copy.inputs) {
    const int shift = work_.facts.rank(node.outputs[0]) - work_.facts.rank(input);
    Placed read;
    if (at.row) read.row = *at.row - shift;
    if (at.column && *at.column >= shift) read.column = *at.column - shift;
    absl::StatusOr<std::string> part = at_tokens(node, input, read);
    if (!part.ok()) return part;
    input = *std::move(part);
  }
  return work_.writer.copy(std::move(copy)).outputs[0];
}

absl::StatusOr<std::string> WindowSide::viewed(const Node& node, const std::string& value, Placed at) {
  Placed read;
  std::map<int, Entry> entries;
  if (at.column) {
    read.column = axis_in_front_of_view(work_, node, *at.column);
    if (!read.column) return cannot_remove(node, fmt::format("places don't stay apart in '{}'", value));
    entries[*at.column] = Entry::kTokens;
  }
  if (at.row && *at.row >= 0) {
    read.row = axis_in_front_of_view(work_, node, *at.row);
    if (!read.row && work_.size(value, *at.row) > 1)
      return cannot_remove(node, fmt::format("tokens of the window don't stay apart in '{}'", value));
    entries[*at.row] = Entry::kRest;
    const Node* cast = work_.facts.producer(node.inputs[0]);
    const std::string& counted = cast && is_operator(*cast, "Cast") ? cast->inputs[0] : node.inputs[0];
    if (work_.window == 1 && !read.row && counted == work_.inputs.before && !work_.inputs.mask.empty()) {
      // What the mask has shown before each token.
      GraphWriter& w = work_.writer;
      const auto to = [&](const std::string& v, DType dtype) {
        return w.node("Cast", {v}, v, {Attribute::of("to", static_cast<std::int64_t>(dtype))});
      };
      const std::string shown = to(work_.inputs.mask, DType::kInt64);
      const std::string before = w.node("Sub", {w.node("CumSum", {shown, w.scalar(1)}, "shown_so_far"), shown}, "shown_before");
      return shaped(to(before, work_.facts.dtype(value)), value, *at.row);
    }
  }
  absl::StatusOr<std::string> part = at_tokens(node, node.inputs[0], read);
  if (!part.ok()) return part;
  Node copy = node;
  copy.inputs[0] = *std::move(part);
  if (node.op_type == "Reshape") copy.inputs[1] = resized(node, 1, entries);
  return work_.writer.copy(std::move(copy)).outputs[0];
}

absl::StatusOr<std::string> WindowSide::expanded(const Node& node, const std::string& value, Placed at) {
  Node copy = node;
  const bool expands = node.op_type == "Expand";
  const int shift = expands ? work_.facts.rank(value) - work_.facts.rank(node.inputs[0]) : 0;
  Placed read;
  std::map<int, Entry> entries;
  const auto put = [&](const std::optional<int>& axis, std::optional<int>& in, bool row) {
    if (!axis || *axis < 0) return;
    if (expands && *axis >= shift) in = *axis - shift;
    const bool has = in && work_.size(node.inputs[0], *in) == work_.size(value, *axis);
    entries[*axis] = has || (row && work_.size(value, *axis) == 1) ? Entry::kOne : Entry::kTokens;
  };
  put(at.row, read.row, true);
  put(at.column, read.column, false);
  if (expands) {
    absl::StatusOr<std::string> part = at_tokens(node, node.inputs[0], read);
    if (!part.ok()) return part;
    copy.inputs[0] = *std::move(part);
  }
  copy.inputs[expands ? 1 : 0] = resized(node, expands ? 1 : 0, entries);
  return work_.writer.copy(std::move(copy)).outputs[0];
}

// The rows of the window are the last ones of all places.
absl::StatusOr<std::string> WindowSide::sliced(const Node& node, const std::string& value, Placed at) {
  const auto numbers = [&](std::size_t i) { return i < node.inputs.size() ? work_.facts.ints(node.inputs[i]) : std::nullopt; };
  const auto axes = numbers(3), steps = numbers(4);
  const int rank = work_.facts.rank(value);
  const auto unknown = [&] { return cannot_remove(node, fmt::format("which places it takes of '{}' is not known", node.inputs[0])); };
  if (!axes || axes->size() != 1 || (steps && (*steps)[0] != 1)) return unknown();
  const auto along = static_cast<int>((*axes)[0] < 0 ? (*axes)[0] + rank : (*axes)[0]);
  const std::int64_t had = work_.size(node.inputs[0], along), has = work_.size(value, along);
  const auto starts = numbers(1), ends = numbers(2);
  if (starts && ends && had > 0 && has > 0) {
    const bool last = (*starts)[0] == had - has || (*starts)[0] == -has;
    if (!last || (*ends)[0] < had) return unknown();
    return at_tokens(node, node.inputs[0], at);
  }
  // As many of a table as there are tokens.
  if (at.row != along || !constant(node.inputs[0])) return unknown();
  Node copy = node;
  copy.inputs[2] = work_.writer.node("Add", {node.inputs[1], work_.tokens}, "end_in_table");
  return work_.writer.copy(std::move(copy)).outputs[0];
}

// From the first place on, before which the mask shows nothing.
absl::StatusOr<std::string> WindowSide::summed(const Node& node, Placed at) {
  const auto axes = work_.facts.ints(node.inputs[1]);
  const int rank = work_.facts.rank(node.inputs[0]);
  if (!axes || axes->size() != 1) return cannot_remove(node, "its axis is no constant");
  const auto along = static_cast<int>((*axes)[0] < 0 ? (*axes)[0] + rank : (*axes)[0]);
  const bool plain = int_attribute(node, "exclusive", 0) == 0 && int_attribute(node, "reverse", 0) == 0;
  if ((at.row == along || at.column == along) && !plain) return cannot_remove(node, "it counts places from the end, or without their own");
  absl::StatusOr<std::string> part = at_tokens(node, node.inputs[0], at);
  if (!part.ok() || (at.row == along && work_.window == 1)) return part;  // a sum of one token
  Node copy = node;
  copy.inputs[0] = *std::move(part);
  return work_.writer.copy(std::move(copy)).outputs[0];
}

// Of the places that each token sees.
absl::StatusOr<std::string> WindowSide::largest(const Node& node, const std::string& value, Placed at) {
  const auto axes = node.inputs.size() > 1 ? work_.facts.ints(node.inputs[1]) : std::nullopt;
  const int all = work_.facts.rank(node.inputs[0]);
  const std::optional<int> row = at.row ? at.row : at.column;
  if (!axes || axes->size() != 1 || (at.row && at.column) || !is_floating(work_.facts.dtype(value)))
    return cannot_remove(node, "over which places it goes is not known");
  const auto along = static_cast<int>((*axes)[0] < 0 ? (*axes)[0] + all : (*axes)[0]);
  if (*row + 1 != along || along + 1 != all) return cannot_remove(node, "over which places it goes is not known");
  absl::StatusOr<std::string> part = at_tokens(node, node.inputs[0], {row, along});
  if (!part.ok()) return part;
  Node copy = node;
  copy.inputs[0] = hidden(visible(std::nullopt), *part);
  return work_.writer.copy(std::move(copy)).outputs[0];
}

// A constant with a row for each token of the window.
absl::StatusOr<std::string> WindowSide::rows_of_constant(const Node& reader, const std::string& value, const Tensor& tensor, int row) {
  const Rows rows = rows_along(tensor, row);
  if (all_equal(rows) && work_.window > 1) return initializer(value + "_row", of_rows(tensor, row, {rows[0]}));
  if (const auto table = table_behind(value, tensor, row))
    return work_.writer.node("Slice", {*table, work_.writer.ints({0}), work_.tokens, work_.writer.ints({row})}, value + "_of_tokens");
  if (work_.window == 1) return value;  // the same in all windows
  if (counts_from(tensor)) return counted(value, tensor, row);
  return cannot_remove(reader, fmt::format("how '{}', which has a row for each token of the window, goes on is not known", value));
}

// A constant with an entry for each place.
std::string WindowSide::columns_of_constant(const std::string& value, const Tensor& tensor, int column) {
  if (counts_from(tensor)) return counted(value, tensor, column);
  return work_.writer.node("Slice", {value, work_.writer.ints({0}), work_.tokens, work_.writer.ints({column})}, value + "_of_tokens");
}

// Goes on counting.
std::string WindowSide::counted(const std::string& value, const Tensor& tensor, int axis) {
  GraphWriter& w = work_.writer;
  const std::string first = w.scalar(*counts_from(tensor));
  const std::string range =
      w.node("Range", {first, w.node("Add", {first, w.node("Squeeze", {work_.tokens}, "steps")}, "end"), w.scalar(1)}, "counted");
  const std::string cast = w.node("Cast", {range}, "counted", {Attribute::of("to", static_cast<std::int64_t>(tensor.dtype()))});
  return shaped(cast, value, axis);
}

// A table of as many rows as there are places, whose last ones are those of the window.
std::optional<std::string> WindowSide::table_behind(const std::string& value, const Tensor& tensor, int row) {
  const Rows rows = rows_along(tensor, row);
  if (Blocks(tensor, row).row() == static_cast<std::size_t>(bit_width(tensor.dtype())) / 8) return std::nullopt;  // numbers, no rows
  for (const Initializer& weight : work_.model.graph.initializers) {
    const Tensor* other = constant(weight.name);
    if (!other || other->dtype() != tensor.dtype() || other->size() != tensor.size() / work_.window * work_.places) continue;
    for (int axis = 0; axis < other->rank(); ++axis) {
      if (other->dims()[static_cast<std::size_t>(axis)] != work_.places) continue;
      const Rows all = rows_along(*other, axis);
      if (all_equal(all) || !std::equal(rows.rbegin(), rows.rend(), all.rbegin())) continue;
      Tensor table = of_rows(tensor, row, all);
      return table.dims() == other->dims() ? weight.name : initializer(value + "_of_places", std::move(table));
    }
  }
  return std::nullopt;
}

// A constant with an entry for each token of the window and each place.
absl::StatusOr<std::string> WindowSide::by_distance(const Node& reader, const std::string& value, const Tensor& tensor, int row,
                                                    int column) {
  GraphWriter& w = work_.writer;
  if (row + 1 != column)
    return cannot_remove(reader, fmt::format("tokens of the window don't stand in front of the places of '{}'", value));
  Rows rows{rows_along(tensor.rank() > 0 && row < 0 ? tensor.reshaped([&] {
    Shape dims = tensor.dims();
    dims.insert(dims.begin(), 1);
    return dims;
  }())
                                                    : tensor,
                       std::max(row, 0))};
  Shape dims = tensor.dims();
  if (row >= 0) dims.erase(dims.begin() + row);
  const int along = std::max(row, 0);
  const auto places_of = [&](const std::vector<std::byte>& bytes) {
    Tensor one(tensor.dtype(), dims);
    std::memcpy(one.mutable_data(), bytes.data(), bytes.size());
    return one;
  };
  const Tensor last = places_of(rows.back());
  Rows places = rows_along(last, along);
  for (std::size_t r = 0; r + 1 < rows.size(); ++r) {
    const Rows others = rows_along(places_of(rows[r]), along);
    const std::size_t shift = rows.size() - 1 - r;
    if (!std::equal(others.begin(), others.end() - static_cast<std::ptrdiff_t>(shift), places.begin() + static_cast<std::ptrdiff_t>(shift)))
      return cannot_remove(reader, fmt::format("'{}' depends on more than how far tokens are from each other", value));
  }
  std::reverse(places.begin(), places.end());
  const Tensor near = of_rows(last, along, places);
  if (all_equal(places)) {
    Shape ones = tensor.dims();
    for (const int axis : {row, column})
      if (axis >= 0) ones[static_cast<std::size_t>(axis)] = 1;
    return initializer(value + "_of_all", of_rows(last, along, {places[0]}).reshaped(std::move(ones)));
  }
  const std::string far = w.node("Max", {distance(), w.scalar(0)}, "distance_back");
  return w.node("Gather", {initializer(value + "_by_distance", near), far}, value + "_of_tokens",
                {Attribute::of("axis", static_cast<std::int64_t>(along))});
}

const std::string& WindowSide::distance() {
  if (!distance_.empty()) return distance_;
  GraphWriter& w = work_.writer;
  keys_ = w.node("Range", {w.scalar(0), w.node("Squeeze", {work_.tokens}, "number_of_tokens"), w.scalar(1)}, "key_positions");
  queries_ = w.node("Unsqueeze", {keys_, w.ints({1})}, "query_rows");
  return distance_ = w.node("Sub", {queries_, keys_}, "distance");
}

std::string WindowSide::visible(std::optional<std::int64_t> most) {
  std::string& made = visible_[most];
  if (!made.empty()) return made;
  GraphWriter& w = work_.writer;
  const std::string far = distance();
  made = w.node("LessOrEqual", {keys_, queries_}, "causal_mask");
  if (most) made = w.node("And", {made, w.node("Less", {far, w.scalar(*most)}, "near")}, "causal_mask_near");
  return made;
}

std::string WindowSide::hidden(const std::string& seen, const std::string& scores) {
  GraphWriter& w = work_.writer;
  const std::string lowest = w.node("Constant", {}, "hidden", {Attribute::of("value_float", -std::numeric_limits<float>::infinity())});
  return w.node("Where", {seen, scores, w.node("CastLike", {lowest, scores}, "hidden_like")}, scores + "_seen");
}

// An entry for each token, in the dims of another value.
std::string WindowSide::shaped(const std::string& value, const std::string& like, int tokens) {
  std::vector<std::int64_t> dims;
  for (int i = 0; i < work_.facts.rank(like); ++i) dims.push_back(i == tokens ? -1 : std::max<std::int64_t>(work_.size(like, i), 0));
  return work_.writer.node("Reshape", {value, work_.writer.ints(dims)}, like + "_of_tokens");
}

bool WindowSide::depends_on_before(const std::string& value) {
  if (value.empty() || work_.inputs.before.empty()) return false;
  if (value == work_.inputs.before) return true;
  if (const auto it = depends_.find(value); it != depends_.end()) return it->second;
  const Node* node = work_.facts.producer(value);
  bool& found = depends_[value] = false;
  if (node && !is_operator(*node, "Shape"))
    found = std::any_of(node->inputs.begin(), node->inputs.end(), [&](const std::string& input) { return depends_on_before(input); });
  return found;
}

// One number of each window as one of each token, [tokens]: before the first token there are none, before the second one there is one.
absl::StatusOr<std::string> WindowSide::spread(const Node& reader, const std::string& value) {
  GraphWriter& w = work_.writer;
  if (value == work_.inputs.before) {
    const std::string count = w.node("Range", {w.scalar(0), w.node("Squeeze", {work_.tokens}, "steps"), w.scalar(1)}, "before_each");
    return w.node("Cast", {count}, "before_each", {Attribute::of("to", static_cast<std::int64_t>(work_.facts.dtype(value)))});
  }
  const Node& node = *work_.facts.producer(value);
  if (is_view_of_axes(node)) return spread(node, node.inputs[0]);
  if (!is_elementwise(node)) return cannot_remove(reader, fmt::format("how '{}' counts the tokens is not known", value));
  Node copy = node;
  for (std::string& input : copy.inputs) {
    if (!depends_on_before(input)) continue;
    absl::StatusOr<std::string> each = spread(node, input);
    if (!each.ok()) return each;
    input = *std::move(each);
  }
  return w.copy(std::move(copy)).outputs[0];
}

std::string WindowSide::resized(const Node& node, std::size_t shape, const std::map<int, Entry>& entries) {
  GraphWriter& w = work_.writer;
  const std::string& result = node.outputs[0];
  const std::string& sizes = node.inputs[shape];
  const auto constant = work_.facts.ints(sizes);
  const int rank = work_.facts.rank(result);
  const auto count = [&](Entry entry) { return std::count_if(entries.begin(), entries.end(), [&](auto& e) { return e.second == entry; }); };
  bool rest = count(Entry::kRest) > 0;
  std::vector<std::int64_t> numbers;
  std::vector<std::string> parts;
  const auto flush = [&] {
    if (!numbers.empty()) parts.push_back(w.ints(std::exchange(numbers, {})));
  };
  const bool one_is_open = node.op_type == "Reshape" && !rest && count(Entry::kTokens) == 1 && constant && [&] {  // no -1 stands elsewhere
    for (int i = 0; i < rank; ++i)
      if (!entries.contains(i) && (*constant)[static_cast<std::size_t>(i)] == -1 && work_.size(result, i) < 0) return false;
    return true;
  }();
  for (int i = 0; i < rank; ++i) {
    const auto it = entries.find(i);
    if (it == entries.end()) {
      if (!constant) {
        flush();
        parts.push_back(w.node("Slice", {sizes, w.ints({i}), w.ints({i + 1}), w.ints({0})}, "sizes"));
        continue;
      }
      const std::int64_t number = (*constant)[static_cast<std::size_t>(i)];
      numbers.push_back(number == -1 && work_.size(result, i) >= 0 ? work_.size(result, i) : number);
    } else if (it->second == Entry::kRest || (it->second == Entry::kTokens && one_is_open)) {
      numbers.push_back(-1);
    } else if (it->second == Entry::kOne) {
      numbers.push_back(1);
    } else {
      flush();
      parts.push_back(work_.tokens);
    }
  }
  flush();
  return parts.size() == 1 ? parts[0] : w.node("Concat", parts, "sizes", {Attribute::of("axis", std::int64_t{0})});
}

// What is the mask in other dims, however it is made of it: found by running it. "": it is not.
std::string WindowSide::of_mask(const std::string& value, Placed at) {
  const std::string& mask = work_.inputs.mask;
  const int rank = work_.facts.rank(value);
  if (mask.empty() || rank < 2 || at.column != rank - 1 || work_.size(value, rank - 1) != work_.places) return "";
  for (int i = 1; i + 1 < rank; ++i)
    if (work_.size(value, i) != 1) return "";
  Model part = work_.model;
  part.graph.outputs = {{value, {ValueType::Kind::kTensor, work_.facts.dtype(value), std::nullopt, nullptr}, nullptr}};
  part.graph.value_info.clear();
  erase_unread(part.graph, {});
  if (part.graph.nodes.size() > kMostNodesOfMask) return "";
  std::erase_if(part.graph.inputs, [&](const ValueInfo& input) { return input.name != mask && reads_of(part.graph, input.name) == 0; });
  const auto session = Session::create(part);
  if (!session.ok()) return "";
  for (const std::int64_t batch : {std::int64_t{2}, std::int64_t{3}}) {
    std::map<std::string, Value> inputs;
    std::vector<std::int64_t> shown;
    for (const ValueInfo& input : part.graph.inputs) {
      if (!input.type.shape) return "";
      Shape dims;
      for (const DimSpec& dim : *input.type.shape)
        dims.push_back(std::holds_alternative<std::int64_t>(dim) ? std::get<std::int64_t>(dim) : batch);
      Tensor tensor(input.type.dtype, dims);
      if (input.name == mask)
        for (std::int64_t i = 0; i < tensor.size(); ++i) {
          shown.push_back((i * i + i / 3 + batch) % 5 % 2);
          if (!store_int(tensor, i, shown.back())) store_double(tensor, i, static_cast<double>(shown.back()));
        }
      inputs[input.name] = std::move(tensor);
    }
    const auto outputs = session->run(inputs);
    if (!outputs.ok() || !(*outputs)[0].is_tensor() || (*outputs)[0].tensor().size() != static_cast<std::int64_t>(shown.size())) return "";
    for (std::size_t i = 0; i < shown.size(); ++i)
      if (element_as_double((*outputs)[0].tensor(), static_cast<std::int64_t>(i)) != static_cast<double>(shown[i])) return "";
  }
  GraphWriter& w = work_.writer;
  std::vector<std::int64_t> dims(static_cast<std::size_t>(rank), 1);
  dims.front() = 0;
  dims.back() = -1;
  const std::string cast = w.node("Cast", {mask}, mask, {Attribute::of("to", static_cast<std::int64_t>(work_.facts.dtype(value)))});
  return w.node("Reshape", {cast, w.ints(dims)}, value + "_of_tokens");
}

}  // namespace saturate
