// Operators that slide over space: Conv, pools, Resize, and others on images.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "onnx_bridge/facts/infer_call.h"

namespace saturate::inference {

namespace {

constexpr std::int64_t kFarSize = std::int64_t{1} << 40;  // sums and products of few such numbers fit

struct Window {
  std::vector<std::int64_t> strides, dilations, pads;
  std::string auto_pad;
};

// nullopt: attributes that do not fit the spatial rank (failed).
std::optional<Window> window_of(Call& c, std::size_t spatial) {
  auto list = [&](std::string_view name, std::size_t n, std::int64_t otherwise) -> std::optional<std::vector<std::int64_t>> {
    auto given = c.ints_attribute(name);
    if (!given || given->empty()) return std::vector<std::int64_t>(n, otherwise);
    if (given->size() != n) {
      c.fail("strides, dilations or pads do not fit the number of spatial axes");
      return std::nullopt;
    }
    return given;
  };
  auto strides = list("strides", spatial, 1), dilations = list("dilations", spatial, 1), pads = list("pads", 2 * spatial, 0);
  if (!strides || !dilations || !pads) return std::nullopt;
  for (std::int64_t s : *strides)
    if (s <= 0) {
      c.fail("a stride below 1");
      return std::nullopt;
    }
  return Window{*strides, *dilations, *pads, c.string_attribute("auto_pad", "NOTSET")};
}

Dim extent(Call& c, Dim kernel, std::int64_t dilation) {  // (k - 1) * d + 1
  return c.dims.add(c.dims.mul(c.dims.sub(kernel, c.constant(1)), c.constant(dilation)), c.constant(1));
}

// One spatial dim of a convolution or a pool. nullopt: not known.
std::optional<Dim> window_dim(Call& c, const Window& w, std::size_t k, Dim size, Dim kernel, bool ceil_mode) {
  const std::size_t n = w.strides.size();
  const Dim stride = c.constant(w.strides[k]), span = extent(c, kernel, w.dilations[k]);
  if (w.auto_pad == "SAME_UPPER" || w.auto_pad == "SAME_LOWER") return c.dims.ceil_div(size, stride);
  const bool valid = w.auto_pad == "VALID";
  const std::int64_t begin = valid ? 0 : w.pads[k], end = valid ? 0 : w.pads[k + n];
  const Dim room = c.dims.sub(c.dims.add(c.dims.add(size, c.constant(begin)), c.constant(end)), span);
  if (!ceil_mode || w.strides[k] == 1) return c.dims.add(c.dims.floor_div(room, stride), c.constant(1));
  const auto r = c.value(room), s = c.value(size);
  if (!r || !s) return std::nullopt;
  for (const std::int64_t x : {*r, *s, begin, w.strides[k]})
    if (!is_within(x, kFarSize)) return std::nullopt;
  std::int64_t out = (*r + w.strides[k] - 1) / w.strides[k] + 1;
  if ((out - 1) * w.strides[k] >= *s + begin) --out;  // a window that would start in the padding at the end is left out
  return c.constant(out);
}

// Which axis of input and result the channels are; positions are the others but the first.
enum class Channels : std::uint8_t { kSecond, kLast };

void convolve(Call& c, std::size_t x, std::size_t weights, DType dtype, Channels channels = Channels::kSecond) {
  c.set_dtype(0, dtype);
  if (!c.has_rank(x) || c.rank(x) < 2) return;
  const auto spatial = static_cast<std::size_t>(c.rank(x) - 2);
  if (c.has_rank(weights) && !c.require_rank(weights, c.rank(x))) return;
  auto w = window_of(c, spatial);
  if (!w) return;
  const int of_channels = channels == Channels::kSecond ? 1 : c.rank(x) - 1, first_position = channels == Channels::kSecond ? 2 : 1;
  DimVector shape = c.fresh_shape(0, c.rank(x));
  shape[0] = c.dim(x, 0);
  auto kernel = c.ints_attribute("kernel_shape");
  if (c.has_rank(weights)) {
    shape[static_cast<std::size_t>(of_channels)] = c.dim(weights, 0);
    const Dim group = c.constant(c.int_attribute("group", 1));
    if (!c.require_equal(c.dim(x, of_channels), c.dims.mul(c.dim(weights, of_channels), group), "channels do not fit the weights")) return;
  }
  for (std::size_t k = 0; k < spatial; ++k) {
    const int axis = static_cast<int>(k) + first_position;
    if (!c.has_rank(weights) && (!kernel || kernel->size() != spatial)) continue;
    const Dim size = c.has_rank(weights) ? c.dim(weights, axis) : c.constant((*kernel)[k]);
    if (auto d = window_dim(c, *w, k, c.dim(x, axis), size, false)) shape[static_cast<std::size_t>(axis)] = *d;
  }
  c.set_shape(0, std::move(shape));
}

void conv(Call& c) { convolve(c, 0, 1, c.in(0).dtype); }
void nhwc_conv(Call& c) { convolve(c, 0, 1, c.in(0).dtype, Channels::kLast); }
void conv_integer(Call& c) { convolve(c, 0, 1, DType::kInt32); }
void qlinear_conv(Call& c) { convolve(c, 0, 3, c.in(7).dtype); }
void deform_conv(Call& c) { convolve(c, 0, 1, c.in(0).dtype); }

void conv_transpose(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0) || c.rank(0) < 2) return;
  const auto spatial = static_cast<std::size_t>(c.rank(0) - 2);
  auto w = window_of(c, spatial);
  if (!w) return;
  DimVector shape = c.fresh_shape(0, c.rank(0));
  shape[0] = c.dim(0, 0);
  auto kernel = c.ints_attribute("kernel_shape"), wanted = c.ints_attribute("output_shape"), extra = c.ints_attribute("output_padding");
  if (c.has_rank(1) && !c.require_rank(1, c.rank(0))) return;
  if (c.has_rank(1)) shape[1] = c.dims.mul(c.dim(1, 1), c.constant(c.int_attribute("group", 1)));
  const bool same = w->auto_pad == "SAME_UPPER" || w->auto_pad == "SAME_LOWER";
  for (std::size_t k = 0; k < spatial; ++k) {
    const int axis = static_cast<int>(k) + 2;
    const Dim size = c.dim(0, axis), stride = c.constant(w->strides[k]);
    if (wanted && wanted->size() >= spatial) {
      shape[k + 2] = c.constant((*wanted)[wanted->size() - spatial + k]);
    } else if (same) {
      shape[k + 2] = c.dims.mul(size, stride);
    } else if (c.has_rank(1) || (kernel && kernel->size() == spatial)) {
      const Dim span = extent(c, c.has_rank(1) ? c.dim(1, axis) : c.constant((*kernel)[k]), w->dilations[k]);
      Dim more = c.constant(extra && extra->size() == spatial ? (*extra)[k] : 0);
      if (w->auto_pad != "VALID") more = c.dims.sub(c.dims.sub(more, c.constant(w->pads[k])), c.constant(w->pads[k + spatial]));
      shape[k + 2] = c.dims.add(c.dims.mul(c.dims.sub(size, c.constant(1)), stride), c.dims.add(span, more));
    }
  }
  c.set_shape(0, std::move(shape));
}

void pool(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  c.set_dtype(1, DType::kInt64);
  auto kernel = c.ints_attribute("kernel_shape");
  if (!c.has_rank(0) || c.rank(0) < 2 || !kernel) return;
  const auto spatial = static_cast<std::size_t>(c.rank(0) - 2);
  if (kernel->size() != spatial) return c.fail("kernel_shape does not fit the number of spatial axes");
  auto w = window_of(c, spatial);
  if (!w) return;
  DimVector shape = c.shape(0);
  for (std::size_t k = 0; k < spatial; ++k) {
    const int axis = static_cast<int>(k) + 2;
    auto d = window_dim(c, *w, k, c.dim(0, axis), c.constant((*kernel)[k]), c.int_attribute("ceil_mode", 0) != 0);
    shape[k + 2] = d ? *d : c.fresh(0, axis);
  }
  c.set_shape(0, shape);
  c.set_shape(1, std::move(shape));
}

void global_pool(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0) || c.rank(0) < 2) return;
  DimVector shape = c.shape(0);
  std::fill(shape.begin() + 2, shape.end(), c.constant(1));
  c.set_shape(0, std::move(shape));
}

void max_unpool(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0)) return;
  if (c.has(2)) {
    if (auto target = c.content(2); target && target->size() == c.shape(0).size()) return c.set_shape(0, std::move(target));
  }
  c.set_shape(0, c.fresh_shape(0, c.rank(0)));
}

void batch_normalization(Call& c) {
  c.set_like(0, 0);
  for (std::size_t o = 1; o < 3; ++o)
    if (c.has_rank(o + 2)) c.set_like(static_cast<int>(o), o + 2);
}

void resize(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0)) return;
  const int rank = c.rank(0);
  std::vector<int> axes;
  if (auto given = c.ints_attribute("axes"); given && !given->empty()) {
    auto normal = c.normal_axes(*given, rank);
    if (!normal) return;
    axes = *normal;
  } else {
    for (int a = 0; a < rank; ++a) axes.push_back(a);
  }
  DimVector shape = c.shape(0);
  const bool stretch = c.string_attribute("keep_aspect_ratio_policy", "stretch") == "stretch";
  const auto sizes = c.has(3) && stretch ? c.content(3) : std::nullopt;
  const auto scales = c.has(3) ? std::nullopt : c.numbers(2);
  // With tf_crop_and_resize the region of interest scales too: only sizes say what comes out.
  const bool plain = c.string_attribute("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize";
  for (std::size_t k = 0; k < axes.size(); ++k) {
    Dim& d = shape[static_cast<std::size_t>(axes[k])];
    std::optional<Dim> now;
    if (sizes && sizes->size() == axes.size() && c.dims.non_negative((*sizes)[k])) now = (*sizes)[k];
    if (scales && scales->size() == axes.size() && plain) {
      const double s = (*scales)[k];
      const auto n = c.value(d);
      if (s == std::floor(s) && s >= 1 && s < 1e6)
        now = c.dims.mul(d, c.constant(static_cast<std::int64_t>(s)));
      else if (const double r = n ? static_cast<double>(*n) * s : 0.5; n && std::abs(r - std::round(r)) > 1e-4 && r > 0 && r < 1e9)
        now = c.constant(static_cast<std::int64_t>(std::floor(r)));
      else if (const float f = n ? static_cast<float>(*n) * static_cast<float>(s) : 0.5f;
               n && f == std::floor(f) && s > 0 && f < 1e9f && std::ldexp(s, 20) == std::floor(std::ldexp(s, 20)))
        now = c.constant(static_cast<std::int64_t>(f));  // the scale is a short binary fraction: nothing is rounded
    }
    d = now ? *now : c.fresh(0, axes[k]);
  }
  c.set_shape(0, std::move(shape));
}

void grid_sample(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0) || !c.has_rank(1) || c.rank(0) < 2 || !c.require_rank(1, c.rank(0))) return;
  DimVector shape = c.shape(0);
  for (int a = 2; a < c.rank(0); ++a) shape[static_cast<std::size_t>(a)] = c.dim(1, a - 1);
  c.set_shape(0, std::move(shape));
}

void affine_grid(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  auto size = c.content(1);
  if (!size || (size->size() != 4 && size->size() != 5)) return;
  DimVector shape{size->front()};
  shape.insert(shape.end(), size->begin() + 2, size->end());
  shape.push_back(c.constant(static_cast<std::int64_t>(size->size()) - 2));
  for (Dim d : shape)
    if (!c.dims.non_negative(d)) return c.set_shape(0, c.fresh_shape(0, static_cast<int>(shape.size())));
  c.set_shape(0, std::move(shape));
}

void roi_align(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0) || !c.has_rank(1) || c.rank(0) != 4 || c.rank(1) != 2) return;
  c.set_shape(0, DimVector{c.dim(1, 0), c.dim(0, 1), c.constant(c.int_attribute("output_height", 1)),
                           c.constant(c.int_attribute("output_width", 1))});
}

void max_roi_pool(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  auto pooled = c.ints_attribute("pooled_shape");
  if (!pooled || pooled->size() != 2 || !c.has_rank(0) || !c.has_rank(1) || c.rank(0) != 4 || c.rank(1) != 2) return;
  c.set_shape(0, DimVector{c.dim(1, 0), c.dim(0, 1), c.constant((*pooled)[0]), c.constant((*pooled)[1])});
}

void non_max_suppression(Call& c) { c.set(0, DType::kInt64, DimVector{c.fresh(0, 0), c.constant(3)}); }

void col2im(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  auto image = c.content(1), block = c.content(2);
  if (!c.has_rank(0) || c.rank(0) != 3 || !image || !block) return;
  DimVector shape{c.dim(0, 0), c.dims.floor_div(c.dim(0, 1), c.product(*block))};
  shape.insert(shape.end(), image->begin(), image->end());
  c.set_shape(0, std::move(shape));
}

}  // namespace

void add_window_rules(Rules& rules) {
  rules[":Conv"] = rules["com.microsoft:FusedConv"] = conv;
  rules["com.microsoft:NhwcConv"] = nhwc_conv;
  rules[":ConvInteger"] = conv_integer;
  rules[":QLinearConv"] = qlinear_conv;
  rules[":DeformConv"] = deform_conv;
  rules[":ConvTranspose"] = conv_transpose;
  rules[":MaxPool"] = rules[":AveragePool"] = rules[":LpPool"] = pool;
  rules[":GlobalAveragePool"] = rules[":GlobalMaxPool"] = rules[":GlobalLpPool"] = global_pool;
  rules[":MaxUnpool"] = max_unpool;
  rules[":BatchNormalization"] = batch_normalization;
  rules[":Resize"] = resize;
  rules[":GridSample"] = grid_sample;
  rules[":AffineGrid"] = affine_grid;
  rules[":RoiAlign"] = roi_align;
  rules[":MaxRoiPool"] = max_roi_pool;
  rules[":NonMaxSuppression"] = non_max_suppression;
  rules[":Col2Im"] = col2im;
}

}  // namespace saturate::inference
