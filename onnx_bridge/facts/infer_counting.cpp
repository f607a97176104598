// Values that count upwards along their last axis (positions, the columns of a causal mask): Range and what keeps its rows whole.
#include "onnx_bridge/facts/infer_call.h"
#include "onnx_bridge/operators/op_traits.h"

#include <limits>

namespace saturate::inference {

namespace {

bool keeps_rows(Call& c) {
  if (!c.has_rank(0) || c.rank(0) == 0 || !c.out[0].shape || c.out[0].shape->empty()) return false;
  return c.dims.equal(c.dim(0, -1), c.out[0].shape->back());
}

std::optional<Dim> of_range(Call& c) {
  const auto delta = c.scalar(2);
  return delta && c.value(*delta) == 1 ? c.scalar(0) : std::nullopt;
}

// start + i plus or minus one number for all elements.
std::optional<Dim> of_sum(Call& c, bool minus) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const auto from = c.in(i).counts_from;
    const auto other = from ? c.scalar(1 - i) : std::nullopt;
    if (!other || (minus && i == 1) || !c.out[0].shape || c.out[0].shape->empty()) continue;
    if (!c.dims.equal(c.dim(i, -1), c.out[0].shape->back())) continue;  // a counting value of one element, widened
    return minus ? c.dims.sub(*from, *other) : c.dims.add(*from, *other);
  }
  return std::nullopt;
}

std::optional<Dim> of_slice(Call& c) {
  const auto from = c.in(0).counts_from;
  if (!from || !c.has_rank(0)) return std::nullopt;
  const auto starts = c.content(1);
  const auto steps = c.has(4) ? c.ints(4) : std::nullopt;
  std::optional<std::vector<std::int64_t>> axes = c.has(3) ? c.ints(3) : std::nullopt;
  if (!c.has(3) && starts) {
    axes.emplace();
    for (std::size_t k = 0; k < starts->size(); ++k) axes->push_back(static_cast<std::int64_t>(k));
  }
  if (!axes || (c.has(4) && !steps)) return std::nullopt;
  const auto normal = c.normal_axes(*axes, c.rank(0));
  if (!normal) return std::nullopt;
  for (std::size_t k = 0; k < normal->size(); ++k) {
    if ((*normal)[k] != c.rank(0) - 1) continue;
    if (!starts || k >= starts->size() || (steps && (k >= steps->size() || (*steps)[k] != 1))) return std::nullopt;
    if (!c.dims.non_negative((*starts)[k])) return std::nullopt;
    return c.dims.add(*from, (*starts)[k]);
  }
  return from;
}

}  // namespace

std::optional<Dim> infer_counts_from(Call& c) {
  if (c.out.empty() || c.inputs.empty() || !c.node.domain.empty()) return std::nullopt;
  const DType dtype = c.out[0].dtype;
  if (dtype != DType::kInt64 && dtype != DType::kInt32) return std::nullopt;
  const std::string& op = c.node.op_type;
  if (op == "Range") return of_range(c);
  if (op == "Add" || op == "Sub") return of_sum(c, op == "Sub");
  if (op == "Slice") return of_slice(c);
  if ((has(Trait::kView, c.node) || op == "Expand" || op == "Cast") && keeps_rows(c)) return c.in(0).counts_from;
  return std::nullopt;
}

std::optional<std::int64_t> counted_from(const Tensor& tensor) {
  if (tensor.rank() == 0 || tensor.size() == 0 || tensor.dims().back() == 0) return std::nullopt;
  const auto first = element_as_int(tensor, 0);
  if (!first) return std::nullopt;
  const std::int64_t row = tensor.dims().back();
  if (*first > std::numeric_limits<std::int64_t>::max() - row) return std::nullopt;
  for (std::int64_t i = 1; i < tensor.size(); ++i)
    if (element_as_int(tensor, i) != *first + i % row) return std::nullopt;
  return first;
}

}  // namespace saturate::inference
