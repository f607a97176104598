// Loops that the element-by-element families share: unary, and binary with multidirectional broadcasting.
#pragma once

#include <algorithm>
#include <utility>

#include "kernels/registry.h"

namespace saturate {

// Elements of work below which a loop is not worth a task of its own.
inline constexpr std::int64_t kElementGrain = 1 << 15;

// y[i] = f(x[i]) for a tensor of T into a tensor of R.
template <typename T, typename R, typename F>
Outputs map_elements(const KernelContext& ctx, const Tensor& x, F f) {
  absl::StatusOr<Tensor> y = ctx.allocate_over({&x}, dtype_of<R>(), x.dims());
  if (!y.ok()) return y.status();
  const T* in = x.data<T>();
  R* out = write<R>(*y);
  parallel_for(ctx, x.size(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out[i] = f(in[i]);
  });
  return outputs_of(*std::move(y));
}

// f(offsets, count, inner_strides) over runs as for_each_run, the outermost dim split over threads.
template <std::size_t N, typename F>
void parallel_runs(const KernelContext& ctx, const Shape& dims, const std::array<Shape, N>& strides, F&& f) {
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
                 for_each_run<N>(part, rest_strides,
                                 [&](std::array<std::int64_t, N> offset, std::int64_t count, const std::array<std::int64_t, N>& step) {
                                   for (std::size_t n = 0; n < N; ++n) offset[n] += begin * rest_strides[n][0];
                                   f(offset, count, step);
                                 });
               });
}

// out = f(a, b) broadcast to `dims`; `out` is contiguous.
template <typename A, typename B, typename R, typename F>
void zip_into(const KernelContext& ctx, const Tensor& a, const Tensor& b, const Shape& dims, R* out, F f) {
  const A* pa = a.data<A>();
  const B* pb = b.data<B>();
  const std::array<Shape, 3> strides{strides_of(dims), broadcast_strides(a.dims(), dims), broadcast_strides(b.dims(), dims)};
  parallel_runs<3>(ctx, dims, strides, [&](const auto& at, std::int64_t n, const auto& step) {
    R* o = out + at[0];
    const A* x = pa + at[1];
    const B* y = pb + at[2];
    if (step[1] == 1 && step[2] == 1) {
      for (std::int64_t i = 0; i < n; ++i) o[i] = f(x[i], y[i]);
    } else if (step[1] == 1 && step[2] == 0) {
      const B c = *y;
      for (std::int64_t i = 0; i < n; ++i) o[i] = f(x[i], c);
    } else if (step[1] == 0 && step[2] == 1) {
      const A c = *x;
      for (std::int64_t i = 0; i < n; ++i) o[i] = f(c, y[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) o[i] = f(x[i * step[1]], y[i * step[2]]);
    }
  });
}

template <typename A, typename B, typename R, typename F>
Outputs zip_elements(const KernelContext& ctx, const Tensor& a, const Tensor& b, F f) {
  const std::optional<Shape> dims = broadcast_shape(a.dims(), b.dims());
  if (!dims) return ctx.invalid("the inputs' shapes cannot be broadcast");
  absl::StatusOr<Tensor> y = ctx.allocate_over({&a, &b}, dtype_of<R>(), *dims);
  if (!y.ok()) return y.status();
  zip_into<A, B, R>(ctx, a, b, *dims, write<R>(*y), f);
  return outputs_of(*std::move(y));
}

// Below opset 7, B of a binary operator is aligned to A at `axis` instead of at the end (with attribute broadcast=1).
absl::StatusOr<Tensor> align_legacy(const KernelContext& ctx, const Tensor& a, const Tensor& b);
// The two inputs of a binary operator, aligned, of one dtype.
struct BinaryInputs {
  const Tensor& first;
  const Tensor& second;
};
// `store` holds the second one where it had to be aligned.
absl::StatusOr<BinaryInputs> binary_inputs(const KernelContext& ctx, std::optional<Tensor>& store);

void register_elementwise_arithmetic(Registry& registry);
void register_elementwise_compare(Registry& registry);
void register_elementwise_unary(Registry& registry);
void register_elementwise_variadic(Registry& registry);

}  // namespace saturate
