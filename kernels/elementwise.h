// Loops that the element-by-element families share: unary, and binary with multidirectional broadcasting.
#pragma once

#include <algorithm>
#include <utility>

#include "kernels/registry.h"

namespace saturate {

// Elements of work below which a loop is not worth a task of its own.
inline constexpr std::int64_t kElementGrain = 1 << 15;

// The type in which an integer of T can be handled where only its bits matter.
template <typename T, bool kUnsigned>
struct SameBits {
  using type = T;
};
template <typename T>
struct SameBits<T, true> {
  using type = std::make_unsigned_t<T>;
};
template <>
struct SameBits<bool, true> {
  using type = std::uint8_t;
};

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

// for_each_run with the outermost dim split over threads.
template <std::size_t N>
void parallel_runs(const KernelContext& ctx, const Shape& dims, const std::array<Shape, N>& strides, RunBody<N> f);

// The runs of an output of `dims`, contiguous, and of a and b broadcast to it.
void zip_runs(const KernelContext& ctx, const Tensor& a, const Tensor& b, const Shape& dims, RunBody<3> f);
// The output of a binary operator: a and b broadcast, in the place of one of them where that is allowed (KernelContext::allocate_over).
absl::StatusOr<Tensor> zip_output(const KernelContext& ctx, const Tensor& a, const Tensor& b, DType dtype);

// out = f(a, b) broadcast to `dims`; `out` is contiguous.
template <typename A, typename B, typename R, typename F>
void zip_into(const KernelContext& ctx, const Tensor& a, const Tensor& b, const Shape& dims, R* out, F f) {
  const A* pa = a.data<A>();
  const B* pb = b.data<B>();
  zip_runs(ctx, a, b, dims, [&](const auto& at, std::int64_t n, const auto& step) {
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

// The same into a new tensor of `dtype`, whose elements are handled as R.
template <typename A, typename B, typename R, typename F>
Outputs zip_elements(const KernelContext& ctx, const Tensor& a, const Tensor& b, F f, DType dtype = dtype_of<R>()) {
  absl::StatusOr<Tensor> y = zip_output(ctx, a, b, dtype);
  if (!y.ok()) return y.status();
  zip_into<A, B, R>(ctx, a, b, y->dims(), write<R>(*y), f);
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
