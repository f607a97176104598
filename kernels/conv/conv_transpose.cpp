// ConvTranspose (ONNX spec): columns = weight^T x, added into the output where Conv's windows would have read.
#include <algorithm>

#include "kernels/conv/conv.h"
#include "kernels/gemm/gemm.h"

namespace saturate {
namespace {

// The window of the convolution that this one transposes: its `input` is our output and its `output` our input.
absl::StatusOr<Window> transposed_window(const KernelContext& ctx, const Shape& input, const Shape& kernel) {
  const std::size_t rank = input.size();
  Window w;
  w.kernel = kernel;
  w.output = input;
  const auto get = [&](std::string_view name, std::int64_t fallback, std::size_t count) {
    Shape v = ctx.attr_ints(name);
    return v.size() == count ? v : Shape(count, fallback);
  };
  w.strides = get("strides", 1, rank);
  w.dilations = get("dilations", 1, rank);
  const Shape pads = get("pads", 0, 2 * rank), extra = get("output_padding", 0, rank);
  Shape wanted = ctx.attr_ints("output_shape");
  if (wanted.size() == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!wanted.empty() && wanted.size() != rank) return ctx.invalid("output_shape does not fit the input's rank");
  const std::string auto_pad = ctx.attr_s("auto_pad", "NOTSET");
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  for (std::size_t d = 0; d < rank; ++d) {
    if (w.strides[d] < 1 || w.dilations[d] < 1 || w.kernel[d] < 1) return ctx.invalid("strides, dilations and kernel must be positive");
    const std::int64_t full = w.strides[d] * (input[d] - 1) + extra[d] + (w.kernel[d] - 1) * w.dilations[d] + 1;
    std::int64_t begin = pads[d], end = pads[rank + d], size = full - begin - end;
    if (!wanted.empty() || same) {
      size = wanted.empty() ? input[d] * w.strides[d] : wanted[d];
      const std::int64_t total = std::max<std::int64_t>(0, full - size);
      begin = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      end = total - begin;
    } else if (auto_pad == "VALID") {
      begin = end = 0;
      size = full;
    }
    w.pad_begin.push_back(begin);
    w.pad_end.push_back(end);
    w.input.push_back(size);
  }
  return w;
}

template <typename T, typename C>
std::vector<C> converted(const Tensor& t) {
  std::vector<C> out(static_cast<std::size_t>(t.size()));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<C>(t.data<T>()[i]);
  return out;
}

template <typename T>
void transpose_convolve(const KernelContext& ctx, const Window& w, std::int64_t groups, T* y) {
  const Tensor &x = ctx.tensor(0), &weight = ctx.tensor(1);
  const Tensor* bias = ctx.has_input(2) ? &ctx.tensor(2) : nullptr;
  using C = std::conditional_t<std::is_same_v<T, float>, float, double>;
  const std::int64_t batch = x.dims()[0], channels = x.dims()[1], in = channels / groups, out = weight.dims()[1];
  const std::int64_t kernel = w.kernel_size(), positions = w.output_size(), plane = w.input_size();
  const std::vector<C> fx = converted<T, C>(x), fw = converted<T, C>(weight);
  parallel_for(ctx, batch * groups, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> columns(static_cast<std::size_t>(out * kernel * positions)), sums(static_cast<std::size_t>(out * plane));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t b = i / groups, g = i % groups;
      gemm_any<C>(ctx, {out * kernel, positions, in}, {fw.data() + g * in * out * kernel, 1, out * kernel},
                  {fx.data() + (b * channels + g * in) * positions, positions, 1}, {columns.data(), positions});
      for (std::int64_t o = 0; o < out; ++o) {
        const C start = bias == nullptr ? C(0) : static_cast<C>(bias->data<T>()[g * out + o]);
        std::fill_n(sums.data() + o * plane, plane, start);
        for (std::int64_t k = 0; k < kernel; ++k) {
          const C* from = columns.data() + (o * kernel + k) * positions;
          for_each_window_run(w, k, [&](std::int64_t first, std::int64_t n, std::int64_t to, std::int64_t step) {
            C* target = sums.data() + o * plane + to;
            for (std::int64_t p = 0; p < n; ++p) target[p * step] += from[first + p];
          });
        }
      }
      T* target = y + (b * groups + g) * out * plane;
      for (std::int64_t p = 0; p < out * plane; ++p) target[p] = static_cast<T>(sums[static_cast<std::size_t>(p)]);
    }
  });
}

Outputs conv_transpose(KernelContext& ctx) {
  const Tensor &x = ctx.tensor(0), &w = ctx.tensor(1);
  const std::int64_t groups = ctx.attr_i("group", 1);
  if (x.rank() < 2 || w.rank() != x.rank() || x.dtype() != w.dtype())
    return ctx.invalid("the input and the weight must be of equal rank and type");
  if (groups < 1 || x.dims()[1] != w.dims()[0] || x.dims()[1] % groups != 0) return ctx.invalid("channels and group do not fit");
  absl::StatusOr<Window> window =
      transposed_window(ctx, Shape(x.dims().begin() + 2, x.dims().end()), Shape(w.dims().begin() + 2, w.dims().end()));
  if (!window.ok()) return window.status();
  Shape dims{x.dims()[0], w.dims()[1] * groups};
  dims.insert(dims.end(), window->input.begin(), window->input.end());
  const Tensor* bias = ctx.has_input(2) ? &ctx.tensor(2) : nullptr;
  if (bias != nullptr && (bias->size() != dims[1] || bias->dtype() != x.dtype())) return ctx.invalid("the bias does not fit");
  absl::StatusOr<Tensor> y = ctx.allocate(x.dtype(), dims);
  if (!y.ok()) return y.status();
  return dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    transpose_convolve<T>(ctx, *window, groups, write<T>(*y));
    return outputs_of(*std::move(y));
  });
}

}  // namespace

void register_conv_transpose(Registry& registry) { registry.add("", "ConvTranspose", conv_transpose); }

}  // namespace saturate
