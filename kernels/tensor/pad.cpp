// Pad and CenterCropPad (ONNX Operators).
#include <algorithm>
#include <cstring>

#include "kernels/tensor/families.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

enum class PadMode { kConstant, kEdge, kReflect, kWrap };

// Where padded position `at` (relative to the original's first element) takes its element; -1: from the constant. n > 0.
std::int64_t source_of(std::int64_t at, std::int64_t n, PadMode mode) {
  if (at >= 0 && at < n) return at;
  switch (mode) {
    case PadMode::kEdge:
      return at < 0 ? 0 : n - 1;
    case PadMode::kWrap:
      return ((at % n) + n) % n;
    case PadMode::kReflect: {
      if (n == 1) return 0;
      const std::int64_t period = 2 * (n - 1), r = ((at % period) + period) % period;
      return r < n ? r : period - r;
    }
    default:
      return -1;
  }
}

absl::StatusOr<Shape> padded_dims(const KernelContext& ctx, const Tensor& x, const Shape& before, const Shape& after, PadMode mode) {
  Shape dims(x.dims());
  for (int k = 0; k < x.rank(); ++k) {
    constexpr std::int64_t kFar = std::int64_t{1} << 48;
    if (!is_within(before[k], kFar) || !is_within(after[k], kFar)) return ctx.invalid("a pad is too large");
    dims[k] += before[k] + after[k];
    if (dims[k] < 0) return ctx.invalid("the pads cut off more than there is");
    if (x.dims()[k] == 0 && dims[k] > 0 && mode != PadMode::kConstant)
      return ctx.invalid("an empty axis can only be padded with a constant");
  }
  return dims;
}

// Pads (negative: crops) `before` and `after` every axis. An axis at a time would copy more: one pass over the output's lines.
Outputs pad_by(KernelContext& ctx, const Tensor& x, const Shape& before, const Shape& after, PadMode mode, const Tensor* value) {
  const int rank = x.rank();
  const absl::StatusOr<Shape> padded = padded_dims(ctx, x, before, after, mode);
  if (!padded.ok()) return padded.status();
  const Shape& dims = *padded;
  Moving moving(ctx, x.dtype());
  auto to = moving.make(dims);
  if (!to.ok()) return to.status();
  const int unit = moving.unit();
  const std::byte* from = moving.units(x);
  const std::uint64_t zero[2] = {0, 0};
  const std::byte* fill = value != nullptr ? moving.units(*value) : reinterpret_cast<const std::byte*>(zero);
  if (product(dims) == 0) return one_output(moving.take());
  if (rank == 0) return outputs_of(x);
  std::vector<std::vector<std::int64_t>> maps(static_cast<std::size_t>(rank));  // offset of the source along each axis
  const Shape strides = strides_of(x.dims());
  for (int k = 0; k < rank; ++k) {
    for (std::int64_t i = 0; i < dims[k]; ++i) {
      const std::int64_t source = source_of(i - before[k], x.dims()[k], mode);
      maps[k].push_back(source < 0 ? -1 : source * strides[k]);
    }
  }
  const std::int64_t line = dims.back(), lines = product(dims) / line;
  // The stretch of a line that is a plain copy.
  const std::int64_t first = std::clamp<std::int64_t>(before.back(), 0, line),
                     last = std::clamp<std::int64_t>(before.back() + x.dims().back(), first, line);
  with_unit(unit, [&]<typename U>(std::type_identity<U>) {
    const U* source = reinterpret_cast<const U*>(from);
    U* target = reinterpret_cast<U*>(*to);
    U constant;
    std::memcpy(&constant, fill, sizeof(U));
    const auto& tail = maps.back();
    parallel_for(ctx, lines, 1 + (1 << 15) / line, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t l = begin; l < end; ++l) {
        U* y = target + l * line;
        std::int64_t base = 0, rest = l;
        bool outside = false;
        for (int k = rank - 2; k >= 0; --k) {
          const std::int64_t at = maps[k][static_cast<std::size_t>(rest % dims[k])];
          rest /= dims[k];
          outside = outside || at < 0;
          base += at;
        }
        if (outside) {
          std::fill_n(y, line, constant);
          continue;
        }
        for (std::int64_t i = 0; i < first; ++i) y[i] = tail[i] < 0 ? constant : source[base + tail[i]];
        if (last > first) std::memcpy(y + first, source + base + tail[first], static_cast<std::size_t>(last - first) * sizeof(U));
        for (std::int64_t i = last; i < line; ++i) y[i] = tail[i] < 0 ? constant : source[base + tail[i]];
      }
    });
  });
  return one_output(moving.take());
}

// The constant as an element of the input's type: an input, or the float attribute of the versions below 11.
absl::StatusOr<std::optional<Tensor>> pad_value(const KernelContext& ctx, DType dtype) {
  if (ctx.has_input(2)) {
    const Tensor& value = ctx.tensor(2);
    if (value.size() != 1 || value.dtype() != dtype) return ctx.invalid("the constant must be one element of the input's type");
    return std::optional(value);
  }
  const double attribute = ctx.attr_f("value", 0.0f);
  if (attribute == 0) return std::optional<Tensor>();
  auto value = from_doubles(ctx, dtype, {}, std::span(&attribute, 1));
  if (!value.ok()) return value.status();
  return std::optional(*std::move(value));
}

Outputs pad(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const std::string name = ctx.attr_s("mode", "constant");
  const PadMode mode = name == "edge"      ? PadMode::kEdge
                       : name == "reflect" ? PadMode::kReflect
                       : name == "wrap"    ? PadMode::kWrap
                                           : PadMode::kConstant;
  if (mode == PadMode::kConstant && name != "constant") return ctx.invalid("the mode is not known");
  std::vector<std::int64_t> pads = ctx.attr_ints(ctx.opset < 2 ? "paddings" : "pads"), axes;
  for (auto [i, into] : {std::pair(1, &pads), std::pair(3, &axes)}) {
    if (!ctx.has_input(static_cast<std::size_t>(i))) continue;
    auto values = int_values(ctx, ctx.tensor(static_cast<std::size_t>(i)));
    if (!values.ok()) return values.status();
    *into = *std::move(values);
  }
  if (!ctx.has_input(3)) {
    for (int k = 0; k < x.rank(); ++k) axes.push_back(k);
  }
  const auto at = axes_of(ctx, axes, x.rank());
  if (!at.ok()) return at.status();
  if (pads.size() != 2 * at->size()) return ctx.invalid("pads must hold two numbers for every axis");
  Shape before(x.dims().size(), 0), after(x.dims().size(), 0);
  for (std::size_t k = 0; k < at->size(); ++k) {
    before[(*at)[k]] = pads[k];
    after[(*at)[k]] = pads[k + at->size()];
  }
  const auto value = pad_value(ctx, x.dtype());
  if (!value.ok()) return value.status();
  return pad_by(ctx, x, before, after, mode, *value ? &**value : nullptr);
}

Outputs center_crop_pad(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const auto wanted = int_values(ctx, ctx.tensor(1));
  if (!wanted.ok()) return wanted.status();
  std::vector<std::int64_t> axes = ctx.attr_ints("axes");
  if (!ctx.has_attr("axes")) {
    for (int k = 0; k < x.rank(); ++k) axes.push_back(k);
  }
  const auto at = axes_of(ctx, axes, x.rank());
  if (!at.ok()) return at.status();
  if (at->size() != wanted->size()) return ctx.invalid("the shape has another length than the axes");
  Shape before(x.dims().size(), 0), after(x.dims().size(), 0);
  for (std::size_t k = 0; k < at->size(); ++k) {
    const std::int64_t target = (*wanted)[k];
    if (target < 0) return ctx.invalid("the shape has a negative dim");
    const std::int64_t more = target - x.dims()[(*at)[k]];
    // An odd rest goes to the end, of the padding as of the crop.
    before[(*at)[k]] = more / 2;
    after[(*at)[k]] = more - more / 2;
  }
  return pad_by(ctx, x, before, after, PadMode::kConstant, nullptr);
}

}  // namespace

void register_data_pad(Registry& registry) {
  registry.add("", "Pad", pad);
  registry.add("", "CenterCropPad", center_crop_pad);
}

}  // namespace saturate
