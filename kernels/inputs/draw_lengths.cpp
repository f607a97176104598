#include "kernels/inputs/draw_lengths.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>

namespace saturate {
namespace {

// What GroupQueryAttention of com.microsoft takes, by place.
constexpr std::size_t kQuery = 0, kPast = 3, kLast = 5, kTotal = 6;

std::optional<std::int64_t> drawn_dim(const Inputs& inputs, const std::string& name, std::size_t axis) {
  const auto it = inputs.find(name);
  if (it == inputs.end() || !it->second.is_tensor() || it->second.tensor().dims().size() <= axis) return std::nullopt;
  return it->second.tensor().dims()[axis];
}

// Of a query that is computed: as many as the first other input of rows and columns has, as ids of tokens are.
std::optional<std::int64_t> rows_of_query(const LengthInputs& one, const Inputs& inputs) {
  if (const auto rows = drawn_dim(inputs, one.rows, 1)) return rows;
  for (const auto& [name, value] : inputs)
    if (name != one.past && value.is_tensor() && value.tensor().rank() == 2 && is_integer(value.tensor().dtype()))
      return value.tensor().dims()[1];
  return std::nullopt;
}

void write_lengths(Inputs& inputs, const std::string& name, const auto& number) {
  const auto it = inputs.find(name);
  if (it == inputs.end() || !it->second.is_tensor() || it->second.tensor().dtype() != DType::kInt32) return;
  Tensor made(DType::kInt32, it->second.tensor().dims());
  for (std::int64_t i = 0; i < made.size(); ++i) made.mutable_as<std::int32_t>()[i] = static_cast<std::int32_t>(number(i));
  it->second = std::move(made);
}

}  // namespace

std::vector<LengthInputs> length_inputs(const Graph& graph) {
  std::vector<LengthInputs> out;
  std::set<std::string> inputs;
  for (const ValueInfo& input : graph.inputs) inputs.insert(input.name);
  for (const Node& node : graph.nodes) {
    if (node.op_type != "GroupQueryAttention" || node.domain != "com.microsoft" || node.inputs.size() <= kTotal) continue;
    const auto given = [&](std::size_t i) { return inputs.contains(node.inputs[i]) ? node.inputs[i] : std::string(); };
    LengthInputs one{given(kQuery), given(kPast), given(kLast), given(kTotal), !node.inputs[kPast].empty()};
    const auto same = [&](const LengthInputs& other) { return other.last == one.last && other.total == one.total; };
    if ((one.last.empty() && one.total.empty()) || std::any_of(out.begin(), out.end(), same)) continue;
    const auto past = std::find_if(graph.inputs.begin(), graph.inputs.end(), [&](const ValueInfo& i) { return i.name == one.past; });
    if (!one.past.empty() && past->type.shape && past->type.shape->size() == 4)
      one.past_is_fixed = std::holds_alternative<std::int64_t>((*past->type.shape)[2]);
    out.push_back(std::move(one));
  }
  return out;
}

void fit_lengths(const std::vector<LengthInputs>& all, Inputs& inputs, Random& random) {
  for (const LengthInputs& one : all) {
    const auto rows = rows_of_query(one, inputs), room = drawn_dim(inputs, one.past, 2);
    if (!rows || *rows < 1 || (one.has_past && !room)) continue;
    const std::int64_t past = room.value_or(0), total = one.past_is_fixed ? std::max(past, *rows) : past + *rows;
    write_lengths(inputs, one.total, [&](std::int64_t) { return total; });
    write_lengths(inputs, one.last, [&](std::int64_t row) { return total - 1 - (row > 0 ? random.below(total - *rows + 1) : 0); });
  }
}

}  // namespace saturate
