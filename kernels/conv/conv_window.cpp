#include <algorithm>

#include "kernels/conv/conv.h"

namespace saturate {
namespace {

constexpr std::int64_t kMaxDim = std::int64_t{1} << 40;  // keeps sums and products of attributes from overflowing

absl::StatusOr<Shape> spatial_attribute(const KernelContext& ctx, std::string_view name, std::size_t rank, std::int64_t lowest,
                                        std::size_t factor = 1) {
  Shape v = ctx.attr_ints(name);
  if (v.empty()) return Shape(rank * factor, lowest > 0 ? 1 : 0);
  if (v.size() != rank * factor) return ctx.invalid(std::string(name) + " has the wrong number of elements");
  for (std::int64_t x : v) {
    if (x < lowest || x > kMaxDim) return ctx.invalid(std::string(name) + " is out of range");
  }
  return v;
}

// How many windows there are: floor((padded - extent) / stride) + 1, which is below 0 where the window is far larger than what it looks at.
// The last window of ceil mode must start inside the input or the leading padding.
std::int64_t pooled(std::int64_t padded, std::int64_t extent, std::int64_t stride, bool ceil_mode, std::int64_t input, std::int64_t begin) {
  if (padded < extent) {
    if (padded + stride < extent) return -1;
    if (!ceil_mode || padded + stride == extent) return 0;
  }
  const std::int64_t steps = padded - extent;
  if (!ceil_mode) return steps / stride + 1;
  std::int64_t out = (steps + stride - 1) / stride + 1;
  if ((out - 1) * stride >= input + begin) --out;
  return out;
}

}  // namespace

absl::StatusOr<Window> window_of(const KernelContext& ctx, Shape input, Shape kernel, bool ceil_mode) {
  Window w;
  const std::size_t rank = input.size();
  if (kernel.size() != rank) return ctx.invalid("kernel_shape does not fit the input's rank");
  for (std::int64_t k : kernel) {
    if (k < 1 || k > kMaxDim) return ctx.invalid("kernel_shape is out of range");
  }
  absl::StatusOr<Shape> strides = spatial_attribute(ctx, "strides", rank, 1), dilations = spatial_attribute(ctx, "dilations", rank, 1),
                        pads = spatial_attribute(ctx, "pads", rank, -kMaxDim, 2);
  for (const absl::StatusOr<Shape>* s : {&strides, &dilations, &pads}) {
    if (!s->ok()) return s->status();
  }
  w.strides = *std::move(strides);
  w.dilations = *std::move(dilations);
  w.pad_begin.assign(pads->begin(), pads->begin() + static_cast<std::ptrdiff_t>(rank));
  w.pad_end.assign(pads->begin() + static_cast<std::ptrdiff_t>(rank), pads->end());
  w.input = std::move(input);
  w.kernel = std::move(kernel);
  const std::string auto_pad = ctx.attr_s("auto_pad", "NOTSET");
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (!same && auto_pad != "NOTSET" && auto_pad != "VALID" && !auto_pad.empty()) return ctx.invalid("unknown auto_pad");
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t extent = (w.kernel[d] - 1) * w.dilations[d] + 1;
    if (auto_pad == "VALID") w.pad_begin[d] = w.pad_end[d] = 0;
    if (same) {
      const std::int64_t out = (w.input[d] + w.strides[d] - 1) / w.strides[d];
      const std::int64_t total = std::max<std::int64_t>(0, (out - 1) * w.strides[d] + extent - w.input[d]);
      w.pad_begin[d] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.pad_end[d] = total - w.pad_begin[d];
    }
    w.output.push_back(
        pooled(w.input[d] + w.pad_begin[d] + w.pad_end[d], extent, w.strides[d], ceil_mode && !same, w.input[d], w.pad_begin[d]));
    if (w.output.back() < 0) return ctx.invalid("the window is larger than the input with its pads");
  }
  return w;
}

}  // namespace saturate
