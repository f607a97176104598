// Windows in which tokens keep the index that they had among all that came, as learned positions want it.
#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "fmt/format.h"
#include "onnx_bridge/operators/op_traits.h"
#include "tools/transform/cache/cache_parts.h"
#include "tools/transform/edit.h"

namespace saturate {
namespace {

bool is_view_of_index(const Node& node) { return is_view(node) || is_operator(node, "Cast"); }

}  // namespace

bool IndexComparisons::in(const std::string& value) {
  if (const auto it = in_.find(value); it != in_.end()) return it->second;
  const Node* node = facts_.producer(value);
  if (!node) return false;
  bool found = false;
  if (has(Trait::kCompares, *node)) {
    const auto a = growth(node->inputs[0]), b = growth(node->inputs[1]);
    found = a && b && *a != *b && !holds_anywhere(*node);
  }
  for (const std::string& input : node->inputs) found = found || (!input.empty() && in(input));
  return in_[value] = found;
}

// "index >= 0": of all indices that there are.
bool IndexComparisons::holds_anywhere(const Node& node) const {
  if (!one_of(node.op_type, {"GreaterOrEqual", "LessOrEqual"})) return false;
  const bool greater = node.op_type == "GreaterOrEqual";
  const auto first = first_index(node.inputs[greater ? 0 : 1]);
  const auto least = facts_.ints(node.inputs[greater ? 1 : 0]);
  return first && least && std::all_of(least->begin(), least->end(), [&](std::int64_t number) { return number <= *first; });
}

// The least of indices that count up from a number; nullopt: not known.
std::optional<std::int64_t> IndexComparisons::first_index(const std::string& value) const {
  const Node* node = facts_.producer(value);
  if (!node || !node->domain.empty()) return std::nullopt;
  if (is_view_of_index(*node)) return first_index(node->inputs[0]);
  const auto first = node->op_type == "Range" ? facts_.ints(node->inputs[0]) : std::nullopt;
  if (!first || first->size() != 1 || facts_.ints(node->inputs[2]) != std::vector<std::int64_t>{1}) return std::nullopt;
  return (*first)[0];
}

std::optional<int> IndexComparisons::growth(const std::string& value) {
  if (const auto it = growth_.find(value); it != growth_.end()) return it->second;
  const Node* node = facts_.producer(value);
  if (!node || (facts_.shape(value) && !facts_.spans(value))) return 0;
  return growth_[value] = node->domain.empty() ? growth(*node) : std::nullopt;
}

std::optional<int> IndexComparisons::growth(const Node& node) {
  if (node.op_type == "Range") return facts_.ints(node.inputs[2]) == std::vector<std::int64_t>{1} ? std::optional(1) : std::nullopt;
  if (is_view_of_index(node)) return growth(node.inputs[0]);
  if (!one_of(node.op_type, {"Add", "Sub"})) return std::nullopt;
  const auto a = growth(node.inputs[0]), b = growth(node.inputs[1]);
  return a && b ? std::optional(node.op_type == "Add" ? *a + *b : *a - *b) : std::nullopt;
}

// How many tokens came before the window: an input.
absl::StatusOr<std::string> PositionSide::before(const Node& reader, CacheOptions::Counted counted) {
  if (counted_ && *counted_ != counted)
    return cannot_cache(reader, "some indices count places and others what the mask shows; a window can have one of them");
  counted_ = counted;
  work_.writer.fresh().take(work_.options.filled);
  return work_.options.filled;
}

absl::StatusOr<std::string> PositionSide::rows_of_token(const Node& reader, const Node& node, int axis) {
  if (!node.domain.empty()) return "";
  if (node.op_type == "Range") return range_of_token(reader, node);
  if (node.op_type == "CumSum") return sum_of_token(reader, node, axis);
  if (node.op_type == "Slice") return cut_of_token(reader, node, axis);
  return "";
}

// The rows at their place in the window, and the tokens in front of the window once for each step.
absl::StatusOr<std::string> PositionSide::range_of_token(const Node& reader, const Node& node) {
  const absl::StatusOr<std::string> seen = before(reader, CacheOptions::Counted::kPlaces);
  if (!seen.ok()) return seen;
  GraphWriter& w = work_.writer;
  std::string more = w.node("Sub", {*seen, past_tokens()}, "tokens_before_window");
  const DType dtype = work_.facts.dtype(node.outputs[0]);
  if (dtype != DType::kInt64)
    more = w.node("Cast", {more}, "tokens_before_window", {Attribute::of("to", static_cast<std::int64_t>(dtype))});
  if (work_.facts.ints(node.inputs[2]) != std::vector<std::int64_t>{1}) more = w.node("Mul", {more, node.inputs[2]}, "steps_before_window");
  return w.node("Add", {rows_of_place(node.outputs[0], 0), more}, node.outputs[0] + "_of_tokens");
}

// A sum over what a mask shows: that of the new tokens goes on from the number of those before.
absl::StatusOr<std::string> PositionSide::sum_of_token(const Node& reader, const Node& node, int axis) {
  const auto along = work_.facts.ints(node.inputs[1]);
  const int rank = work_.facts.rank(node.inputs[0]);
  const auto is_set = [&](const char* name) { return int_attribute(node, name, 0) != 0; };
  const bool along_tokens = along && along->size() == 1 && ((*along)[0] < 0 ? (*along)[0] + rank : (*along)[0]) == axis;
  const bool one_mask = work_.options.masks.size() == 1;  // whose sum the input is
  if (!along_tokens || !one_mask || rank != 2 || is_set("exclusive") || is_set("reverse") || !shows_mask(node.inputs[0])) return "";
  const absl::StatusOr<std::string> seen = before(reader, CacheOptions::Counted::kShown);
  if (!seen.ok()) return seen;
  const absl::StatusOr<std::string> shown = rows(reader, node.inputs[0], axis, RowIndex::kOfPlace);
  if (!shown.ok()) return shown;
  GraphWriter& w = work_.writer;
  Node sum = node;
  sum.inputs[0] = *shown;
  const std::string here = w.copy(std::move(sum)).outputs[0];
  std::string more = w.node("Unsqueeze", {*seen, w.ints({1})}, "shown_before");
  if (const DType dtype = work_.facts.dtype(node.outputs[0]); dtype != DType::kInt64)
    more = w.node("Cast", {more}, "shown_before", {Attribute::of("to", static_cast<std::int64_t>(dtype))});
  return w.node("Add", {here, more}, node.outputs[0] + "_of_tokens");
}

// As many of a table as there are positions: those at the places of the new tokens.
absl::StatusOr<std::string> PositionSide::cut_of_token(const Node& reader, const Node& node, int axis) {
  std::vector<std::vector<std::int64_t>> given;
  for (const std::size_t i : {1, 3, 4}) {
    if (i >= node.inputs.size() || node.inputs[i].empty()) continue;
    const auto numbers = work_.facts.ints(node.inputs[i]);
    if (!numbers || numbers->size() != 1) return "";
    given.push_back(*numbers);
  }
  const std::vector<Dim>& table = *work_.facts.shape(node.inputs[0]);
  const auto most = work_.facts.extents().of(table[axis]);
  const auto rank = static_cast<std::int64_t>(table.size());
  const bool along_tokens = given.size() > 1 && (given[1][0] < 0 ? given[1][0] + rank : given[1][0]) == axis;
  if (!along_tokens || given[0][0] < 0 || (given.size() > 2 && given[2][0] != 1) || !most || !most->is_number()) return "";
  if (work_.options.fixed->max_context > most->factor - given[0][0])
    return cannot_cache(node, fmt::format("max_context is {}, and its table of positions has {}; a window can't slide beyond them",
                                          work_.options.fixed->max_context, most->factor - given[0][0]));
  const absl::StatusOr<std::string> seen = before(reader, CacheOptions::Counted::kPlaces);
  if (!seen.ok()) return seen;
  GraphWriter& w = work_.writer;
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < work_.options.fixed->window; ++i) places.push_back(given[0][0] + i);
  const std::string at = w.node("Add", {*seen, w.ints(places)}, "places_in_table");
  return w.node("Gather", {node.inputs[0], at}, node.outputs[0] + "_of_tokens", {Attribute::of("axis", static_cast<std::int64_t>(axis))});
}

// Whether the entries are those of a mask, 1 or 0.
bool PositionSide::shows_mask(const std::string& value) const {
  const auto& masks = work_.options.masks;
  const Node* node = work_.facts.producer(value);
  if (!node) return std::find(masks.begin(), masks.end(), value) != masks.end();
  return node->domain.empty() && one_of(node->op_type, {"Cast", "Identity"}) && shows_mask(node->inputs[0]);
}

// The index of the last of so many tokens; nullopt: not known.
std::optional<std::int64_t> PositionSide::last_index(const std::string& value, std::int64_t tokens) const {
  const Node* node = work_.facts.producer(value);
  if (!node || !node->domain.empty()) return std::nullopt;
  const auto number = [&](std::size_t i) -> std::optional<std::int64_t> {
    const auto numbers = work_.facts.ints(node->inputs[i]);
    return numbers && numbers->size() == 1 ? std::optional((*numbers)[0]) : std::nullopt;
  };
  if (node->op_type == "CumSum") return tokens;
  if (node->op_type == "Range") {
    const auto first = number(0), step = number(2);
    return first && step == 1 ? std::optional(*first + tokens - 1) : std::nullopt;
  }
  if (is_view_of_index(*node)) return last_index(node->inputs[0], tokens);
  if (!one_of(node->op_type, {"Add", "Sub", "Mul"})) return std::nullopt;
  const std::size_t at = number(0) || shows_mask(node->inputs[0]) ? 1 : 0;
  const auto last = last_index(node->inputs[at], tokens);
  const auto by = number(1 - at);
  if (node->op_type == "Mul") return shows_mask(node->inputs[1 - at]) ? last : std::nullopt;
  if (!last || !by || (node->op_type == "Sub" && at == 1)) return std::nullopt;
  return node->op_type == "Add" ? *last + *by : *last - *by;
}

// The least and the largest of integers that are parts of a constant, as a table of types of tokens is looked up by; nullopt: not known.
std::optional<std::pair<std::int64_t, std::int64_t>> PositionSide::range_of_constant(const std::string& value) const {
  if (const auto numbers = work_.facts.ints(value)) {
    const auto [least, largest] = std::minmax_element(numbers->begin(), numbers->end());
    return numbers->empty() ? std::nullopt : std::optional(std::pair(*least, *largest));
  }
  const Node* node = work_.facts.producer(value);
  if (!node || !node->domain.empty()) return std::nullopt;
  if (node->op_type == "ConstantOfShape") {
    const Attribute* filled = find_attribute(node->attributes, "value");
    const auto number = filled ? element_as_int(filled->t(), 0) : std::nullopt;
    return number ? std::optional(std::pair(*number, *number)) : std::nullopt;
  }
  const bool moves = has(Trait::kMovement, *node) || is_operator(*node, "Cast");
  return moves ? range_of_constant(node->inputs[0]) : std::nullopt;
}

bool PositionSide::tells_index(const std::string& value) {
  if (work_.facts.dtype(value) == DType::kBool) return comparisons_.in(value);
  if (!work_.facts.spans(value)) return false;
  const auto range = range_of_constant(value);
  return !range || range->first != range->second;
}

absl::Status PositionSide::within_table(const Node& node) const {
  if (!node.domain.empty() || node.op_type != "Gather" || !work_.facts.constant(node.inputs[0])) return absl::OkStatus();
  const std::vector<Dim>& table = *work_.facts.shape(node.inputs[0]);
  const std::int64_t at = int_attribute(node, "axis", 0);
  const auto rows = work_.facts.extents().of(table[at < 0 ? at + static_cast<std::int64_t>(table.size()) : at]);
  const std::int64_t tokens = work_.options.fixed->max_context, last = last_index(node.inputs[1], tokens).value_or(tokens - 1);
  if (!rows || !rows->is_number() || last < rows->factor) return absl::OkStatus();
  if (const auto range = range_of_constant(node.inputs[1]); range && range->second < rows->factor) return absl::OkStatus();
  return cannot_cache(node, fmt::format("max_context is {}, and its table of positions has {}; a window can't slide beyond them", tokens,
                                        tokens - (last - rows->factor + 1)));
}

}  // namespace saturate
