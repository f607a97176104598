// Operators that make shapes and tensors from shapes: Shape, Size, Range, ConstantOfShape, ...
#include <algorithm>
#include <cmath>

#include "onnx_bridge/facts/infer_call.h"

namespace saturate::inference {

namespace {

constexpr std::int64_t kFarthest = std::int64_t{1} << 32;

void shape(Call& c) {
  if (!c.has_rank(0)) {
    return c.set(0, DType::kInt64, c.fresh_shape(0, 1));
  }
  const std::int64_t rank = c.rank(0);
  std::int64_t start = c.int_attribute("start", 0), end = c.int_attribute("end", rank);
  if (start < 0) start += rank;
  if (end < 0) end += rank;
  start = std::clamp<std::int64_t>(start, 0, rank);
  end = std::clamp<std::int64_t>(end, start, rank);
  c.set(0, DType::kInt64, DimVector{c.constant(end - start)});
  c.set_content(0, DimVector(c.shape(0).begin() + start, c.shape(0).begin() + end));
}

void size(Call& c) {
  c.set(0, DType::kInt64, DimVector{});
  if (c.has_rank(0)) c.set_content(0, {c.product(c.shape(0))});
}

void constant_of_shape(Call& c) {
  const Attribute* a = c.attribute("value");
  const Tensor* t = a && std::holds_alternative<Tensor>(a->value) ? &a->t() : nullptr;
  c.set_dtype(0, t ? t->dtype() : DType::kFloat);
  auto target = c.content(0);
  if (!target) {
    if (auto n = c.length(0); n && *n <= kMaxContent) c.set_shape(0, c.fresh_shape(0, static_cast<int>(*n)));
    return;
  }
  for (std::size_t i = 0; i < target->size(); ++i)
    if (!c.dims.non_negative((*target)[i]) && !c.value((*target)[i])) (*target)[i] = c.fresh(0, static_cast<int>(i));
  c.set_shape(0, *target);
  if (!t || target->size() > 1 || t->size() != 1 || !is_integer(t->dtype())) return;
  const auto n = target->empty() ? std::optional<std::int64_t>(1) : c.value(target->front());
  const auto v = element_as_int(*t, 0);
  if (n && v && *n >= 0 && *n <= kMaxContent) c.set_content(0, DimVector(static_cast<std::size_t>(*n), c.constant(*v)));
}

void range(Call& c) {
  const DType dtype = c.in(0).dtype;
  c.set_dtype(0, dtype);
  auto start = c.scalar(0), limit = c.scalar(1), delta = c.scalar(2);
  if (start && limit && delta) {
    const auto step = c.value(*delta);
    if (step == 0) return c.fail("a step of 0");
    if (step && *step > -kFarthest && *step < kFarthest) {
      // ceil((limit - start) / delta), for negative steps with both signs turned.
      const Dim distance = *step > 0 ? c.dims.sub(*limit, *start) : c.dims.sub(*start, *limit);
      const Dim length = c.dims.max(c.dims.ceil_div(distance, c.constant(*step > 0 ? *step : -*step)), c.constant(0));
      c.set_shape(0, DimVector{length});
      const auto n = c.value(length);
      if (!n || *n > kMaxContent) return;
      DimVector all;
      for (std::int64_t k = 0; k < *n; ++k) all.push_back(c.dims.add(*start, c.constant(k * *step)));
      return c.set_content(0, std::move(all));
    }
  }
  auto from = c.numbers(0), to = c.numbers(1), by = c.numbers(2);
  if (from && to && by && from->size() == 1 && to->size() == 1 && by->size() == 1 && is_floating(dtype)) {
    const double n = std::ceil((to->front() - from->front()) / by->front());
    // Rounding in the dtype's own precision may move a length that is nearly whole.
    const double exact = (to->front() - from->front()) / by->front();
    if (std::isfinite(n) && std::abs(n) < 1e9 && (exact == std::floor(exact) || std::abs(exact - std::round(exact)) > 1e-3))
      return c.set_shape(0, DimVector{c.constant(std::max<std::int64_t>(0, static_cast<std::int64_t>(n)))});
  }
  c.set_shape(0, c.fresh_shape(0, 1));
}

void eye_like(Call& c) {
  const auto dtype = static_cast<DType>(c.int_attribute("dtype", 0));
  c.set(0, dtype == DType::kUndefined ? c.in(0).dtype : dtype, c.has_rank(0) ? c.in(0).shape : std::nullopt);
}

void random_like(Call& c) {
  const auto dtype = static_cast<DType>(c.int_attribute("dtype", 0));
  c.set(0, dtype == DType::kUndefined ? c.in(0).dtype : dtype, c.has_rank(0) ? c.in(0).shape : std::nullopt);
}

void random_of_shape(Call& c) {
  DimVector dims;
  auto given = c.ints_attribute("shape");
  c.set_dtype(0, static_cast<DType>(c.int_attribute("dtype", 1)));
  if (!given) return;
  for (std::int64_t d : *given) dims.push_back(c.constant(d));
  c.set_shape(0, std::move(dims));
}

void multinomial(Call& c) {
  c.set_dtype(0, static_cast<DType>(c.int_attribute("dtype", 6)));
  if (c.has_rank(0) && c.rank(0) == 2) c.set_shape(0, DimVector{c.dim(0, 0), c.constant(c.int_attribute("sample_size", 1))});
}

void constant(Call& c) {
  const Attribute* a = c.attribute("value");
  if (!a || !std::holds_alternative<Tensor>(a->value) || !c.wants(0)) return;
  c.out[0] = facts_of_tensor(a->t(), c.dims);
}

void window(Call& c) {
  c.set_dtype(0, static_cast<DType>(c.int_attribute("output_datatype", 1)));
  auto n = c.scalar(0);
  c.set_shape(0, DimVector{n && c.dims.non_negative(*n) ? *n : c.fresh(0, 0)});
}

}  // namespace

void add_content_rules(Rules& rules) {
  rules[":Shape"] = shape;
  rules[":Size"] = size;
  rules[":ConstantOfShape"] = constant_of_shape;
  rules[":Range"] = range;
  rules[":EyeLike"] = eye_like;
  rules[":RandomNormalLike"] = rules[":RandomUniformLike"] = rules[":Bernoulli"] = random_like;
  rules[":RandomNormal"] = rules[":RandomUniform"] = random_of_shape;
  rules[":Multinomial"] = multinomial;
  rules[":Constant"] = constant;
  rules[":BlackmanWindow"] = rules[":HannWindow"] = rules[":HammingWindow"] = window;
}

}  // namespace saturate::inference
