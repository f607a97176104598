// Operators that take elements by index (ONNX Operators: Gather, GatherElements, GatherND).
#include <algorithm>
#include <cstring>

#include "kernels/tensor/families.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

Outputs gather(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const Tensor& indices = ctx.tensor(1);
  const std::optional<int> axis = normalize_axis(ctx.attr_i("axis", 0), x.rank());
  if (!axis) return ctx.invalid("the axis is out of range");
  auto at = int_values(ctx, indices);
  if (!at.ok()) return at.status();
  const std::int64_t dim = x.dims()[*axis];
  for (std::int64_t& i : *at) {
    if (i < -dim || i >= dim) return ctx.invalid("an index is out of range");
    if (i < 0) i += dim;
  }
  Shape dims(x.dims().begin(), x.dims().begin() + *axis);
  dims.insert(dims.end(), indices.dims().begin(), indices.dims().end());
  dims.insert(dims.end(), x.dims().begin() + *axis + 1, x.dims().end());
  Moving moving(ctx, x.dtype());
  auto to = moving.make(dims);
  if (!to.ok()) return to.status();
  const std::byte* from = moving.units(x);
  const std::int64_t outer = product(std::span(x.dims()).first(static_cast<std::size_t>(*axis))), inner = strides_of(x.dims())[*axis];
  const std::int64_t run = inner * moving.unit(), n = indices.size();
  if (outer * n * run == 0) return one_output(moving.take());
  if (inner == 1 && is_aligned(x)) {  // single elements: typed loads and stores instead of calls
    with_unit(moving.unit(), [&]<typename U>(std::type_identity<U>) {
      const U* source = reinterpret_cast<const U*>(from);
      U* target = reinterpret_cast<U*>(*to);
      for (std::int64_t o = 0; o < outer; ++o) {
        for (std::int64_t i = 0; i < n; ++i) target[o * n + i] = source[o * dim + (*at)[static_cast<std::size_t>(i)]];
      }
    });
    return one_output(moving.take());
  }
  parallel_for(ctx, outer * n, 1 + (1 << 17) / run, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      std::memcpy(*to + k * run, from + (k / n * dim + (*at)[static_cast<std::size_t>(k % n)]) * run, static_cast<std::size_t>(run));
    }
  });
  return one_output(moving.take());
}

Outputs gather_elements(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const Tensor& indices = ctx.tensor(1);
  const std::optional<int> axis = normalize_axis(ctx.attr_i("axis", 0), x.rank());
  if (!axis || indices.rank() != x.rank()) return ctx.invalid("the axis is out of range or the ranks differ");
  const auto at = int_values(ctx, indices);
  if (!at.ok()) return at.status();
  for (int k = 0; k < x.rank(); ++k) {
    if (k != *axis && indices.dims()[k] > x.dims()[k]) return ctx.invalid("the indices are larger than the data");
  }
  const std::int64_t dim = x.dims()[*axis];
  if (std::any_of(at->begin(), at->end(), [&](std::int64_t i) { return i < -dim || i >= dim; }))
    return ctx.invalid("an index is out of range");
  Moving moving(ctx, x.dtype());
  auto to = moving.make(indices.dims());
  if (!to.ok()) return to.status();
  const std::byte* from = moving.units(x);
  Shape strides = strides_of(x.dims());
  const std::int64_t step = strides[*axis];
  strides[*axis] = 0;
  with_unit(moving.unit(), [&]<typename U>(std::type_identity<U>) {
    const U* source = reinterpret_cast<const U*>(from);
    U* target = reinterpret_cast<U*>(*to);
    for_each_run<2>(indices.dims(), {strides, strides_of(indices.dims())}, [&](const auto& offset, std::int64_t n, const auto& inner) {
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t index = (*at)[static_cast<std::size_t>(offset[1] + i * inner[1])];
        target[offset[1] + i * inner[1]] = source[offset[0] + i * inner[0] + (index < 0 ? index + dim : index) * step];
      }
    });
  });
  return one_output(moving.take());
}

Outputs gather_nd(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const Tensor& indices = ctx.tensor(1);
  const std::int64_t batch_dims = ctx.attr_i("batch_dims", 0);
  if (x.rank() < 1 || indices.rank() < 1 || batch_dims < 0 || batch_dims >= std::min(x.rank(), indices.rank()))
    return ctx.invalid("batch_dims does not fit the ranks");
  const auto b = static_cast<std::size_t>(batch_dims);
  const std::int64_t depth = indices.dims().back();
  if (depth < 0 || depth + batch_dims > x.rank()) return ctx.invalid("the indices are longer than the data's rank");
  if (!std::equal(x.dims().begin(), x.dims().begin() + batch_dims, indices.dims().begin())) return ctx.invalid("the batch dims differ");
  const auto at = int_values(ctx, indices);
  if (!at.ok()) return at.status();
  Shape dims(indices.dims().begin(), indices.dims().end() - 1);
  dims.insert(dims.end(), x.dims().begin() + batch_dims + depth, x.dims().end());
  Moving moving(ctx, x.dtype());
  auto to = moving.make(dims);
  if (!to.ok()) return to.status();
  const std::byte* from = moving.units(x);
  const std::span<const std::int64_t> xd(x.dims()), id(indices.dims());
  const std::int64_t batches = product(xd.first(b)), rows = product(id.subspan(b, id.size() - b - 1));
  const std::int64_t batch_size = product(xd.subspan(b)), run = product(xd.subspan(b + static_cast<std::size_t>(depth))) * moving.unit();
  const Shape strides = strides_of(x.dims());
  for (std::int64_t k = 0; k < batches * rows; ++k) {
    std::int64_t offset = rows == 0 ? 0 : k / rows * batch_size;
    for (std::int64_t d = 0; d < depth; ++d) {
      const std::int64_t dim = xd[b + static_cast<std::size_t>(d)];
      std::int64_t i = (*at)[static_cast<std::size_t>(k * depth + d)];
      if (i < -dim || i >= dim) return ctx.invalid("an index is out of range");
      offset += (i < 0 ? i + dim : i) * strides[b + static_cast<std::size_t>(d)];
    }
    if (run > 0) std::memcpy(*to + k * run, from + offset * moving.unit(), static_cast<std::size_t>(run));
  }
  return one_output(moving.take());
}

}  // namespace

void register_data_gather(Registry& registry) {
  registry.add("", "Gather", gather, 1u << 0);  // of tables few rows are read
  registry.add("", "GatherElements", gather_elements);
  registry.add("", "GatherND", gather_nd);
  registry.add(kMicrosoft, "GatherND", gather_nd);
}

}  // namespace saturate
