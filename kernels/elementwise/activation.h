// Activation functions by name, as the recurrent operators and the fused operators (FusedConv, FusedGemm) name them.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string_view>

#include "kernels/elementwise/elementwise.h"

namespace saturate {

// The scalar function; alpha and beta default as the operator of that name does. Case does not matter. nullopt: unknown name.
std::optional<std::function<double(double)>> activation_function(std::string_view name, std::optional<float> alpha,
                                                                 std::optional<float> beta);

// y = f(x) with f on double for reference runs, on float (double for double) otherwise.
template <typename C>
using LoopOver = absl::FunctionRef<void(const C* x, C* y, std::int64_t n)>;
Outputs map_floats(const KernelContext& ctx, const Tensor& x, LoopOver<float> floats, LoopOver<double> doubles);
template <typename C, typename F>
void map_run(const F& f, const C* x, C* y, std::int64_t n) {
  const F each = f;  // of its own: what is written cannot change it
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<C>(each(x[i]));
}
template <typename F>
Outputs map_floats(const KernelContext& ctx, const Tensor& x, F f) {
  return map_floats(
      ctx, x, [&f](const float* in, float* out, std::int64_t n) { map_run(f, in, out, n); },
      [&f](const double* in, double* out, std::int64_t n) { map_run(f, in, out, n); });
}

template <typename C>
C sigmoid(C x) {
  if (x >= 0) return C(1) / (C(1) + std::exp(-x));
  const C e = std::exp(x);
  return e / (C(1) + e);
}
template <typename C>
C softplus(C x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}
template <typename C>
C gelu(C x) {
  return C(0.5) * x * (C(1) + std::erf(x * C(0.70710678118654752440)));
}
template <typename C>
C gelu_tanh(C x) {
  return C(0.5) * x * (C(1) + std::tanh(C(0.79788456080286535588) * (x + C(0.044715) * x * x * x)));
}

// Vectorised float versions (activation_fast.cpp): y[i] = f(x[i]) for i in [0, n). y may be x. Error bounds relative to the true value
// or, near zeros of the result, to 1: exp 2 ulp, tanh and sigmoid 4 ulp, erf and gelu 1e-6.
void sigmoid_floats(const float* x, float* y, std::int64_t n);
void tanh_floats(const float* x, float* y, std::int64_t n);
void exp_floats(const float* x, float* y, std::int64_t n);
void erf_floats(const float* x, float* y, std::int64_t n);
void gelu_floats(const float* x, float* y, std::int64_t n);
void gelu_tanh_floats(const float* x, float* y, std::int64_t n);
// y[i] = x[i] * sigmoid(alpha * x[i])
void swish_floats(const float* x, float* y, std::int64_t n, float alpha);
// Of the two above, where the processor has AVX-512.
void sigmoid_floats_avx512(const float* x, float* y, std::int64_t n);
void swish_floats_avx512(const float* x, float* y, std::int64_t n, float alpha);

using FloatLoop = void (*)(const float*, float*, std::int64_t);
// The float fast path where it applies (float input, not a reference run), f otherwise.
template <typename F>
Outputs map_activation(const KernelContext& ctx, const Tensor& x, FloatLoop fast, F f) {
  if (x.dtype() != DType::kFloat || ctx.options.reference) return map_floats(ctx, x, f);
  absl::StatusOr<Tensor> y = ctx.allocate_over({&x}, DType::kFloat, x.dims());
  if (!y.ok()) return y.status();
  float* out = write<float>(*y);
  parallel_for(ctx, x.size(), kElementGrain / 4, [&](std::int64_t b, std::int64_t e) { fast(x.data<float>() + b, out + b, e - b); });
  return outputs_of(*std::move(y));
}

}  // namespace saturate
