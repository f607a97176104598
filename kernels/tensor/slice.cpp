// Operators that keep part of a tensor (ONNX Operators: Slice, Compress, ReverseSequence).
#include <algorithm>
#include <cstring>

#include "kernels/tensor/families.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

struct SliceSpec {
  std::vector<std::int64_t> starts, ends, axes, steps;
};

absl::StatusOr<SliceSpec> slice_spec(const KernelContext& ctx) {
  SliceSpec spec;
  if (ctx.opset < 10 && !ctx.has_input(1)) {
    spec = {ctx.attr_ints("starts"), ctx.attr_ints("ends"), ctx.attr_ints("axes"), {}};
  } else {
    for (auto [i, into] : {std::pair(1, &spec.starts), std::pair(2, &spec.ends), std::pair(3, &spec.axes), std::pair(4, &spec.steps)}) {
      if (!ctx.has_input(static_cast<std::size_t>(i))) continue;
      auto values = int_values(ctx, ctx.tensor(static_cast<std::size_t>(i)));
      if (!values.ok()) return values.status();
      *into = *std::move(values);
    }
  }
  const std::size_t n = spec.starts.size();
  const bool all_axes = spec.axes.empty() && !ctx.has_input(3);
  for (std::size_t k = 0; all_axes && k < n; ++k) spec.axes.push_back(static_cast<std::int64_t>(k));
  if (spec.steps.empty() && !ctx.has_input(4)) spec.steps.assign(n, 1);
  if (spec.ends.size() != n || spec.axes.size() != n || spec.steps.size() != n)
    return ctx.invalid("starts, ends, axes and steps differ in length");
  return spec;
}

Outputs slice(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const auto spec = slice_spec(ctx);
  if (!spec.ok()) return spec.status();
  const auto axes = axes_of(ctx, spec->axes, x.rank());
  if (!axes.ok()) return axes.status();
  Shape dims = x.dims(), strides = strides_of(x.dims());
  std::int64_t offset = 0;
  for (std::size_t k = 0; k < axes->size(); ++k) {
    const int a = (*axes)[k];
    const std::int64_t dim = x.dims()[a], step = spec->steps[k];
    if (step == 0) return ctx.invalid("a step is 0");
    // Ends and starts saturate at the tensor's borders; a negative step may end before element 0.
    const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1;
    const auto bound = [&](std::int64_t at) { return std::clamp(at < 0 ? at + dim : at, low, high); };
    const std::int64_t start = std::clamp<std::int64_t>(bound(spec->starts[k]), 0, std::max<std::int64_t>(high, 0)),
                       end = bound(spec->ends[k]);
    std::int64_t n = 0;
    if (dim > 0 && (step > 0 ? end > start : end < start)) {
      const std::int64_t distance = step > 0 ? end - start : start - end;
      const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : -static_cast<std::uint64_t>(step);
      n = static_cast<std::int64_t>((static_cast<std::uint64_t>(distance) - 1) / stride) + 1;
    }
    dims[a] = n;
    if (n > 0) offset += start * strides[a];
    strides[a] = n > 1 ? strides[a] * step : 0;
  }
  if (dims == x.dims() && offset == 0 && std::all_of(spec->steps.begin(), spec->steps.end(), [](std::int64_t s) { return s > 0; }))
    return outputs_of(x);
  return rearrange(ctx, x, dims, strides, offset);
}

Outputs compress(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const Tensor& condition = ctx.tensor(1);
  if (condition.dtype() != DType::kBool || condition.rank() != 1) return ctx.invalid("the condition must be a vector of bools");
  Shape dims = x.dims();
  int axis = 0;
  if (ctx.has_attr("axis")) {
    const std::optional<int> at = normalize_axis(ctx.attr_i("axis", 0), x.rank());
    if (!at) return ctx.invalid("the axis is out of range");
    axis = *at;
  } else {
    dims = {x.size()};
  }
  if (condition.size() > dims[axis]) return ctx.invalid("the condition is longer than the axis");
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < condition.size(); ++i) {
    if (condition.data<bool>()[i]) kept.push_back(i);
  }
  const std::int64_t inner = strides_of(dims)[axis], length = dims[axis], outer = length * inner == 0 ? 0 : x.size() / (length * inner);
  Shape out_dims = dims;
  out_dims[axis] = static_cast<std::int64_t>(kept.size());
  Moving moving(ctx, x.dtype());
  auto to = moving.make(out_dims);
  if (!to.ok()) return to.status();
  const std::byte* from = moving.units(x);
  std::byte* next = *to;
  const std::int64_t run = inner * moving.unit();
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i : kept) {
      std::memcpy(next, from + (o * length + i) * run, static_cast<std::size_t>(run));
      next += run;
    }
  }
  return one_output(moving.take());
}

Outputs reverse_sequence(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const auto lengths = int_values(ctx, ctx.tensor(1));
  if (!lengths.ok()) return lengths.status();
  const std::int64_t batch_axis = ctx.attr_i("batch_axis", 1), time_axis = ctx.attr_i("time_axis", 0);
  if (x.rank() < 2 || batch_axis + time_axis != 1 || batch_axis * time_axis != 0)
    return ctx.invalid("batch_axis and time_axis must be 0 and 1");
  const Shape strides = strides_of(x.dims());
  const std::int64_t batch = x.dims()[batch_axis], time = x.dims()[time_axis];
  if (static_cast<std::int64_t>(lengths->size()) != batch) return ctx.invalid("sequence_lens has another length than the batch");
  Moving moving(ctx, x.dtype());
  auto to = moving.make(x.dims());
  if (!to.ok()) return to.status();
  const std::byte* from = moving.units(x);
  const std::int64_t unit = moving.unit(), run = product(std::span(x.dims()).subspan(2)) * unit;
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t n = (*lengths)[b];
    if (n < 0 || n > time) return ctx.invalid("a sequence length is out of range");
    for (std::int64_t t = 0; t < time; ++t) {
      const std::int64_t source = t < n ? n - 1 - t : t;
      const std::int64_t base = b * strides[batch_axis];
      std::memcpy(*to + (base + t * strides[time_axis]) * unit, from + (base + source * strides[time_axis]) * unit,
                  static_cast<std::size_t>(run));
    }
  }
  return one_output(moving.take());
}

}  // namespace

void register_data_slice(Registry& registry) {
  registry.add("", "Slice", slice);
  registry.add("", "Compress", compress);
  registry.add("", "ReverseSequence", reverse_sequence);
}

}  // namespace saturate
