#include "kernels/elementwise/elementwise.h"

namespace saturate {

template <std::size_t N>
void parallel_runs(const KernelContext& ctx, const Shape& dims, const std::array<Shape, N>& strides, RunBody<N> f) {
  std::size_t lead = 0;
  while (lead < dims.size() && dims[lead] == 1) ++lead;
  if (lead == dims.size()) return for_each_run<N>({}, {}, f);
  const Shape rest(dims.begin() + static_cast<std::ptrdiff_t>(lead), dims.end());
  const std::int64_t inner = product(std::span(rest).subspan(1));
  std::array<Shape, N> rest_strides;
  for (std::size_t n = 0; n < N; ++n) rest_strides[n].assign(strides[n].begin() + static_cast<std::ptrdiff_t>(lead), strides[n].end());
  parallel_for(ctx, rest[0], std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, inner)),
               [&](std::int64_t begin, std::int64_t end) {
                 Shape part = rest;
                 part[0] = end - begin;
                 for_each_run<N>(part, rest_strides, [&](const auto& at, std::int64_t count, const auto& step) {
                   std::array<std::int64_t, N> offset = at;
                   for (std::size_t n = 0; n < N; ++n) offset[n] += begin * rest_strides[n][0];
                   f(offset, count, step);
                 });
               });
}
template void parallel_runs<2>(const KernelContext&, const Shape&, const std::array<Shape, 2>&, RunBody<2>);
template void parallel_runs<3>(const KernelContext&, const Shape&, const std::array<Shape, 3>&, RunBody<3>);
template void parallel_runs<4>(const KernelContext&, const Shape&, const std::array<Shape, 4>&, RunBody<4>);

Outputs map_tensor(const KernelContext& ctx, const Tensor& x, DType dtype, absl::FunctionRef<void(const void*, void*, std::int64_t)> loop) {
  absl::StatusOr<Tensor> y = ctx.allocate_over({&x}, dtype, x.dims());
  if (!y.ok()) return y.status();
  const std::byte* in = x.bytes().data();
  std::byte* out = write<std::byte>(*y);
  const std::int64_t size_in = bit_width(x.dtype()) / 8, size_out = bit_width(dtype) / 8;
  parallel_for(ctx, x.size(), kElementGrain,
               [&](std::int64_t begin, std::int64_t end) { loop(in + begin * size_in, out + begin * size_out, end - begin); });
  return outputs_of(*std::move(y));
}

void zip_into(const KernelContext& ctx, const Tensor& a, const Tensor& b, const Shape& dims, ElementsOut out, ZipLoop loop) {
  const std::byte *pa = a.bytes().data(), *pb = b.bytes().data();
  const std::int64_t size = bit_width(out.dtype) / 8, size_a = bit_width(a.dtype()) / 8, size_b = bit_width(b.dtype()) / 8;
  parallel_runs<3>(ctx, dims, {strides_of(dims), broadcast_strides(a.dims(), dims), broadcast_strides(b.dims(), dims)},
                   [&](const auto& at, std::int64_t n, const auto& step) {
                     loop(pa + at[1] * size_a, step[1], pb + at[2] * size_b, step[2], out.data + at[0] * size, n);
                   });
}

Outputs zip_tensors(const KernelContext& ctx, const Tensor& a, const Tensor& b, DType dtype, ZipLoop loop) {
  const std::optional<Shape> dims = broadcast_shape(a.dims(), b.dims());
  if (!dims) return ctx.invalid("the inputs' shapes cannot be broadcast");
  absl::StatusOr<Tensor> y = ctx.allocate_over({&a, &b}, dtype, *dims);
  if (!y.ok()) return y.status();
  zip_into(ctx, a, b, *dims, ElementsOut{dtype, write<std::byte>(*y)}, loop);
  return outputs_of(*std::move(y));
}

template <typename C>
void store_computed(std::span<const C> values, Tensor& t) {
  of_type(FloatTypes{}, t.dtype(), [&]<typename T>(std::type_identity<T>) {
    T* to = write<T>(t);
    for (std::size_t i = 0; i < values.size(); ++i) to[i] = static_cast<T>(values[i]);
    return true;
  });
}

template <typename C>
absl::StatusOr<Tensor> narrowed(const KernelContext& ctx, DType dtype, const Shape& dims, const std::vector<C>& values) {
  absl::StatusOr<Tensor> t = ctx.allocate(dtype, dims);
  if (t.ok()) store_computed<C>(values, *t);
  return t;
}

template void store_computed(std::span<const float>, Tensor&);
template void store_computed(std::span<const double>, Tensor&);
template absl::StatusOr<Tensor> narrowed(const KernelContext&, DType, const Shape&, const std::vector<float>&);
template absl::StatusOr<Tensor> narrowed(const KernelContext&, DType, const Shape&, const std::vector<double>&);

absl::StatusOr<Tensor> align_legacy(const KernelContext& ctx, const Tensor& a, const Tensor& b) {
  if (!ctx.node.domain.empty() || ctx.opset >= 7 || !ctx.has_attr("axis") || b.rank() >= a.rank()) return b;
  const std::optional<int> axis = normalize_axis(ctx.attr_i("axis", 0), a.rank());
  if (!axis || *axis + b.rank() > a.rank()) return ctx.invalid("axis does not fit the inputs");
  Shape dims = b.dims();
  dims.resize(static_cast<std::size_t>(a.rank() - *axis), 1);
  return b.reshaped(std::move(dims));
}

absl::StatusOr<BinaryInputs> binary_inputs(const KernelContext& ctx, std::optional<Tensor>& store) {
  if (!ctx.is_tensor(0) || !ctx.is_tensor(1)) return ctx.invalid("needs two tensors");
  if (ctx.tensor(0).dtype() != ctx.tensor(1).dtype()) return ctx.invalid("the inputs differ in element type");
  if (ctx.opset >= 7) return BinaryInputs{ctx.tensor(0), ctx.tensor(1)};
  absl::StatusOr<Tensor> b = align_legacy(ctx, ctx.tensor(0), ctx.tensor(1));
  if (!b.ok()) return b.status();
  return BinaryInputs{ctx.tensor(0), store.emplace(*std::move(b))};
}

void register_elementwise(Registry& registry) {
  register_elementwise_arithmetic(registry);
  register_elementwise_compare(registry);
  register_elementwise_unary(registry);
  register_elementwise_variadic(registry);
}

}  // namespace saturate
