// Reductions: Reduce*, ArgMax, ArgMin.
#include <algorithm>

#include <fmt/format.h>

#include "onnx_bridge/facts/infer_call.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate::inference {

namespace {

// The reduced shape; sets the shape of output 0 and tells whether every axis goes. nullopt: not known.
std::optional<bool> reduce_shape(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  const bool keep = c.int_attribute("keepdims", 1) == 1;
  std::optional<std::vector<std::int64_t>> given = c.ints_attribute("axes");
  const bool absent = !given && !c.has(1);
  if (!given && !absent) given = c.ints(1);
  if (absent) given.emplace();
  if (!c.has_rank(0)) return std::nullopt;
  const int rank = c.rank(0);
  if (!given) {
    if (keep)
      c.set_shape(0, c.fresh_shape(0, rank));
    else if (auto n = c.length(1); n && *n > 0 && *n <= rank)
      c.set_shape(0, c.fresh_shape(0, rank - static_cast<int>(*n)));
    return std::nullopt;
  }
  if (given->empty() && c.int_attribute("noop_with_empty_axes", 0) != 0) {
    c.set_shape(0, c.shape(0));
    return std::nullopt;
  }
  auto axes = c.normal_axes(*given, rank);
  if (!axes) return std::nullopt;
  DimVector shape;
  bool all = true;
  for (int a = 0; a < rank; ++a) {
    const bool reduced = axes->empty() || std::find(axes->begin(), axes->end(), a) != axes->end();
    all = all && reduced;
    if (!reduced)
      shape.push_back(c.dim(0, a));
    else if (keep)
      shape.push_back(c.constant(1));
  }
  c.set_shape(0, std::move(shape));
  return all;
}

void reduce(Call& c) { reduce_shape(c); }

template <typename Fold>
void reduce_content(Call& c, std::optional<Dim> start, Fold fold) {
  const auto all = reduce_shape(c);
  if (!all || !*all || !c.ok()) return;
  auto elements = c.content(0);
  if (!elements || (elements->empty() && !start)) return;
  Dim result = start ? *start : elements->front();
  for (Dim d : *elements) {
    const Dim next = fold(result, d);
    if (c.value(result) && c.value(d) && !c.value(next)) return;
    result = next;
  }
  c.set_content(0, {result});
}

void reduce_prod(Call& c) {
  reduce_content(c, c.constant(1), [&](Dim a, Dim b) { return c.dims.mul(a, b); });
}
void reduce_sum(Call& c) {
  reduce_content(c, c.constant(0), [&](Dim a, Dim b) { return c.dims.add(a, b); });
}
void reduce_max(Call& c) {
  reduce_content(c, std::nullopt, [&](Dim a, Dim b) { return c.dims.max(a, b); });
}
void reduce_min(Call& c) {
  reduce_content(c, std::nullopt, [&](Dim a, Dim b) { return c.dims.min(a, b); });
}

void arg_reduce(Call& c) {
  c.set_dtype(0, DType::kInt64);
  if (!c.has_rank(0)) return;
  auto axis = c.normal_axis(c.int_attribute("axis", 0), c.rank(0));
  if (!axis) return;
  DimVector shape = c.shape(0);
  if (c.int_attribute("keepdims", 1) == 1)
    shape[static_cast<std::size_t>(*axis)] = c.constant(1);
  else
    shape.erase(shape.begin() + *axis);
  c.set_shape(0, std::move(shape));
}

}  // namespace

void add_reduce_rules(Rules& rules) {
  for (const std::string_view op : operators_with(Trait::kReduction)) rules[fmt::format(":{}", op)] = reduce;
  rules[":ReduceProd"] = reduce_prod;
  rules[":ReduceSum"] = reduce_sum;
  rules[":ReduceMax"] = reduce_max;
  rules[":ReduceMin"] = reduce_min;
  rules[":ArgMax"] = rules[":ArgMin"] = arg_reduce;
}

}  // namespace saturate::inference
