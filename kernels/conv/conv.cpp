// Conv of any rank (ONNX spec), com.microsoft FusedConv and NhwcConv: windows copied to columns, some positions at a time, then a matrix
// product per batch entry and group.
#include "kernels/conv/conv.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/elementwise/activation.h"
#include "kernels/gemm/gemm.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

struct ConvShape {
  Window window;
  std::int64_t batch = 0, channels = 0, filters = 0, groups = 1;
  Shape out_dims;
};

absl::StatusOr<ConvShape> shape_of(const KernelContext& ctx, const Tensor& x, const Tensor& w) {
  if (x.rank() < 2 || w.rank() != x.rank()) return ctx.invalid("the input and the weight must have equal rank, at least 2");
  if (x.dtype() != w.dtype()) return ctx.invalid("the inputs differ in element type");
  ConvShape s;
  s.groups = ctx.attr_i("group", 1);
  s.batch = x.dims()[0];
  s.channels = x.dims()[1];
  s.filters = w.dims()[0];
  if (s.groups < 1 || s.filters % s.groups != 0 || s.channels != w.dims()[1] * s.groups)
    return ctx.invalid("channels, filters and group do not fit");
  const Shape kernel(w.dims().begin() + 2, w.dims().end());
  if (const Shape given = ctx.attr_ints("kernel_shape"); !given.empty() && given != kernel)
    return ctx.invalid("kernel_shape is not the weight's");
  absl::StatusOr<Window> window = window_of(ctx, Shape(x.dims().begin() + 2, x.dims().end()), kernel);
  if (!window.ok()) return window.status();
  s.window = *std::move(window);
  s.out_dims = {s.batch, s.filters};
  s.out_dims.insert(s.out_dims.end(), s.window.output.begin(), s.window.output.end());
  return s;
}

// 1 x 1 kernels over everything: the input is its own column matrix.
bool is_pointwise(const Window& w) {
  return w.kernel_size() == 1 && w.input == w.output && std::all_of(w.strides.begin(), w.strides.end(), [](auto s) { return s == 1; }) &&
         std::all_of(w.pad_begin.begin(), w.pad_begin.end(), [](auto p) { return p == 0; });
}

// Whether some window reaches beyond the input.
bool reads_padding(const Window& w) {
  for (std::size_t d = 0; d < w.input.size(); ++d) {
    const std::int64_t last = (w.output[d] - 1) * w.strides[d] + (w.kernel[d] - 1) * w.dilations[d] - w.pad_begin[d];
    if (w.pad_begin[d] > 0 || last >= w.input[d]) return true;
  }
  return false;
}

// So many columns that they stay in the second-level cache from being filled to being multiplied, and enough of them to make up for reading
// the weights again.
std::int64_t positions_at_once(std::int64_t k, std::int64_t positions) {
  constexpr std::int64_t kNear = 1 << 17, kLeast = 256;
  return std::min(positions, std::max(kLeast, kNear / std::max<std::int64_t>(1, k)));
}

// Of the columns, `at` alone: a row for each channel and kernel element.
template <typename T>
void fill_columns(const KernelContext& ctx, const Window& w, std::int64_t channels, const Positions& at, const T* x, T* columns) {
  const std::int64_t kernel = w.kernel_size(), plane = w.input_size();
  const bool padded = reads_padding(w);
  parallel_for(ctx, channels * kernel, std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, at.size())),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   T* out = columns + row * at.size();
                   if (padded) std::fill_n(out, at.size(), T(0));
                   out -= at.begin;
                   const T* in = x + row / kernel * plane;
                   for_each_window_run(w, row % kernel, at, [&](std::int64_t to, std::int64_t n, std::int64_t from, std::int64_t step) {
                     if (step == 1) {
                       std::copy_n(in + from, n, out + to);
                     } else {
                       for (std::int64_t i = 0; i < n; ++i) out[to + i] = in[from + i * step];
                     }
                   });
                 }
               });
}

// One channel in, some filters out: the sums run straight over the input rows.
template <typename T>
void depthwise(const Window& w, const T* x, const T* weight, T* y) {
  using A = std::conditional_t<std::is_same_v<T, float>, float, Accumulator<T>>;
  const std::int64_t positions = w.output_size();
  std::vector<A> sums;
  A* out = nullptr;
  if constexpr (std::is_same_v<T, A>) {
    out = y;
    std::fill_n(out, positions, A(0));
  } else {
    sums.assign(static_cast<std::size_t>(positions), A(0));
    out = sums.data();
  }
  for (std::int64_t k = 0; k < w.kernel_size(); ++k) {
    const A factor = static_cast<A>(weight[k]);
    for_each_window_run(w, k, [&](std::int64_t to, std::int64_t n, std::int64_t from, std::int64_t step) {
      A* o = out + to;
      const T* in = x + from;
      if (step == 1) {
        for (std::int64_t i = 0; i < n; ++i) o[i] += factor * static_cast<A>(in[i]);
      } else {
        for (std::int64_t i = 0; i < n; ++i) o[i] += factor * static_cast<A>(in[i * step]);
      }
    });
  }
  if constexpr (!std::is_same_v<T, A>) {
    for (std::int64_t i = 0; i < positions; ++i) y[i] = static_cast<T>(out[i]);
  }
}

// One channel in, one filter out, by rows of the output. Planes are copied with the zeros around them that windows read, and each row of
// them by phases, so that outputs side by side read inputs side by side: p, p + stride, p + 2 stride ... for each p below the stride.
// (A sum that begins with 0 is never -0, so a product that is 0 or -0 leaves it as it is.)
class PlaneConvolution {
 public:
  static bool fits(const Window& w) {
    // Not where there would be more zeros than a copy is worth.
    const std::int64_t most = 8 * (w.input_size() + w.output_size() + 1024);
    std::int64_t size = w.strides.empty() ? most : w.strides.back();
    for (std::size_t d = 0; d < w.input.size() && size <= most; ++d) size = extent(w, d) > most / size ? most + 1 : size * extent(w, d);
    return !w.input.empty() && size <= most;
  }
  explicit PlaneConvolution(const Window& w)
      : w_(w), outer_(w.input.size() - 1), stride_(w.strides[outer_]), phase_((extent(w, outer_) + stride_ - 1) / stride_) {
    steps_.assign(outer_ + 1, stride_ * phase_);
    for (std::size_t d = outer_; d-- > 0;) steps_[d] = d + 1 == outer_ ? stride_ * phase_ : steps_[d + 1] * extent(w, d + 1);
    plane_.resize(static_cast<std::size_t>(outer_ == 0 ? stride_ * phase_ : steps_[0] * extent(w, 0)));
    for (std::int64_t k = 0; k < w.kernel_size(); ++k) taps_.push_back({offset_of(k), 0});
  }

  void take(const float* x) {
    const std::int64_t width = w_.input[outer_], rows = width == 0 ? 0 : w_.input_size() / width;
    const std::int64_t pad = w_.pad_begin[outer_], first = std::max<std::int64_t>(0, -pad),
                       last = std::min(width, extent(w_, outer_) - pad);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::optional<std::int64_t> at = row_of(r);
      if (!at) continue;
      const float* from = x + r * width;
      float* to = plane_.data() + *at;
      if (stride_ == 1) {
        if (first < last) std::copy(from + first, from + last, to + first + pad);
        continue;
      }
      for (std::int64_t i = first; i < last; ++i) to[(i + pad) % stride_ * phase_ + (i + pad) / stride_] = from[i];
    }
  }
  void run(const float* weight, float* y) {
    for (std::size_t k = 0; k < taps_.size(); ++k) taps_[k].weight = weight[k];
    const std::int64_t width = w_.output[outer_];
    Shape index(outer_, 0);
    for (std::int64_t row = 0, rows = w_.output_size() / width; row < rows; ++row, y += width) {
      const float* x = plane_.data();
      for (std::size_t d = 0; d < outer_; ++d) x += index[d] * w_.strides[d] * steps_[d];
      sum_taps(taps_, x, width, y);
      for (std::size_t d = outer_; d-- > 0;) {
        if (++index[d] < w_.output[d]) break;
        index[d] = 0;
      }
    }
  }

 private:
  static std::int64_t extent(const Window& w, std::size_t d) {
    return (w.output[d] - 1) * w.strides[d] + (w.kernel[d] - 1) * w.dilations[d] + 1;
  }
  std::int64_t offset_of(std::int64_t k) const {
    const std::int64_t along = k % w_.kernel[outer_] * w_.dilations[outer_];
    std::int64_t at = along % stride_ * phase_ + along / stride_;
    k /= w_.kernel[outer_];
    for (std::size_t d = outer_; d-- > 0; k /= w_.kernel[d]) at += k % w_.kernel[d] * w_.dilations[d] * steps_[d];
    return at;
  }
  // Where row `r` of the input lies; nullopt: no window reads it.
  std::optional<std::int64_t> row_of(std::int64_t r) const {
    std::int64_t at = 0;
    for (std::size_t d = outer_; d-- > 0; r /= w_.input[d]) {
      const std::int64_t i = r % w_.input[d] + w_.pad_begin[d];
      if (i < 0 || i >= extent(w_, d)) return std::nullopt;
      at += i * steps_[d];
    }
    return at;
  }
  const Window& w_;
  std::size_t outer_;
  std::int64_t stride_, phase_;
  Shape steps_;  // from one to the next along each axis but the last
  std::vector<float> plane_;
  std::vector<RowTap> taps_;
};

// Of weights that are finite.
void convolve_planes(const KernelContext& ctx, const ConvShape& s, const float* x, const float* weight, float* y) {
  const Window& w = s.window;
  const std::int64_t out = s.filters / s.groups, positions = w.output_size();
  parallel_for(ctx, s.batch * s.filters, 1, [&](std::int64_t begin, std::int64_t end) {
    PlaneConvolution plane(w);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t b = i / s.filters, f = i % s.filters;
      if (i == begin || f % out == 0) plane.take(x + (b * s.channels + f / out) * w.input_size());
      plane.run(weight + f * w.kernel_size(), y + i * positions);
    }
  });
}

bool all_finite(const float* x, std::int64_t n) {
  return std::all_of(x, x + n, [](float v) { return std::isfinite(v); });
}

template <typename T>
void convolve(const KernelContext& ctx, const ConvShape& s, const T* x, const T* weight, T* y) {
  const Window& w = s.window;
  const std::int64_t in = s.channels / s.groups, out = s.filters / s.groups, k = in * w.kernel_size(), positions = w.output_size(),
                     plane = w.input_size();
  if (positions == 0) return;
  if (in == 1 && !ctx.options.reference) {
    if constexpr (std::is_same_v<T, float>)
      if (PlaneConvolution::fits(w) && all_finite(weight, s.filters * w.kernel_size())) return convolve_planes(ctx, s, x, weight, y);
    parallel_for(ctx, s.batch * s.filters, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t b = i / s.filters, f = i % s.filters;
        depthwise<T>(w, x + (b * s.channels + f / out) * plane, weight + f * k, y + i * positions);
      }
    });
    return;
  }
  const bool pointwise = is_pointwise(w);
  const std::int64_t width = pointwise ? positions : positions_at_once(k, positions), parts = (positions + width - 1) / width;
  parallel_for(ctx, s.batch * s.groups * parts, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::shared_ptr<std::byte> buffer =
        pointwise ? nullptr : ctx.host.buffer(static_cast<std::size_t>(std::max<std::int64_t>(1, k) * width) * sizeof(T));
    T* columns = reinterpret_cast<T*>(buffer.get());
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t b = i / parts / s.groups, g = i / parts % s.groups, first = i % parts * width;
      const Positions at{first, std::min(positions, first + width)};
      const T* from = x + (b * s.channels + g * in) * plane;
      if (!pointwise) fill_columns(ctx, w, in, at, from, columns);
      gemm_any<T>(ctx, {out, at.size(), k}, {weight + g * out * k, k, 1}, {pointwise ? from : columns, at.size(), 1},
                  {y + (b * s.filters + g * out) * positions + first, positions});
    }
  });
}

template <typename T>
void add_channel_bias(const ConvShape& s, const T* bias, T* y) {
  using C = Compute<T>;
  const std::int64_t positions = s.window.output_size();
  for (std::int64_t i = 0; i < s.batch * s.filters; ++i) {
    const C b = static_cast<C>(bias[i % s.filters]);
    for (std::int64_t p = 0; p < positions; ++p) y[i * positions + p] = static_cast<T>(static_cast<C>(y[i * positions + p]) + b);
  }
}

absl::StatusOr<Tensor> conv_tensor(const KernelContext& ctx, const Tensor& x, const Tensor& w) {
  absl::StatusOr<ConvShape> s = shape_of(ctx, x, w);
  if (!s.ok()) return s.status();
  if (ctx.has_input(2) && (ctx.tensor(2).dims() != Shape{s->filters} || ctx.tensor(2).dtype() != x.dtype()))
    return ctx.invalid("the bias does not fit");
  const std::optional<std::int64_t> columns = checked_elements(std::array{s->channels, s->window.kernel_size(), s->window.output_size()});
  if (!columns || static_cast<std::size_t>(*columns) > ctx.options.memory_limit) return ctx.invalid("the windows take too much memory");
  absl::StatusOr<Tensor> y = ctx.allocate(x.dtype(), s->out_dims);
  if (!y.ok()) return y;
  Outputs done = dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    convolve<T>(ctx, *s, x.data<T>(), w.data<T>(), write<T>(*y));
    if (ctx.has_input(2)) add_channel_bias<T>(*s, ctx.tensor(2).data<T>(), write<T>(*y));
    return std::vector<Value>();
  });
  if (!done.ok()) return done.status();
  return y;
}

Outputs conv(KernelContext& ctx) {
  absl::StatusOr<Tensor> y = conv_tensor(ctx, ctx.tensor(0), ctx.tensor(1));
  if (!y.ok()) return y.status();
  return outputs_of(*std::move(y));
}

enum class Channels : std::uint8_t { kSecond, kLast };

// [n, ...positions, channels] as [n, channels, ...positions], or back.
absl::StatusOr<Tensor> with_channels(const KernelContext& ctx, Channels to, const Tensor& t) {
  Shape dims = t.dims(), strides = strides_of(dims);
  for (Shape* list : {&dims, &strides}) {
    const auto first = list->begin() + 1;
    std::rotate(first, to == Channels::kSecond ? list->end() - 1 : first + 1, list->end());
  }
  Outputs moved = rearrange(ctx, t, dims, strides);
  if (!moved.ok()) return moved.status();
  return (*moved)[0].tensor();
}

// Conv of inputs and weights whose channels stand last.
Outputs nhwc_conv(KernelContext& ctx) {
  for (std::size_t i : {0, 1})
    if (ctx.tensor(i).rank() < 3) return ctx.invalid("the input and the weight must have equal rank, at least 3");
  const absl::StatusOr<Tensor> x = with_channels(ctx, Channels::kSecond, ctx.tensor(0));
  if (!x.ok()) return x.status();
  const absl::StatusOr<Tensor> w = with_channels(ctx, Channels::kSecond, ctx.tensor(1));
  if (!w.ok()) return w.status();
  const absl::StatusOr<Tensor> y = conv_tensor(ctx, *x, *w);
  if (!y.ok()) return y.status();
  absl::StatusOr<Tensor> last = with_channels(ctx, Channels::kLast, *y);
  if (!last.ok()) return last.status();
  return outputs_of(*std::move(last));
}

// activation(Conv(X, W, B) + Z)
Outputs fused_conv(KernelContext& ctx) {
  absl::StatusOr<Tensor> y = conv_tensor(ctx, ctx.tensor(0), ctx.tensor(1));
  if (!y.ok()) return y.status();
  if (ctx.has_input(3)) {
    const Tensor& z = ctx.tensor(3);
    if (z.dims() != y->dims() || z.dtype() != y->dtype()) return ctx.invalid("Z does not have the result's shape");
    Outputs sum = dispatch(FloatTypes{}, ctx, z.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
      using C = Compute<T>;
      return zip_elements<T, T, T>(ctx, *y, z, [](T a, T b) { return static_cast<T>(static_cast<C>(a) + static_cast<C>(b)); });
    });
    if (!sum.ok()) return sum;
    *y = (*sum)[0].tensor();
  }
  const std::string name = ctx.attr_s("activation", "");
  if (name.empty()) return outputs_of(*std::move(y));
  const std::vector<float> params = ctx.attr_floats("activation_params");
  if (name == "Clip" && params.size() == 2) {
    return map_floats(ctx, *y,
                      [&](auto v) { return std::clamp(v, static_cast<decltype(v)>(params[0]), static_cast<decltype(v)>(params[1])); });
  }
  std::optional<float> alpha, beta;
  if (!params.empty()) alpha = params[0];
  if (params.size() > 1) beta = params[1];
  const auto f = is_conv_activation(name) ? activation_function(name, alpha, beta) : std::nullopt;
  if (!f) return ctx.unsupported("activation '" + name + "'");
  return map_floats(ctx, *y, [&f](auto v) { return static_cast<decltype(v)>((*f)(static_cast<double>(v))); });
}

}  // namespace

bool is_conv_activation(std::string_view name) {
  return one_of(name, {"Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", "HardSwish"});
}

void register_conv(Registry& registry) {
  registry.add("", "Conv", conv);
  registry.add(kMicrosoft, "FusedConv", fused_conv);
  registry.add(kMicrosoft, "NhwcConv", nhwc_conv);
  register_conv_transpose(registry);
  register_conv_other(registry);
}

}  // namespace saturate
