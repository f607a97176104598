// ConvInteger and QLinearConv (ONNX Operators): windows as columns, exact integer products.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/core/codec.h"
#include "kernels/quantized/conv_fast.h"
#include "kernels/quantized/fast.h"
#include "kernels/quantized/matmul.h"
#include "kernels/quantized/util.h"

namespace saturate {
namespace {

struct IntegerConv {
  Shape dims;  // of the output
  std::vector<std::int32_t> values;
};

// Padding counts as the zero point: 0 after centring.
absl::StatusOr<IntegerConv> integer_conv(const KernelContext& ctx, const Tensor& x, const Tensor* x_zero, const Tensor& w,
                                         const Tensor* w_zero) {
  const std::int64_t groups = ctx.attr_i("group", 1);
  if (x.rank() < 3 || w.rank() != x.rank() || groups <= 0 || w.dims()[0] % groups != 0 || x.dims()[1] != w.dims()[1] * groups)
    return ctx.invalid("input, weight and group do not fit");
  const Shape space(x.dims().begin() + 2, x.dims().end()), kernel(w.dims().begin() + 2, w.dims().end());
  const auto window = window_of(ctx, space, kernel);
  if (!window.ok()) return window.status();
  const auto in = centred(ctx, x, x_zero, false);
  if (!in.ok()) return in.status();
  // Weights per output channel: the first axis.
  auto weights = centred(ctx, w.reshaped({w.dims()[0], w.dims()[0] == 0 ? 0 : w.size() / w.dims()[0]}), w_zero, true);
  if (!weights.ok()) return weights.status();
  const std::int64_t channels = w.dims()[1], per_group = w.dims()[0] / groups, kernel_size = window->kernel_size(),
                     outputs = window->output_size();
  const std::int64_t inputs = window->input_size(), k = channels * kernel_size;
  IntegerConv out;
  out.dims = {x.dims()[0], w.dims()[0]};
  out.dims.insert(out.dims.end(), window->output.begin(), window->output.end());
  if (const auto room = ctx.allocate(DType::kInt32, out.dims); !room.ok()) return room.status();
  if (const auto room = ctx.allocate(DType::kFloat, {k, outputs}); !room.ok()) return room.status();
  out.values.assign(static_cast<std::size_t>(product(out.dims)), 0);
  std::vector<float> columns(static_cast<std::size_t>(k * outputs));
  for (std::int64_t n = 0; n < x.dims()[0]; ++n) {
    for (std::int64_t g = 0; g < groups; ++g) {
      std::fill(columns.begin(), columns.end(), 0.0f);
      for (std::int64_t c = 0; c < channels; ++c) {
        const float* image = in->data() + ((n * groups + g) * channels + c) * inputs;
        for (std::int64_t e = 0; e < kernel_size; ++e) {
          float* row = columns.data() + (c * kernel_size + e) * outputs;
          for_each_window_run(*window, e, [&](std::int64_t first, std::int64_t count, std::int64_t from, std::int64_t step) {
            for (std::int64_t i = 0; i < count; ++i) row[first + i] = image[from + i * step];
          });
        }
      }
      add_exact_product(ctx, {per_group, outputs, k}, {weights->data() + g * per_group * k, k, 1}, {columns.data(), outputs, 1},
                        out.values.data() + (n * groups + g) * per_group * outputs);
    }
  }
  return out;
}

Outputs conv_integer(KernelContext& ctx) {
  const auto fast = ByteConv::make(ctx, ctx.tensor(0), optional_tensor(ctx, 2), 1, optional_tensor(ctx, 3));
  if (!fast.ok()) return fast.status();
  if (*fast) {
    const Shape& dims = (*fast)->dims();
    auto y = ctx.allocate(DType::kInt32, dims);
    if (!y.ok()) return y.status();
    auto* out = write<std::int32_t>(*y);
    (*fast)->run(ctx, [&](const ByteConv::Sums& s) {
      for (int f = 0; f < s.filters; ++f) {
        std::int32_t* to = out + (s.image * dims[1] + s.filter + f) * dims[2] * dims[3] + s.position;
        for (int r = 0; r < s.rows; ++r) to[r] = s.values[r * kBytePanel + f];
      }
    });
    return outputs_of(*std::move(y));
  }
  const auto conv = integer_conv(ctx, ctx.tensor(0), optional_tensor(ctx, 2), ctx.tensor(1), optional_tensor(ctx, 3));
  if (!conv.ok()) return conv.status();
  return outputs_of(Tensor::of<std::int32_t>(DType::kInt32, conv->dims, conv->values));
}

// Scales, zero point and bias of a QLinearConv.
struct Requantization {
  DType to = DType::kUint8;
  std::int32_t zero = 0;
  std::vector<float> ratio;        // one a filter
  std::vector<std::int32_t> bias;  // one a filter
};

absl::StatusOr<Requantization> requantization_of(const KernelContext& ctx, std::int64_t filters) {
  const auto sx = one_scale(ctx, 1), sy = one_scale(ctx, 6);
  const auto zy = one_zero_point(ctx, 7);
  const auto sw = to_doubles(ctx, ctx.tensor(4));
  if (!sx.ok()) return sx.status();
  if (!sy.ok()) return sy.status();
  if (!zy.ok()) return zy.status();
  if (!sw.ok()) return sw.status();
  if (sw->size() != 1 && static_cast<std::int64_t>(sw->size()) != filters) return ctx.invalid("w_scale has the wrong length");
  Requantization r{ctx.has_input(7) ? ctx.tensor(7).dtype() : ctx.tensor(0).dtype(),
                   *zy,
                   {},
                   std::vector<std::int32_t>(static_cast<std::size_t>(filters), 0)};
  for (std::size_t c = 0; c < r.bias.size(); ++c) r.ratio.push_back(*sx * static_cast<float>((*sw)[sw->size() == 1 ? 0 : c]) / *sy);
  if (!ctx.has_input(8)) return r;
  auto given = quantized_values(ctx, ctx.tensor(8));
  if (!given.ok()) return given.status();
  if (given->size() != r.bias.size()) return ctx.invalid("the bias has the wrong length");
  r.bias = *std::move(given);
  return r;
}

Outputs qlinear_conv_bytes(const KernelContext& ctx, const ByteConv& conv, const Requantization& by) {
  const Shape& dims = conv.dims();
  auto y = ctx.allocate(by.to, dims);
  if (!y.ok()) return y.status();
  auto* out = write<std::uint8_t>(*y);
  const std::vector<double> bias(by.bias.begin(), by.bias.end());
  const auto zero = static_cast<float>(by.zero), low = static_cast<float>(integer_min(by.to)),
             high = static_cast<float>(integer_max(by.to));
  conv.run(ctx, [&](const ByteConv::Sums& s) {
    std::array<std::uint8_t, kMostByteRows * kBytePanel> tile;
    for (int r = 0; r < s.rows; ++r)
      requantize_biased(s.values + r * kBytePanel, s.filters, bias.data() + s.filter, by.ratio.data() + s.filter, {zero, low, high},
                        tile.data() + r * kBytePanel);
    transpose_bytes(tile.data(), s.rows, s.filters, kBytePanel, out + (s.image * dims[1] + s.filter) * dims[2] * dims[3] + s.position,
                    dims[2] * dims[3]);
  });
  return outputs_of(*std::move(y));
}

Outputs qlinear_conv(KernelContext& ctx) {
  const auto fast = ByteConv::make(ctx, ctx.tensor(0), optional_tensor(ctx, 2), 3, optional_tensor(ctx, 5));
  if (!fast.ok()) return fast.status();
  if (*fast) {
    const auto by = requantization_of(ctx, (*fast)->dims()[1]);
    if (!by.ok()) return by.status();
    const bool finite = std::all_of(by->ratio.begin(), by->ratio.end(), [](float r) { return std::isfinite(r); });
    if (finite && (by->to == DType::kInt8 || by->to == DType::kUint8)) return qlinear_conv_bytes(ctx, **fast, *by);
  }
  auto conv = integer_conv(ctx, ctx.tensor(0), optional_tensor(ctx, 2), ctx.tensor(3), optional_tensor(ctx, 5));
  if (!conv.ok()) return conv.status();
  const std::int64_t channels = conv->dims[1], inner = product(std::span(conv->dims).subspan(2));
  const auto by = requantization_of(ctx, channels);
  if (!by.ok()) return by.status();
  std::vector<float> real(conv->values.size());
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(real.size()); ++i) {
    const auto c = static_cast<std::size_t>(i / inner % channels);
    const auto sum = static_cast<std::int64_t>(conv->values[static_cast<std::size_t>(i)]) + by->bias[c];
    real[static_cast<std::size_t>(i)] = static_cast<float>(sum) * by->ratio[c];
  }
  return one_output(requantize(ctx, by->to, conv->dims, real, 1.0f, by->zero));
}

}  // namespace

void register_quant_conv(Registry& registry) {
  registry.add("", "ConvInteger", conv_integer);
  registry.add("", "QLinearConv", qlinear_conv);
}

}  // namespace saturate
