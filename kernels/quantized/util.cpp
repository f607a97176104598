#include "kernels/quantized/util.h"

#include <algorithm>
#include <cmath>

#include "kernels/core/codec.h"

namespace saturate {

absl::StatusOr<Granularity> granularity_of(const KernelContext& ctx, const Shape& dims, const Tensor& scale, std::int64_t axis,
                                           std::int64_t block) {
  Granularity g;
  g.outer = 1;
  g.axis = 1;
  g.inner = product(dims);
  if (scale.size() == 1 && (scale.rank() <= 1 || block <= 0)) {
    g.outer = g.inner;  // so that runs can be shared out
    g.inner = 1;
    return g;
  }
  const std::optional<int> at = normalize_axis(axis, static_cast<int>(dims.size()));
  if (!at) return ctx.invalid("the quantization axis is out of range");
  const std::span<const std::int64_t> all(dims);
  g.per_tensor = false;
  g.outer = product(all.first(static_cast<std::size_t>(*at)));
  g.axis = dims[*at];
  g.inner = product(all.subspan(static_cast<std::size_t>(*at) + 1));
  if (block <= 0) {
    if (scale.rank() != 1 || scale.size() != g.axis) return ctx.invalid("the scale has another length than the quantization axis");
    return g;
  }
  g.block = block;
  Shape wanted = dims;
  wanted[*at] = (g.axis + block - 1) / block;
  if (scale.dims() != wanted) return ctx.invalid("the scale does not fit the blocks of the input");
  return g;
}

absl::StatusOr<std::vector<std::int32_t>> quantized_values(const KernelContext& ctx, const Tensor& tensor) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(tensor.size()));
  if (is_tiny_integer(tensor.dtype())) {
    std::vector<std::uint8_t> codes(out.size());
    unpack_bits(tensor, codes.data());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = decode_tiny_integer(tensor.dtype(), codes[i]);
    return out;
  }
  const Outputs done = dispatch(Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t>(), ctx, tensor.dtype(),
                                [&]<typename T>(std::type_identity<T>) -> Outputs {
                                  std::copy_n(tensor.data<T>(), out.size(), out.begin());
                                  return std::vector<Value>();
                                });
  if (!done.ok()) return done.status();
  return out;
}

absl::StatusOr<Tensor> saturated(const KernelContext& ctx, DType dtype, const Shape& dims, std::span<const std::int32_t> values) {
  auto tensor = ctx.allocate(dtype, dims);
  if (!tensor.ok()) return tensor;
  const auto low = static_cast<std::int32_t>(integer_min(dtype)),
             high = static_cast<std::int32_t>(std::min<std::int64_t>(integer_max(dtype), INT32_MAX));
  if (is_tiny_integer(dtype)) {
    std::vector<std::uint8_t> codes(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) codes[i] = static_cast<std::uint8_t>(std::clamp(values[i], low, high));
    pack_bits(codes, bit_width(dtype), write<std::byte>(*tensor));
    return tensor;
  }
  const Outputs done = dispatch(Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t>(), ctx, dtype,
                                [&]<typename T>(std::type_identity<T>) -> Outputs {
                                  T* y = write<T>(*tensor);
                                  for (std::size_t i = 0; i < values.size(); ++i) y[i] = static_cast<T>(std::clamp(values[i], low, high));
                                  return std::vector<Value>();
                                });
  if (!done.ok()) return done.status();
  return tensor;
}

absl::StatusOr<Tensor> requantize(const KernelContext& ctx, DType dtype, const Shape& dims, std::span<const float> values, float scale,
                                  std::int32_t zero_point) {
  constexpr double kBeyond = 1e9;  // every quantized type
  std::vector<std::int32_t> out(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double r = static_cast<double>(std::nearbyint(values[i] / scale)) + zero_point;
    out[i] = static_cast<std::int32_t>(std::isnan(r) ? -kBeyond : std::clamp(r, -kBeyond, kBeyond));  // NaN: the least, as runtimes do
  }
  return saturated(ctx, dtype, dims, out);
}

absl::StatusOr<float> one_scale(const KernelContext& ctx, std::size_t input) {
  const Tensor& t = ctx.tensor(input);
  if (t.size() != 1) return ctx.invalid("a scale must be one number");
  const auto value = to_doubles(ctx, t);
  if (!value.ok()) return value.status();
  return static_cast<float>((*value)[0]);
}

absl::StatusOr<std::int32_t> one_zero_point(const KernelContext& ctx, std::size_t input) {
  if (!ctx.has_input(input)) return 0;
  const Tensor& t = ctx.tensor(input);
  if (t.size() != 1) return ctx.invalid("a zero point must be one number");
  const auto value = quantized_values(ctx, t);
  if (!value.ok()) return value.status();
  return (*value)[0];
}

void register_quant(Registry& registry) {
  register_quant_linear(registry);
  register_quant_matmul(registry);
  register_quant_conv(registry);
  register_quant_contrib(registry);
  register_quant_nbits(registry);
}

}  // namespace saturate
