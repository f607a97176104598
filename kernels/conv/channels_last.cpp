#include "kernels/conv/channels_last.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <optional>

#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/fused_elementwise.h"

namespace saturate {
namespace {

struct Image {
  std::int64_t batch, height, width, channels;
};

Image image_of(const Tensor& x) { return {x.dims()[0], x.dims()[1], x.dims()[2], x.dims()[3]}; }

absl::Status check_image(const KernelContext& ctx, const Tensor& x) {
  if (x.rank() != 4) return ctx.invalid("the input must have rank 4");
  return x.dtype() == DType::kFloat ? absl::OkStatus() : ctx.unsupported_dtype(x.dtype());
}

struct ConvWeights {
  PackedMatrix packed;      // [kernel, channels] x filters
  AlignedFloats depthwise;  // [kernel][channels]
};

// From [filters, channels, kernel...], the order of Conv.
ConvWeights prepare_weights(const Tensor& weight, bool depthwise) {
  const Tensor w = aligned(weight);
  const std::int64_t filters = w.dims()[0], channels = w.dims()[1], taps = w.dims()[2] * w.dims()[3];
  const float* from = w.data<float>();
  ConvWeights out;
  if (depthwise) {
    out.depthwise = aligned_floats(taps * filters);
    for (std::int64_t f = 0; f < filters; ++f)
      for (std::int64_t t = 0; t < taps; ++t) out.depthwise[static_cast<std::size_t>(t * filters + f)] = from[f * taps + t];
  } else {
    std::vector<float> moved(static_cast<std::size_t>(taps * channels * filters));  // [filters][taps][channels]
    for (std::int64_t f = 0; f < filters; ++f)
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t t = 0; t < taps; ++t)
          moved[static_cast<std::size_t>((f * taps + t) * channels + c)] = from[(f * channels + c) * taps + t];
    out.packed = pack_matrix(taps * channels, filters, {moved.data(), 1, taps * channels});
  }
  release_pages(weight);
  return out;
}

// Where the windows' taps lie: rows of channels, and a row of zeros for what lies outside the image.
class WindowTaps {
 public:
  WindowTaps(const Window& w, const Image& image, const float* x)
      : w_(w), image_(image), x_(x), zeros_(static_cast<std::size_t>(image.channels)) {}

  void operator()(std::int64_t begin, std::int64_t end, const float** to) const {
    const std::int64_t plane = w_.output[0] * w_.output[1];
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t y0 = r % plane / w_.output[1] * w_.strides[0] - w_.pad_begin[0],
                         x0 = r % w_.output[1] * w_.strides[1] - w_.pad_begin[1];
      const float* image = x_ + r / plane * image_.height * image_.width * image_.channels;
      for (std::int64_t i = 0; i < w_.kernel[0]; ++i) {
        const std::int64_t y = y0 + i * w_.dilations[0];
        const bool inside = y >= 0 && y < image_.height;
        for (std::int64_t j = 0; j < w_.kernel[1]; ++j) {
          const std::int64_t x = x0 + j * w_.dilations[1];
          *to++ = inside && x >= 0 && x < image_.width ? image + (y * image_.width + x) * image_.channels : zeros_.data();
        }
      }
    }
  }

 private:
  const Window& w_;
  const Image& image_;
  const float* x_;
  std::vector<float> zeros_;
};

// An image with the zeros around it that windows read, and these windows, each row of which is one piece then.
struct PaddedImage {
  Image image;
  Window window;
  const float* data;
  std::shared_ptr<std::byte> copy;
};

void pad_image(const KernelContext& ctx, const Window& w, const Image& image, const float* x, const Image& to, float* out) {
  const std::int64_t left = std::clamp<std::int64_t>(w.pad_begin[1], 0, to.width), first = left - w.pad_begin[1],
                     count = std::clamp<std::int64_t>(image.width - first, 0, std::max<std::int64_t>(0, to.width - left));
  parallel_for(ctx, to.batch * to.height, std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, to.width * to.channels)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   const std::int64_t y = r % to.height - w.pad_begin[0];
                   float* line = out + r * to.width * to.channels;
                   if (y < 0 || y >= image.height || count == 0) {
                     std::fill_n(line, to.width * to.channels, 0.0f);
                     continue;
                   }
                   const float* from = x + ((r / to.height * image.height + y) * image.width + first) * image.channels;
                   line = std::fill_n(line, left * to.channels, 0.0f);
                   line = std::copy_n(from, count * to.channels, line);
                   std::fill_n(line, (to.width - left - count) * to.channels, 0.0f);
                 }
               });
}

// nullopt: there would be more zeros than an image is worth.
std::optional<PaddedImage> padded_image(const KernelContext& ctx, const Window& w, const Image& image, const float* x) {
  PaddedImage out{image, w, x, nullptr};
  std::int64_t* const extents[] = {&out.image.height, &out.image.width};
  bool inside = true;
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t extent = (w.output[d] - 1) * w.strides[d] + (w.kernel[d] - 1) * w.dilations[d] + 1, most = 4 * (w.input[d] + 16);
    if (extent > most) return std::nullopt;
    inside = inside && w.pad_begin[d] == 0 && extent <= w.input[d];
    *extents[d] = extent;
  }
  out.window.pad_begin = {0, 0};
  out.window.kernel[1] = 1;
  if (inside) {
    out.image = image;
    return out;
  }
  const std::int64_t size = image.batch * out.image.height * out.image.width * image.channels;
  out.copy = ctx.host.buffer(static_cast<std::size_t>(size) * sizeof(float));
  if (out.copy == nullptr) throw std::bad_alloc();
  pad_image(ctx, w, image, x, out.image, reinterpret_cast<float*>(out.copy.get()));
  out.data = reinterpret_cast<const float*>(out.copy.get());
  return out;
}

constexpr std::int64_t kTapChannels = 16;  // fewer are too few for a piece

bool is_whole_image(const Window& w) {
  return w.kernel_size() == 1 && w.input == w.output && w.strides == Shape{1, 1} && w.pad_begin == Shape{0, 0};
}

// Bias, residual and activation of the result.
GemmFinish finisher(const float* bias, const float* residual, const EpilogueCall& epilogue, float* y, std::int64_t filters) {
  GemmFinish finish;
  finish.tile = {bias, residual, filters, epilogue.clip_low(), epilogue.clip_high()};
  if (!epilogue.is_clip()) {
    finish.rest = [=](std::int64_t r0, std::int64_t r1, std::int64_t c0, std::int64_t c1) {
      for (std::int64_t r = r0; r < r1; ++r) apply_epilogue(epilogue, y + r * filters + c0, c1 - c0);
    };
  }
  return finish;
}

// Each channel of an image under a window of its own.
struct DepthwiseImage {
  const Window& window;
  const Image& image;
  const float* x;
  const float* weights;
};

void convolve_depthwise(const KernelContext& ctx, const DepthwiseImage& of, const GemmFinish& finish, float* y) {
  const Window& w = of.window;
  const Image& image = of.image;
  const float *x = of.x, *weights = of.weights;
  const std::int64_t channels = image.channels, rows = w.output[0], columns = w.output[1];
  // Output columns whose whole window lies inside the image.
  const std::int64_t first = std::min(columns, (std::max<std::int64_t>(0, w.pad_begin[1]) + w.strides[1] - 1) / w.strides[1]);
  const std::int64_t room = image.width + w.pad_begin[1] - (w.kernel[1] - 1) * w.dilations[1] - 1;
  const std::int64_t last = std::max(first, room < 0 ? 0 : std::min(columns, room / w.strides[1] + 1));
  parallel_for(ctx, image.batch * rows, std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, columns * channels * 4)),
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<DepthwiseTap> taps;
                 const auto run = [&](std::int64_t r, std::int64_t from, std::int64_t to, bool check) {
                   const std::int64_t n = r / rows, y0 = r % rows * w.strides[0] - w.pad_begin[0],
                                      x0 = from * w.strides[1] - w.pad_begin[1];
                   taps.clear();
                   for (std::int64_t i = 0; i < w.kernel[0]; ++i) {
                     const std::int64_t at_y = y0 + i * w.dilations[0];
                     if (at_y < 0 || at_y >= image.height) continue;
                     for (std::int64_t j = 0; j < w.kernel[1]; ++j) {
                       const std::int64_t at_x = x0 + j * w.dilations[1];
                       if (check && (at_x < 0 || at_x >= image.width)) continue;
                       taps.push_back({(at_y * image.width + at_x) * channels, weights + (i * w.kernel[1] + j) * channels});
                     }
                   }
                   const bool sliding = !check && w.strides[1] == 1 && w.dilations[1] == 1;
                   TileFinish here = finish.tile;
                   if (here.residual != nullptr) here.residual += (r * columns + from) * channels;
                   depthwise_positions({x + n * image.height * image.width * channels, w.strides[1] * channels, taps,
                                        sliding ? static_cast<int>(w.kernel[1]) : 0, channels, to - from},
                                       here, y + (r * columns + from) * channels);
                 };
                 for (std::int64_t r = begin; r < end; ++r) {
                   for (std::int64_t c = 0; c < first; ++c) run(r, c, c + 1, true);
                   if (last > first) run(r, first, last, false);
                   for (std::int64_t c = last; c < columns; ++c) run(r, c, c + 1, true);
                   if (finish.rest) finish.rest(r * columns, (r + 1) * columns, 0, channels);
                 }
               });
}

// X with a factor for every channel of every image, which a convolution of single positions can apply to its weights instead.
struct GatedImage {
  Tensor x;
  Tensor factors;  // [N, 1, 1, C]; empty: none
};

absl::StatusOr<Tensor> gate_image(const KernelContext& ctx, const GatedImage& in) {
  const Image image = image_of(in.x);
  absl::StatusOr<Tensor> y = ctx.allocate(DType::kFloat, in.x.dims());
  if (!y.ok()) return y;
  const std::int64_t line = image.width * image.channels;
  const float* from = in.x.data<float>();
  float* to = write<float>(*y);
  parallel_for(ctx, image.batch * image.height, std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, line)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r)
                   gate_positions(from + r * line, image.width, image.channels,
                                  in.factors.data<float>() + r / image.height * image.channels, to + r * line);
               });
  return y;
}

// Inputs 0 and 4: one of them may be the factors of the other; otherwise their product.
absl::StatusOr<GatedImage> gated_image(const KernelContext& ctx) {
  GatedImage out{ctx.tensor(0), {}};
  if (!ctx.has_input(4)) return out;
  const auto fits = [](const Tensor& x, const Tensor& factors) {
    return x.rank() == 4 && x.dtype() == DType::kFloat && factors.dtype() == DType::kFloat &&
           factors.dims() == Shape{x.dims()[0], 1, 1, x.dims()[3]};
  };
  if (fits(ctx.tensor(0), ctx.tensor(4))) {
    out.factors = ctx.tensor(4);
  } else if (fits(ctx.tensor(4), ctx.tensor(0))) {
    out = {ctx.tensor(4), ctx.tensor(0)};
  } else {
    Outputs product = ctx.host.run_node({"", "Mul", "", "", {"a", "b"}, {"y"}, {}, nullptr}, 14, {ctx.inputs[0], ctx.inputs[4]});
    if (!product.ok()) return product.status();
    out.x = (*product)[0].tensor();
  }
  return out;
}

struct Convolution {
  const Window& window;
  const Tensor& x;
  const float* factors;  // one a channel, null: none
  const ConvWeights& weights;
  std::int64_t filters;
  const GemmFinish& finish;
  float* y;
};

void convolve(const KernelContext& ctx, const Convolution& c) {
  const Image image = image_of(c.x);
  const float* x = c.x.data<float>();
  const std::int64_t rows = image.batch * c.window.output_size();
  if (c.weights.depthwise != nullptr) return convolve_depthwise(ctx, {c.window, image, x, c.weights.depthwise.get()}, c.finish, c.y);
  if (c.factors != nullptr) {
    const std::int64_t nr = gemm_kernel().nr, panels = (c.filters + nr - 1) / nr, k = image.channels;
    const std::shared_ptr<std::byte> scaled = ctx.host.buffer(static_cast<std::size_t>(panels * nr * k) * sizeof(float));
    if (scaled == nullptr) throw std::bad_alloc();
    auto* to = reinterpret_cast<float*>(scaled.get());
    const float* from = c.weights.packed.panels.get();
    parallel_for(ctx, panels, std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, nr * k)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t p = begin; p < end; ++p) scale_rows(from + p * nr * k, k, nr, c.factors, to + p * nr * k);
                 });
    return gemm_panels(ctx, {rows, c.filters, k}, {x, k, 1}, to, {c.y, c.filters}, c.finish);
  }
  if (is_whole_image(c.window)) return gemm_packed(ctx, rows, {x, image.channels, 1}, c.weights.packed, {c.y, c.filters}, c.finish);
  if (image.channels < kTapChannels && c.window.dilations[1] == 1 && rows > 0) {
    if (const std::optional<PaddedImage> padded = padded_image(ctx, c.window, image, x)) {
      const WindowTaps taps(padded->window, padded->image, padded->data);
      return gemm_scattered(ctx, rows, {c.window.kernel[1] * image.channels, std::cref(taps)}, c.weights.packed, {c.y, c.filters},
                            c.finish);
    }
  }
  const WindowTaps taps(c.window, image, x);
  gemm_scattered(ctx, rows, {image.channels, std::cref(taps)}, c.weights.packed, {c.y, c.filters}, c.finish);
}

// Conv over X[N, H, W, C], or X * input 4, with Conv's own W and B, then + Z (input 3), then the activation.
Outputs conv_of_rows(KernelContext& ctx) {
  absl::StatusOr<GatedImage> in = gated_image(ctx);
  if (!in.ok()) return in.status();
  const Tensor& weight = ctx.tensor(1);
  if (absl::Status s = check_image(ctx, in->x); !s.ok()) return s;
  const Image image = image_of(in->x);
  const std::int64_t groups = ctx.attr_i("group", 1), filters = weight.dims()[0];
  if (image.channels != weight.dims()[1] * groups) return ctx.invalid("channels, filters and group do not fit");
  if (ctx.has_input(2) && (ctx.tensor(2).size() != filters || ctx.tensor(2).dtype() != DType::kFloat))
    return ctx.invalid("the bias does not fit");
  absl::StatusOr<Window> w = window_of(ctx, {image.height, image.width}, {weight.dims()[2], weight.dims()[3]});
  if (!w.ok()) return w.status();
  if (const Shape given = ctx.attr_ints("kernel_shape"); !given.empty() && given != w->kernel)
    return ctx.invalid("kernel_shape is not the weight's");
  absl::StatusOr<Tensor> y = ctx.allocate(DType::kFloat, {image.batch, w->output[0], w->output[1], filters});
  if (!y.ok()) return y.status();
  const Tensor* residual = ctx.has_input(3) ? &ctx.tensor(3) : nullptr;
  const bool fits = residual == nullptr || (residual->dims() == y->dims() && residual->dtype() == DType::kFloat);
  const EpilogueCall epilogue = epilogue_of(ctx);
  const float* bias = ctx.has_input(2) ? ctx.tensor(2).data<float>() : nullptr;
  float* out = write<float>(*y);
  const GemmFinish finish =
      finisher(bias, fits && residual ? residual->data<float>() : nullptr, fits ? epilogue : EpilogueCall{}, out, filters);
  const auto weights = ctx.prepared<ConvWeights>([&] { return prepare_weights(weight, groups > 1); });
  // Whichever of the two has fewer numbers takes the factors.
  const bool gated = in->factors.size() > 0;
  const bool scale_weights = gated && groups == 1 && image.batch == 1 && is_whole_image(*w) && filters < image.height * image.width;
  if (gated && !scale_weights) {
    absl::StatusOr<Tensor> product = gate_image(ctx, *in);
    if (!product.ok()) return product.status();
    in->x = *std::move(product);
  }
  convolve(ctx, {*w, in->x, scale_weights ? in->factors.data<float>() : nullptr, *weights, filters, finish, out});
  if (fits) return outputs_of(*std::move(y));
  Outputs sum = ctx.host.run_node({"", "Add", "", "", {"a", "b"}, {"y"}, {}, nullptr}, 14, {*y, *residual});  // broadcast
  if (!sum.ok() || epilogue.kind == Epilogue::kNone) return sum;
  Tensor result = (*sum)[0].tensor();
  apply_epilogue(epilogue, write<float>(result), result.size());
  return outputs_of(std::move(result));
}

enum class PoolKind { kMax, kAverage };

template <PoolKind kPool>
Outputs pool(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  if (absl::Status s = check_image(ctx, x); !s.ok()) return s;
  const Image image = image_of(x);
  const bool global = ctx.attr_i("global", 0) != 0, ceil = ctx.attr_i("ceil_mode", 0) != 0,
             padded = ctx.attr_i("count_include_pad", 0) != 0;
  const Shape kernel = global ? Shape{image.height, image.width} : ctx.attr_ints("kernel_shape");
  if (global && image.height * image.width == 0) return ctx.invalid("there is nothing to pool");
  absl::StatusOr<Window> w = window_of(ctx, {image.height, image.width}, kernel, ceil);
  if (!w.ok()) return w.status();
  const std::int64_t channels = image.channels, columns = w->output[1];
  absl::StatusOr<Tensor> y = ctx.allocate(DType::kFloat, {image.batch, w->output[0], columns, channels});
  if (!y.ok()) return y.status();
  const float* from = x.data<float>();
  float* to = write<float>(*y);
  if (kPool == PoolKind::kAverage && global) {
    const std::int64_t positions = image.height * image.width;
    constexpr std::int64_t kGroup = 64;  // of channels, summed together
    const std::int64_t groups = (channels + kGroup - 1) / kGroup;
    parallel_for(ctx, image.batch * groups, std::max<std::int64_t>(1, 4 * kElementGrain / (kGroup * positions)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t g = begin; g < end; ++g) {
                     const std::int64_t n = g / groups, c = g % groups * kGroup, count = std::min(kGroup, channels - c);
                     sum_positions(from + n * positions * channels + c, positions, channels, count, to + n * channels + c);
                     scale_channels(1.0f / static_cast<float>(positions), to + n * channels + c, count);
                   }
                 });
    return outputs_of(*std::move(y));
  }
  parallel_for(ctx, image.batch * w->output_size(),
               std::max<std::int64_t>(1, kElementGrain / 4 / std::max<std::int64_t>(1, channels * w->kernel_size())),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t p = begin; p < end; ++p) {
                   const std::int64_t n = p / w->output_size(), row = p % w->output_size() / columns, column = p % columns;
                   std::int64_t count = 0, inside = 0;
                   float* out = to + p * channels;
                   std::fill_n(out, channels, kPool == PoolKind::kMax ? -std::numeric_limits<float>::infinity() : 0.0f);
                   for (std::int64_t i = 0; i < w->kernel[0]; ++i) {
                     const std::int64_t at_y = row * w->strides[0] - w->pad_begin[0] + i * w->dilations[0];
                     for (std::int64_t j = 0; j < w->kernel[1]; ++j) {
                       const std::int64_t at_x = column * w->strides[1] - w->pad_begin[1] + j * w->dilations[1];
                       // What ceil_mode adds beyond the end padding counts nowhere.
                       inside += at_y < image.height + w->pad_end[0] && at_x < image.width + w->pad_end[1];
                       if (at_y < 0 || at_x < 0 || at_y >= image.height || at_x >= image.width) continue;
                       ++count;
                       const float* in = from + ((n * image.height + at_y) * image.width + at_x) * channels;
                       kPool == PoolKind::kMax ? max_channels(in, out, channels) : add_channels(in, out, channels);
                     }
                   }
                   if (kPool == PoolKind::kAverage && std::max(count, inside) > 0)
                     scale_channels(1.0f / static_cast<float>(padded ? inside : count), out, channels);
                 }
               });
  return outputs_of(*std::move(y));
}

}  // namespace

Epilogue epilogue_named(std::string_view op_type) {
  constexpr std::pair<std::string_view, Epilogue> kNames[] = {
      {"Relu", Epilogue::kRelu}, {"Clip", Epilogue::kClip}, {"Swish", Epilogue::kSwish},        {"Sigmoid", Epilogue::kSigmoid},
      {"Tanh", Epilogue::kTanh}, {"Gelu", Epilogue::kGelu}, {"HardSwish", Epilogue::kHardSwish}};
  for (const auto& [name, kind] : kNames)
    if (name == op_type) return kind;
  return Epilogue::kNone;
}

EpilogueCall epilogue_of(const KernelContext& ctx) {
  return {epilogue_named(ctx.attr_s("activation", "")), ctx.attr_f("low", -std::numeric_limits<float>::infinity()),
          ctx.attr_f("high", std::numeric_limits<float>::infinity())};
}

void register_channels_last(Registry& registry) {
  registry.add(kSessionDomain, "Conv", conv_of_rows, 1u << 1);  // weights are packed
  registry.add(kSessionDomain, "MaxPool", pool<PoolKind::kMax>);
  registry.add(kSessionDomain, "AveragePool", pool<PoolKind::kAverage>);
  register_fused_elementwise(registry);
}

}  // namespace saturate
