// DeformConv-19/22, CausalConvWithState-27 (ONNX spec), and com.microsoft's in the standard's form.
#include <cmath>

#include "kernels/conv/conv.h"

namespace saturate {
namespace {

// Bilinear sample of a plane; outside counts as zero.
double sample(const auto* plane, std::int64_t height, std::int64_t width, double y, double x) {
  const double y0 = std::floor(y), x0 = std::floor(x);
  double sum = 0;
  for (int dy = 0; dy < 2; ++dy) {
    for (int dx = 0; dx < 2; ++dx) {
      const double py = y0 + dy, px = x0 + dx;
      if (py < 0 || py >= static_cast<double>(height) || px < 0 || px >= static_cast<double>(width)) continue;
      const double weight = (1 - std::fabs(y - py)) * (1 - std::fabs(x - px));
      sum += weight * static_cast<double>(plane[static_cast<std::int64_t>(py) * width + static_cast<std::int64_t>(px)]);
    }
  }
  return sum;
}

template <typename T>
void deform(const KernelContext& ctx, const Window& w, std::int64_t groups, std::int64_t offset_groups, T* y) {
  const Tensor &x = ctx.tensor(0), &weight = ctx.tensor(1);
  const T* offset = ctx.tensor(2).data<T>();
  const T* bias = ctx.has_input(3) ? ctx.tensor(3).data<T>() : nullptr;
  const T* mask = ctx.has_input(4) ? ctx.tensor(4).data<T>() : nullptr;
  const std::int64_t channels = x.dims()[1], filters = weight.dims()[0], in = weight.dims()[1], kernel = w.kernel_size(),
                     positions = w.output_size();
  for (std::int64_t i = 0; i < x.dims()[0] * filters * positions; ++i) {
    const std::int64_t p = i % positions, f = i / positions % filters, b = i / positions / filters;
    double sum = bias == nullptr ? 0 : static_cast<double>(bias[f]);
    for (std::int64_t c = 0; c < in; ++c) {
      const std::int64_t channel = f / (filters / groups) * in + c, og = channel / (channels / offset_groups);
      for (std::int64_t k = 0; k < kernel; ++k) {
        const std::int64_t at = ((b * offset_groups + og) * kernel + k) * 2 * positions + p;
        const double py = static_cast<double>(p / w.output[1] * w.strides[0] - w.pad_begin[0] + k / w.kernel[1] * w.dilations[0]) +
                          static_cast<double>(offset[at]);
        const double px = static_cast<double>(p % w.output[1] * w.strides[1] - w.pad_begin[1] + k % w.kernel[1] * w.dilations[1]) +
                          static_cast<double>(offset[at + positions]);
        double v = sample(x.data<T>() + (b * channels + channel) * w.input_size(), w.input[0], w.input[1], py, px);
        if (mask != nullptr) v *= static_cast<double>(mask[((b * offset_groups + og) * kernel + k) * positions + p]);
        sum += v * static_cast<double>(weight.data<T>()[(f * in + c) * kernel + k]);
      }
    }
    y[i] = static_cast<T>(sum);
  }
}

Outputs deform_conv(KernelContext& ctx) {
  const Tensor &x = ctx.tensor(0), &w = ctx.tensor(1);
  if (x.rank() != 4 || w.rank() != 4) return ctx.unsupported("another rank than 4");
  const std::int64_t groups = ctx.attr_i("group", 1), offset_groups = ctx.attr_i("offset_group", 1);
  if (groups < 1 || offset_groups < 1 || x.dims()[1] != w.dims()[1] * groups || w.dims()[0] % groups != 0 ||
      x.dims()[1] % offset_groups != 0) {
    return ctx.invalid("channels, filters, group and offset_group do not fit");
  }
  absl::StatusOr<Window> window = window_of(ctx, {x.dims()[2], x.dims()[3]}, {w.dims()[2], w.dims()[3]});
  if (!window.ok()) return window.status();
  const std::int64_t kernel = window->kernel_size(), b = x.dims()[0], oh = window->output[0], ow = window->output[1];
  if (ctx.tensor(2).dims() != Shape{b, offset_groups * kernel * 2, oh, ow}) return ctx.invalid("the offset has the wrong shape");
  if (ctx.has_input(3) && ctx.tensor(3).size() != w.dims()[0]) return ctx.invalid("the bias does not fit");
  if (ctx.has_input(4) && ctx.tensor(4).dims() != Shape{b, offset_groups * kernel, oh, ow})
    return ctx.invalid("the mask has the wrong shape");
  absl::StatusOr<Tensor> y = ctx.allocate(x.dtype(), {b, w.dims()[0], oh, ow});
  if (!y.ok()) return y.status();
  for (std::size_t i = 1; i < ctx.inputs.size(); ++i) {
    if (ctx.has_input(i) && ctx.tensor(i).dtype() != x.dtype()) return ctx.invalid("the inputs differ in element type");
  }
  return dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    deform<T>(ctx, *window, groups, offset_groups, write<T>(*y));
    return outputs_of(*std::move(y));
  });
}

// Depthwise over [past state, input]; the new state is the tail of that sequence.
Outputs causal_conv(KernelContext& ctx) {
  const Tensor &x = ctx.tensor(0), &w = ctx.tensor(1);
  if (ctx.attr_i("ndim", 1) != 1 || ctx.attr_i("dilation", 1) != 1 || ctx.attr_i("channels_last", 0) != 0 ||
      ctx.attr_i("state_window", 0) != 0)
    return absl::UnimplementedError("CausalConvWithState in a form of com.microsoft's own");
  if (x.rank() != 3 || w.rank() != 3 || w.dims()[0] != x.dims()[1] || w.dims()[1] != 1)
    return ctx.invalid("the input or the weight has the wrong shape");
  const std::int64_t batch = x.dims()[0], channels = x.dims()[1], length = x.dims()[2], k = w.dims()[2], past = k - 1;
  const std::string activation = ctx.attr_s("activation", "none");
  const bool silu = activation == "silu" || activation == "swish";
  if (!silu && activation != "none" && !activation.empty()) return ctx.invalid("unknown activation");
  if (k < 1 || (ctx.has_input(3) && ctx.tensor(3).dims() != Shape{batch, channels, past}))
    return ctx.invalid("past_state has the wrong shape");
  if (ctx.has_input(2) && ctx.tensor(2).size() != channels) return ctx.invalid("the bias does not fit");
  absl::StatusOr<Tensor> y = ctx.allocate(x.dtype(), x.dims()), state = ctx.allocate(x.dtype(), {batch, channels, past});
  if (!y.ok()) return y.status();
  if (!state.ok()) return state.status();
  return dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    std::vector<double> row(static_cast<std::size_t>(past + length));
    for (std::int64_t r = 0; r < batch * channels; ++r) {
      for (std::int64_t i = 0; i < past; ++i)
        row[static_cast<std::size_t>(i)] = ctx.has_input(3) ? static_cast<double>(ctx.tensor(3).data<T>()[r * past + i]) : 0.0;
      for (std::int64_t i = 0; i < length; ++i) row[static_cast<std::size_t>(past + i)] = static_cast<double>(x.data<T>()[r * length + i]);
      const std::int64_t c = r % channels;
      for (std::int64_t i = 0; i < length; ++i) {
        double sum = ctx.has_input(2) ? static_cast<double>(ctx.tensor(2).data<T>()[c]) : 0.0;
        for (std::int64_t j = 0; j < k; ++j) sum += row[static_cast<std::size_t>(i + j)] * static_cast<double>(w.data<T>()[c * k + j]);
        if (silu) sum /= 1 + std::exp(-sum);
        write<T>(*y)[r * length + i] = static_cast<T>(sum);
      }
      for (std::int64_t i = 0; i < past; ++i) write<T>(*state)[r * past + i] = static_cast<T>(row[static_cast<std::size_t>(length + i)]);
    }
    return outputs_of(*std::move(y), *std::move(state));
  });
}

}  // namespace

void register_conv_other(Registry& registry) {
  registry.add("", "DeformConv", deform_conv);
  registry.add("", "CausalConvWithState", causal_conv);
  registry.add(kMicrosoft, "CausalConvWithState", causal_conv);
}

}  // namespace saturate
