// Resize and Upsample, all versions and modes (ONNX Operators: Resize). Interpolation is separable: one axis at a time.
#include <algorithm>
#include <cmath>

#include "kernels/image/util.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

struct Settings {
  std::string mode = "nearest", coordinates = "half_pixel", nearest = "round_prefer_floor", policy = "stretch";
  double cubic = -0.75, extrapolation = 0;
  bool antialias = false, exclude_outside = false;
};

struct Axis {
  std::int64_t in = 0, out = 0;
  double scale = 1, roi_start = 0, roi_end = 1;
};

// Position in the input that output position `x` shows; nullopt: outside the region, the extrapolation value.
std::optional<double> source_position(const Axis& a, double x, const Settings& s) {
  const auto in = static_cast<double>(a.in), resized = a.scale * in;  // not rounded to a whole number
  if (s.coordinates == "align_corners") return resized == 1 ? 0.0 : x * (in - 1) / (resized - 1);
  if (s.coordinates == "asymmetric") return x / a.scale;
  if (s.coordinates == "tf_crop_and_resize") {
    const double span = a.roi_end - a.roi_start;
    const double at = (resized == 1 ? span * (in - 1) / 2 : x * span * (in - 1) / (resized - 1)) + a.roi_start * (in - 1);
    if (at < 0 || at > in - 1) return std::nullopt;
    return at;
  }
  if (s.coordinates == "pytorch_half_pixel" && resized <= 1) return 0.0;
  double at = (x + 0.5) / a.scale - 0.5;
  if (s.coordinates == "half_pixel_symmetric") at += in / 2 * (1 - static_cast<double>(a.out) / resized);
  return at;
}

double cubic_weight(double d, double c) {
  d = std::fabs(d);
  if (d <= 1) return ((c + 2) * d - (c + 3)) * d * d + 1;
  return d < 2 ? ((c * d - 5 * c) * d + 8 * c) * d - 4 * c : 0.0;
}

struct Taps {
  std::int64_t count = 0;
  std::vector<std::int64_t> index;  // [out, count], clamped to the input
  std::vector<double> weight;       // [out, count]
  std::vector<bool> outside;        // [out]
};

Taps taps_of(const Axis& a, const Settings& s) {
  const double squeeze = s.antialias ? std::min(a.scale, 1.0) : 1.0;
  const double reach = (s.mode == "cubic" ? 2.0 : 1.0) / squeeze;
  const auto first = static_cast<std::int64_t>(std::floor(-reach)) + 1;
  Taps t;
  t.count = 2 - 2 * first;
  t.outside.assign(static_cast<std::size_t>(a.out), false);
  std::vector<double> w(static_cast<std::size_t>(t.count));
  for (std::int64_t o = 0; o < a.out; ++o) {
    const std::optional<double> position = source_position(a, static_cast<double>(o), s);
    t.outside[static_cast<std::size_t>(o)] = !position;
    const double x = position.value_or(0), base = std::ceil(x) - 1;  // so that x - base lies in (0, 1]
    double sum = 0;
    for (std::int64_t k = 0; k < t.count; ++k) {
      const double distance = (static_cast<double>(first + k) - (x - base)) * squeeze;
      double& weight = w[static_cast<std::size_t>(k)];
      weight = s.mode == "cubic" ? cubic_weight(distance, s.cubic) : std::max(0.0, 1 - std::fabs(distance));
      const double at = base + static_cast<double>(first + k);
      if (s.exclude_outside && (at < 0 || at >= static_cast<double>(a.in))) weight = 0;
      sum += weight;
      t.index.push_back(static_cast<std::int64_t>(std::clamp(at, 0.0, static_cast<double>(a.in - 1))));
    }
    const bool normalize = (s.antialias || s.exclude_outside) && sum != 0;
    for (double weight : w) t.weight.push_back(normalize ? weight / sum : weight);
  }
  return t;
}

// A tensor as [outer, the axis, inner].
struct ResizedAxis {
  std::int64_t outer;
  const Axis& axis;
  std::int64_t inner;
};

// y[o, j, :] = sum over taps of weight * x[o, index, :].
template <typename T>
void interpolate(const KernelContext& ctx, const T* x, T* y, const ResizedAxis& axis, const Taps& taps, T fill) {
  const Axis& a = axis.axis;
  const std::int64_t outer = axis.outer, inner = axis.inner;
  parallel_for(ctx, outer * a.out, 1 + (1 << 14) / std::max<std::int64_t>(1, inner), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t o = row / a.out, j = row % a.out;
      T* to = y + row * inner;
      if (taps.outside[static_cast<std::size_t>(j)]) {
        std::fill_n(to, inner, fill);
        continue;
      }
      std::fill_n(to, inner, T{0});
      for (std::int64_t k = 0; k < taps.count; ++k) {
        const auto w = static_cast<T>(taps.weight[static_cast<std::size_t>(j * taps.count + k)]);
        if (w == 0) continue;
        const T* from = x + (o * a.in + taps.index[static_cast<std::size_t>(j * taps.count + k)]) * inner;
        for (std::int64_t i = 0; i < inner; ++i) to[i] += w * from[i];
      }
    }
  });
}

std::int64_t nearest_index(double x, const std::string& mode, double scale) {
  if (mode == "simple") return static_cast<std::int64_t>(scale < 1 ? std::ceil(x) : std::floor(x));
  if (mode == "round_prefer_ceil") return static_cast<std::int64_t>(std::floor(x + 0.5));
  if (mode == "floor") return static_cast<std::int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<std::int64_t>(std::ceil(x));
  return static_cast<std::int64_t>(std::ceil(x - 0.5));
}

Outputs resize_nearest(const KernelContext& ctx, const Tensor& x, const std::vector<Axis>& axes, const Settings& s) {
  Shape dims;
  for (const Axis& a : axes) dims.push_back(a.out);
  Moving moving(ctx, x.dtype());
  auto to = moving.make(dims);
  if (!to.ok()) return to.status();
  if (product(dims) == 0) return one_output(moving.take());  // before the maps: one axis may be huge beside an empty one
  std::vector<std::vector<std::int64_t>> maps;
  for (const Axis& a : axes) {
    auto& map = maps.emplace_back();
    for (std::int64_t o = 0; o < a.out; ++o) {
      const std::optional<double> at = a.scale == 1 && a.in == a.out && s.coordinates != "tf_crop_and_resize"
                                           ? static_cast<double>(o)
                                           : source_position(a, static_cast<double>(o), s);
      map.push_back(at ? std::clamp<std::int64_t>(nearest_index(*at, s.nearest, a.scale), 0, a.in - 1) : -1);
    }
  }
  const std::byte* from = moving.units(x);
  const auto fill = x.dtype() == DType::kString ? absl::StatusOr<Tensor>(Tensor::strings({}, {""}))
                                                : from_doubles(ctx, x.dtype(), {}, std::span(&s.extrapolation, 1));
  if (!fill.ok()) return fill.status();
  const std::byte* outside = moving.units(*fill);
  const std::int64_t line = dims.back(), in_line = axes.back().in;
  with_unit(moving.unit(), [&]<typename U>(std::type_identity<U>) {
    const U* source = reinterpret_cast<const U*>(from);
    const U blank = *reinterpret_cast<const U*>(outside);
    U* target = reinterpret_cast<U*>(*to);
    parallel_for(ctx, product(dims) / line, 1 + (1 << 14) / line, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        std::int64_t rest = row, base = 0, step = 1;
        bool blank_row = false;
        for (std::size_t k = dims.size() - 1; k-- > 0;) {
          const std::int64_t at = maps[k][static_cast<std::size_t>(rest % dims[k])];
          rest /= dims[k];
          blank_row = blank_row || at < 0;
          base += at * step;
          step *= axes[k].in;
        }
        const auto& map = maps.back();
        for (std::int64_t i = 0; i < line; ++i) {
          const std::int64_t at = map[static_cast<std::size_t>(i)];
          target[row * line + i] = blank_row || at < 0 ? blank : source[base * in_line + at];
        }
      }
    });
  });
  return one_output(moving.take());
}

template <typename T>
absl::StatusOr<std::vector<T>> interpolate_all(const KernelContext& ctx, std::vector<T> data, const std::vector<Axis>& axes,
                                               const Settings& s) {
  Shape dims;
  for (const Axis& a : axes) dims.push_back(a.in);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const Axis& a = axes[k];
    if (a.in == a.out && std::fabs(a.scale - 1) < 1e-9 && (s.coordinates != "tf_crop_and_resize" || (a.roi_start == 0 && a.roi_end == 1)))
      continue;
    const std::span<const std::int64_t> all(dims);
    const std::int64_t outer = product(all.first(k)), inner = product(all.subspan(k + 1));
    dims[k] = a.out;
    if (const auto room = ctx.allocate(DType::kDouble, dims); !room.ok()) return room.status();
    if (outer * a.out * inner == 0) {  // nothing to compute; a scale may be as small as it likes
      data.clear();
      continue;
    }
    // The footprint of antialiasing grows with the reduction: bounded by the input, or the table would not be.
    if (s.antialias && a.scale > 0 && 4.0 / a.scale * static_cast<double>(a.out) > 64.0 * static_cast<double>(a.in + a.out) + 4096)
      return ctx.invalid("a scale is too small");
    const Taps taps = taps_of(a, s);
    std::vector<T> next(static_cast<std::size_t>(outer * a.out * inner));
    interpolate(ctx, data.data(), next.data(), {outer, a, inner}, taps, static_cast<T>(s.extrapolation));
    data = std::move(next);
  }
  return data;
}

Outputs resize_axes(const KernelContext& ctx, const Tensor& x, const std::vector<Axis>& axes, const Settings& s) {
  Shape dims;
  for (const Axis& a : axes) {
    if (a.in == 0 && a.out > 0) return ctx.invalid("an empty axis cannot be resized");
    dims.push_back(a.out);
  }
  if (!checked_elements(dims)) return ctx.invalid("the output is too large");
  if (axes.empty()) return outputs_of(x);
  if (s.mode == "nearest") return resize_nearest(ctx, x, axes, s);
  if (s.mode != "linear" && s.mode != "cubic") return ctx.invalid("the mode is not known");
  if (x.dtype() == DType::kFloat && !ctx.options.reference) {
    auto y = interpolate_all(ctx, std::vector<float>(x.span<float>().begin(), x.span<float>().end()), axes, s);
    if (!y.ok()) return y.status();
    return outputs_of(Tensor::of<float>(DType::kFloat, dims, *y));
  }
  auto values = to_doubles(ctx, x);
  if (!values.ok()) return values.status();
  auto y = interpolate_all(ctx, *std::move(values), axes, s);
  if (!y.ok()) return y.status();
  return one_output(from_doubles(ctx, x.dtype(), dims, *y));
}

std::vector<Axis> untouched(const Tensor& x) {
  std::vector<Axis> axes;
  for (std::int64_t d : x.dims()) axes.push_back({d, d, 1, 0, 1});
  return axes;
}

absl::Status apply_scales(const KernelContext& ctx, std::vector<Axis>& axes, const std::vector<int>& at, std::span<const double> scales) {
  if (scales.size() != at.size()) return ctx.invalid("scales has the wrong length");
  for (std::size_t k = 0; k < at.size(); ++k) {
    Axis& a = axes[static_cast<std::size_t>(at[k])];
    if (!(scales[k] > 0) || scales[k] > 1e9) return ctx.invalid("a scale is out of range");
    a.scale = scales[k];
    a.out = static_cast<std::int64_t>(std::floor(static_cast<float>(a.in) * static_cast<float>(scales[k])));
  }
  return absl::OkStatus();
}

absl::Status apply_sizes(const KernelContext& ctx, std::vector<Axis>& axes, const std::vector<int>& at, std::span<const std::int64_t> sizes,
                         const std::string& policy) {
  if (sizes.size() != at.size()) return ctx.invalid("sizes has the wrong length");
  double common = policy == "not_smaller" ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < at.size(); ++k) {
    Axis& a = axes[static_cast<std::size_t>(at[k])];
    if (sizes[k] < 0 || sizes[k] > (std::int64_t{1} << 40)) return ctx.invalid("a size is out of range");
    a.out = sizes[k];
    a.scale = a.in == 0 ? 1.0 : static_cast<double>(a.out) / static_cast<double>(a.in);
    common = policy == "not_smaller" ? std::max(common, a.scale) : std::min(common, a.scale);
  }
  if (policy == "stretch") return absl::OkStatus();
  if (policy != "not_larger" && policy != "not_smaller") return ctx.invalid("the keep_aspect_ratio_policy is not known");
  for (int k : at) {
    Axis& a = axes[static_cast<std::size_t>(k)];
    a.scale = common;
    const double size = std::floor(common * static_cast<double>(a.in) + 0.5);
    if (!(size < 1e15)) return ctx.invalid("the output is too large");
    a.out = static_cast<std::int64_t>(size);
  }
  return absl::OkStatus();
}

Outputs resize(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  Settings s;
  s.mode = ctx.attr_s("mode", "nearest");
  const bool old = ctx.opset < 11;  // version 10: X and scales only
  s.coordinates = ctx.attr_s("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  s.nearest = ctx.attr_s("nearest_mode", old ? "simple" : "round_prefer_floor");  // version 10 left it open: as ONNX Runtime does
  s.policy = ctx.attr_s("keep_aspect_ratio_policy", "stretch");
  s.cubic = ctx.attr_f("cubic_coeff_a", -0.75f);
  s.extrapolation = ctx.attr_f("extrapolation_value", 0.0f);
  s.antialias = ctx.attr_i("antialias", 0) != 0;
  s.exclude_outside = ctx.attr_i("exclude_outside", 0) != 0;
  std::vector<std::int64_t> all;
  for (int k = 0; k < x.rank(); ++k) all.push_back(k);
  const auto at = axes_of(ctx, ctx.attr_ints("axes", all), x.rank());
  if (!at.ok()) return at.status();
  std::vector<Axis> axes = untouched(x);
  const std::size_t scales_at = old ? 1 : 2;
  absl::Status sized = ctx.invalid("neither scales nor sizes are given");
  if (ctx.has_input(3) && ctx.tensor(3).size() > 0) {
    const auto sizes = int_values(ctx, ctx.tensor(3));
    sized = sizes.ok() ? apply_sizes(ctx, axes, *at, *sizes, s.policy) : sizes.status();
  } else if (ctx.has_input(scales_at) && (ctx.tensor(scales_at).size() > 0 || x.rank() == 0)) {
    const auto scales = to_doubles(ctx, ctx.tensor(scales_at));
    sized = scales.ok() ? apply_scales(ctx, axes, *at, *scales) : scales.status();
  }
  if (!sized.ok()) return sized;
  if (s.coordinates == "tf_crop_and_resize") {
    if (!ctx.has_input(1)) return ctx.invalid("tf_crop_and_resize needs a roi");
    const auto roi = to_doubles(ctx, ctx.tensor(1));
    if (!roi.ok()) return roi.status();
    if (roi->size() != 2 * at->size()) return ctx.invalid("roi has the wrong length");
    for (std::size_t k = 0; k < at->size(); ++k) {
      axes[static_cast<std::size_t>((*at)[k])].roi_start = (*roi)[k];
      axes[static_cast<std::size_t>((*at)[k])].roi_end = (*roi)[k + at->size()];
    }
  }
  return resize_axes(ctx, x, axes, s);
}

Outputs upsample(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  Settings s;
  s.mode = ctx.attr_s("mode", "nearest");
  if (s.mode == "bilinear") s.mode = "linear";
  s.coordinates = "asymmetric";
  s.nearest = "floor";
  std::vector<double> scales;
  if (ctx.has_input(1)) {
    auto given = to_doubles(ctx, ctx.tensor(1));
    if (!given.ok()) return given.status();
    scales = *std::move(given);
  } else if (ctx.has_attr("scales")) {
    for (float f : ctx.attr_floats("scales")) scales.push_back(f);
  } else {  // version 1
    scales = {1, 1, ctx.attr_f("height_scale", 0), ctx.attr_f("width_scale", 0)};
  }
  std::vector<int> at;
  for (int k = 0; k < x.rank(); ++k) at.push_back(k);
  std::vector<Axis> axes = untouched(x);
  if (const absl::Status sized = apply_scales(ctx, axes, at, scales); !sized.ok()) return sized;
  return resize_axes(ctx, x, axes, s);
}

}  // namespace

void register_image_resize(Registry& registry) {
  registry.add("", "Resize", resize);
  registry.add("", "Upsample", upsample);
}

}  // namespace saturate
