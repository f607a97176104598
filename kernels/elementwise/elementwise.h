// Loops that the element-by-element families share: unary, and binary with multidirectional broadcasting.
#pragma once

#include <algorithm>
#include <utility>

#include "kernels/core/registry.h"

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

// A loop over elements of types that it knows: y[i] = f(x[i]).
using MapLoop = void (*)(const void* x, void* y, std::int64_t n);
template <typename T, typename R, typename F>
void map_loop(const void* x, void* y, std::int64_t n) {
  const T* in = static_cast<const T*>(x);
  R* out = static_cast<R*>(y);
  for (std::int64_t i = 0; i < n; ++i) out[i] = F()(in[i]);
}
// Runs one over a tensor into a new one of `dtype`.
Outputs map_tensor(const KernelContext& ctx, const Tensor& x, DType dtype, absl::FunctionRef<void(const void*, void*, std::int64_t)> loop);
// The one that converts elements as Cast does; null where there is none.
MapLoop cast_loop(DType from, DType to);

// y[i] = f(x[i]) for a tensor of T into a tensor of R.
template <typename T, typename R, typename F>
Outputs map_elements(const KernelContext& ctx, const Tensor& x, F f) {
  return map_tensor(ctx, x, dtype_of<R>(), [&f](const void* from, void* to, std::int64_t n) {
    const T* in = static_cast<const T*>(from);
    R* out = static_cast<R*>(to);
    const F each = f;  // of its own: what is written cannot change it
    for (std::int64_t i = 0; i < n; ++i) out[i] = each(in[i]);
  });
}

// for_each_run with the outermost dim split over threads.
template <std::size_t N>
void parallel_runs(const KernelContext& ctx, const Shape& dims, const std::array<Shape, N>& strides, RunBody<N> f);

// A loop over a run of both operands; a step of 0 stands for one element that is repeated.
using ZipLoop = void (*)(const void* a, std::int64_t step_a, const void* b, std::int64_t step_b, void* out, std::int64_t n);
template <typename A, typename B, typename R, typename F>
void zip_loop(const void* a, std::int64_t step_a, const void* b, std::int64_t step_b, void* out, std::int64_t n) {
  const A* x = static_cast<const A*>(a);
  const B* y = static_cast<const B*>(b);
  R* o = static_cast<R*>(out);
  if (step_a == 1 && step_b == 1) {
    for (std::int64_t i = 0; i < n; ++i) o[i] = F()(x[i], y[i]);
  } else if (step_a == 1 && step_b == 0) {
    const B c = *y;
    for (std::int64_t i = 0; i < n; ++i) o[i] = F()(x[i], c);
  } else if (step_a == 0 && step_b == 1) {
    const A c = *x;
    for (std::int64_t i = 0; i < n; ++i) o[i] = F()(c, y[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) o[i] = F()(x[i * step_a], y[i * step_b]);
  }
}
// The loop of out[i] = Op::apply(a[i], b[i]) for a type of the list; nullopt where `dtype` is none. `kSigns`: whether signed and unsigned
// integers have loops of their own.
template <typename Op, typename List, bool kSigns = true>
std::optional<ZipLoop> zip_loop_of(DType dtype) {
  return of_type(List{}, dtype, []<typename Given>(std::type_identity<Given>) -> ZipLoop {
    using T = typename SameBits<Given, std::is_integral_v<Given> && !kSigns>::type;
    using C = Compute<T>;
    const auto each = [](T a, T b) { return static_cast<T>(Op::template apply<C>(static_cast<C>(a), static_cast<C>(b))); };
    return zip_loop<T, T, T, decltype(each)>;
  });
}

// Runs one over two tensors, broadcast, into a new one of `dtype`, or into the memory at `out`, contiguous and of `dims`.
Outputs zip_tensors(const KernelContext& ctx, const Tensor& a, const Tensor& b, DType dtype, ZipLoop loop);
struct ElementsOut {
  DType dtype;
  std::byte* data;
};
void zip_into(const KernelContext& ctx, const Tensor& a, const Tensor& b, const Shape& dims, ElementsOut out, ZipLoop loop);

// out[i] = f(a[i], b[i]), broadcast; f holds no values.
template <typename A, typename B, typename R, typename F>
Outputs zip_elements(const KernelContext& ctx, const Tensor& a, const Tensor& b, F) {
  return zip_tensors(ctx, a, b, dtype_of<R>(), zip_loop<A, B, R, F>);
}
template <typename A, typename B, typename R, typename F>
void zip_into(const KernelContext& ctx, const Tensor& a, const Tensor& b, const Shape& dims, R* out, F) {
  zip_into(ctx, a, b, dims, ElementsOut{dtype_of<R>(), reinterpret_cast<std::byte*>(out)}, zip_loop<A, B, R, F>);
}

// Floats or doubles, rounded to the type of `t` (of FloatTypes), which allocate() gave; and a new tensor of `dtype` with them.
template <typename C>
void store_computed(std::span<const C> values, Tensor& t);
template <typename C>
absl::StatusOr<Tensor> narrowed(const KernelContext& ctx, DType dtype, const Shape& dims, const std::vector<C>& values);

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
