// Scales and zero points of the quantized operators: per tensor, per axis, blocked along an axis (ONNX Operators: QuantizeLinear).
#pragma once

#include <functional>

#include "kernels/core/registry.h"
#include "kernels/tensor/util.h"

namespace saturate {

inline const Tensor* optional_tensor(const KernelContext& ctx, std::size_t i) { return ctx.is_tensor(i) ? &ctx.tensor(i) : nullptr; }
inline bool is_byte(DType t) { return t == DType::kInt8 || t == DType::kUint8; }
inline const std::uint8_t* bytes_of(const Tensor& t) { return reinterpret_cast<const std::uint8_t*>(t.bytes().data()); }

// Where the scale of each element lies.
struct Granularity {
  std::int64_t outer = 1, axis = 1, inner = 1;  // the tensor as [outer, axis, inner]
  std::int64_t block = 0;                       // blocked: elements of the axis that share a scale
  bool per_tensor = true;

  // f(first element, count, first scale, step of the scale) for runs in order that together are all elements with outer index in [begin,
  // end).
  template <typename F>
  void for_each_run(std::int64_t begin, std::int64_t end, F&& f) const {
    if (per_tensor) return f(begin * axis * inner, (end - begin) * axis * inner, std::int64_t{0}, std::int64_t{0});
    const std::int64_t blocks = block > 0 ? (axis + block - 1) / block : axis;
    for (std::int64_t o = begin; o < end; ++o) {
      for (std::int64_t a = 0; a < axis; ++a) {
        if (block > 0)
          f((o * axis + a) * inner, inner, (o * blocks + a / block) * inner, std::int64_t{1});
        else
          f((o * axis + a) * inner, inner, a, std::int64_t{0});
      }
    }
  }
};

// Checks a scale (or zero point) against the tensor it belongs to.
absl::StatusOr<Granularity> granularity_of(const KernelContext& ctx, const Shape& dims, const Tensor& scale, std::int64_t axis,
                                           std::int64_t block);

// Integers of any quantized dtype (int8, uint8, 16 bits, tiny ones, int32) as int32.
absl::StatusOr<std::vector<std::int32_t>> quantized_values(const KernelContext& ctx, const Tensor& tensor);
// One int32 per element of `dtype`, clamped to its range.
absl::StatusOr<Tensor> saturated(const KernelContext& ctx, DType dtype, const Shape& dims, std::span<const std::int32_t> values);
// Reals of `dims` rounded to nearest even after division by scale and adding of zero point: one scale.
absl::StatusOr<Tensor> requantize(const KernelContext& ctx, DType dtype, const Shape& dims, std::span<const float> values, float scale,
                                  std::int32_t zero_point);
// The single scale / zero point of an input; zero points default to 0.
absl::StatusOr<float> one_scale(const KernelContext& ctx, std::size_t input);
absl::StatusOr<std::int32_t> one_zero_point(const KernelContext& ctx, std::size_t input);

void register_quant_linear(Registry& registry);
void register_quant_matmul(Registry& registry);
void register_quant_conv(Registry& registry);
void register_quant_contrib(Registry& registry);
void register_quant_nbits(Registry& registry);

}  // namespace saturate
