// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear (ONNX Operators, all versions; com.microsoft's forms of the first two).
#include <algorithm>
#include <cmath>

#include "kernels/core/codec.h"
#include "kernels/quantized/fast.h"
#include "kernels/quantized/util.h"

namespace saturate {
namespace {

using StoredTypes = Types<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t>;

struct Quantizer {
  Granularity where;
  std::vector<double> scale, zero;  // zero empty: all 0
  DType precision = DType::kFloat;  // in which the division is rounded
  DType to = DType::kUint8;
  bool saturate = true;

  double ratio(double x, double s) const {
    switch (precision) {
      case DType::kDouble:
        return x / s;
      case DType::kFloat16:
        return Half(static_cast<float>(Half(x)) / static_cast<float>(Half(s)));
      case DType::kBfloat16:
        return BFloat16(static_cast<float>(BFloat16(x)) / static_cast<float>(BFloat16(s)));
      default:
        return static_cast<float>(x) / static_cast<float>(s);
    }
  }
};

// Integers: rounded, shifted by the zero point, clamped; 8-bit floats and smaller: encoded.
template <typename S, typename D>
void quantize_run(const Quantizer& q, const S* x, std::int64_t n, std::int64_t scale_at, std::int64_t step, D* y) {
  const bool tiny_float = is_tiny_float(q.to);
  const double low = static_cast<double>(integer_min(q.to)), high = static_cast<double>(integer_max(q.to));
  const bool plain_float = q.precision == DType::kFloat;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(scale_at + i * step);
    const double zero = q.zero.empty() ? 0.0 : q.zero[at];
    const double value = static_cast<double>(static_cast<Compute<S>>(x[i]));
    const double r = plain_float ? static_cast<float>(value) / static_cast<float>(q.scale[at]) : q.ratio(value, q.scale[at]);
    if (tiny_float) {
      y[i] = static_cast<D>(encode_tiny_float(q.to, narrow_round_to_odd(r + zero), q.saturate));
    } else {
      const double rounded = std::nearbyint(r) + zero;
      y[i] = static_cast<D>(static_cast<std::int32_t>(std::isnan(rounded) ? low : std::clamp(rounded, low, high)));
    }
  }
}

absl::StatusOr<Tensor> quantize(const KernelContext& ctx, const Tensor& x, const Quantizer& q) {
  const bool packed = bit_width(q.to) < 8;
  auto out = ctx.allocate(packed ? DType::kUint8 : q.to, x.dims());
  if (!out.ok()) return out;
  const DType carrier = bit_width(q.to) <= 8 && q.to != DType::kInt8 ? DType::kUint8 : q.to;
  const Outputs done =
      dispatch(Types<float, Half, BFloat16, double, std::int32_t>(), ctx, x.dtype(), [&]<typename S>(std::type_identity<S>) -> Outputs {
        return dispatch(StoredTypes(), ctx, carrier, [&]<typename D>(std::type_identity<D>) -> Outputs {
          const S* from = x.data<S>();
          D* to = write<D>(*out);
          parallel_for(
              ctx, q.where.outer, 1 + (1 << 15) / std::max<std::int64_t>(1, q.where.axis * q.where.inner),
              [&](std::int64_t begin, std::int64_t end) {
                q.where.for_each_run(begin, end, [&](std::int64_t first, std::int64_t n, std::int64_t scale_at, std::int64_t step) {
                  if constexpr (std::is_same_v<S, float>) {
                    if (step == 0 && is_integer(q.to) && q.precision == DType::kFloat) {
                      const float zero = q.zero.empty() ? 0.0f : static_cast<float>(q.zero[static_cast<std::size_t>(scale_at)]);
                      return quantize_floats(from + first, n, static_cast<float>(q.scale[static_cast<std::size_t>(scale_at)]),
                                             {zero, static_cast<float>(integer_min(q.to)), static_cast<float>(integer_max(q.to))},
                                             to + first);
                    }
                  }
                  quantize_run(q, from + first, n, scale_at, step, to + first);
                });
              });
          return std::vector<Value>();
        });
      });
  if (!done.ok()) return done.status();
  if (!packed) return out;
  auto result = ctx.allocate(q.to, x.dims());
  if (result.ok()) pack_bits(out->span<std::uint8_t>(), bit_width(q.to), write<std::byte>(*result));
  return result;
}

bool is_quantized(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
    case DType::kInt8:
    case DType::kUint16:
    case DType::kInt16:
      return true;
    default:
      return is_tiny_integer(dtype) || (is_tiny_float(dtype) && dtype != DType::kFloat8e8m0);
  }
}

Outputs quantize_linear(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const Tensor& scale = ctx.tensor(1);
  Quantizer q;
  const std::int64_t axis = ctx.attr_i("axis", 1), block = ctx.attr_i("block_size", 0);
  const auto where = granularity_of(ctx, x.dims(), scale, axis, block);
  auto scales = to_doubles(ctx, scale);
  if (!where.ok()) return where.status();
  if (!scales.ok()) return scales.status();
  q.where = *where;
  q.scale = *std::move(scales);
  q.saturate = ctx.attr_i("saturate", 1) != 0;
  q.to = static_cast<DType>(ctx.attr_i("output_dtype", 0));
  if (ctx.has_input(2)) {
    const Tensor& zero = ctx.tensor(2);
    if (q.to != DType::kUndefined && q.to != zero.dtype()) return ctx.invalid("output_dtype differs from the zero point's type");
    if (zero.size() != scale.size()) return ctx.invalid("scale and zero point differ in size");
    q.to = zero.dtype();
    auto zeros = to_doubles(ctx, zero);
    if (!zeros.ok()) return zeros.status();
    q.zero = *std::move(zeros);
  }
  if (q.to == DType::kUndefined) q.to = DType::kUint8;
  if (!is_quantized(q.to)) return ctx.unsupported_dtype(q.to);
  q.precision = static_cast<DType>(ctx.attr_i("precision", 0));
  if (q.precision == DType::kUndefined) q.precision = scale.dtype();
  return one_output(quantize(ctx, x, q));
}

template <typename S, typename D>
Outputs dequantize(const KernelContext& ctx, const S* x, const Granularity& where, const std::vector<float>& scale,
                   const std::vector<float>& zero, Tensor out) {
  D* y = write<D>(out);
  parallel_for(ctx, where.outer, 1 + (1 << 15) / std::max<std::int64_t>(1, where.axis * where.inner),
               [&](std::int64_t begin, std::int64_t end) {
                 where.for_each_run(begin, end, [&](std::int64_t first, std::int64_t n, std::int64_t at, std::int64_t step) {
                   if (step == 0) {
                     const float s = scale[static_cast<std::size_t>(at)], z = zero.empty() ? 0.0f : zero[static_cast<std::size_t>(at)];
                     for (std::int64_t i = first; i < first + n; ++i) y[i] = static_cast<D>((static_cast<float>(x[i]) - z) * s);
                     return;
                   }
                   for (std::int64_t i = 0; i < n; ++i) {
                     const auto k = static_cast<std::size_t>(at + i);
                     y[first + i] = static_cast<D>((static_cast<float>(x[first + i]) - (zero.empty() ? 0.0f : zero[k])) * scale[k]);
                   }
                 });
               });
  return outputs_of(std::move(out));
}

absl::StatusOr<std::vector<float>> to_floats(const KernelContext& ctx, const Tensor& t) {
  const auto values = to_doubles(ctx, t);
  if (!values.ok()) return values.status();
  return std::vector<float>(values->begin(), values->end());
}

Outputs dequantize_linear(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const Tensor& scale = ctx.tensor(1);
  const auto where = granularity_of(ctx, x.dims(), scale, ctx.attr_i("axis", 1), ctx.attr_i("block_size", 0));
  if (!where.ok()) return where.status();
  const auto scales = to_floats(ctx, scale);
  if (!scales.ok()) return scales.status();
  std::vector<float> zeros;
  if (ctx.has_input(2)) {
    if (ctx.tensor(2).size() != scale.size() || ctx.tensor(2).dtype() != x.dtype())
      return ctx.invalid("the zero point differs from scale in size or from the input in type");
    auto values = to_floats(ctx, ctx.tensor(2));
    if (!values.ok()) return values.status();
    zeros = *std::move(values);
  }
  auto to = static_cast<DType>(ctx.attr_i("output_dtype", 0));
  if (to == DType::kUndefined) to = scale.dtype() == DType::kFloat8e8m0 ? DType::kFloat : scale.dtype();
  auto out = ctx.allocate(to, x.dims());
  if (!out.ok()) return out.status();
  return dispatch(FloatTypes(), ctx, to, [&]<typename D>(std::type_identity<D>) -> Outputs {
    if (is_tiny_float(x.dtype()) || is_tiny_integer(x.dtype())) {
      const auto values = to_floats(ctx, x);
      if (!values.ok()) return values.status();
      return dequantize<float, D>(ctx, values->data(), *where, *scales, zeros, *std::move(out));
    }
    return dispatch(Join<StoredTypes, Types<std::int32_t>>(), ctx, x.dtype(), [&]<typename S>(std::type_identity<S>) -> Outputs {
      return dequantize<S, D>(ctx, x.data<S>(), *where, *scales, zeros, *std::move(out));
    });
  });
}

// uint8 over the range of the input, widened so that it holds 0.
Outputs dynamic_quantize_linear(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  if (x.dtype() != DType::kFloat) return ctx.unsupported_dtype(x.dtype());
  float low = 0, high = 0;
  range_with_zero(x.data<float>(), x.size(), low, high);
  const auto [scale, zero_point] = byte_scale(low, high);
  const auto zero = static_cast<std::uint8_t>(zero_point);
  Quantizer q;
  q.where.outer = x.size();
  q.scale = {scale};
  q.zero = {static_cast<double>(zero)};
  auto y = quantize(ctx, x, q);
  if (!y.ok()) return y.status();
  return outputs_of(*std::move(y), Tensor::of<float>(DType::kFloat, {}, std::span(&scale, 1)),
                    Tensor::of<std::uint8_t>(DType::kUint8, {}, std::span(&zero, 1)));
}

}  // namespace

void register_quant_linear(Registry& registry) {
  for (std::string_view domain : {std::string_view(), kMicrosoft}) {
    registry.add(domain, "QuantizeLinear", quantize_linear);
    registry.add(domain, "DequantizeLinear", dequantize_linear);
  }
  registry.add("", "DynamicQuantizeLinear", dynamic_quantize_linear);
}

}  // namespace saturate
