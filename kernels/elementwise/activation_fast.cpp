// Float activations written so that the compiler vectorises them: no branches, no calls. Each loop is compiled for the baseline,
// AVX2 and AVX-512 and chosen by cpuid when the program is loaded.
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
#include <bit>
#include <cmath>

#include "kernels/core/processor.h"
#include "kernels/elementwise/activation.h"

namespace saturate {
namespace {

using std::bit_cast;

// Cody-Waite reduction by ln 2, polynomial on [-ln 2 / 2, ln 2 / 2], scaling in two steps so that subnormals and overflow come out right.
[[gnu::always_inline]] inline float exp_of(float x) {
  x = x > 89.0f ? 89.0f : x;  // NaN passes both
  x = x < -105.0f ? -105.0f : x;
  const float shifted = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: the low bits hold the rounded quotient
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693145751953125f) - n * 1.42860682030941723e-6f;
  float p = 0.00139411055320755f;
  p = p * r + 0.008363179816688495f;
  p = p * r + 0.04166637535366059f;
  p = p * r + 0.16666576978543027f;
  p = p * r + 0.5000000026917567f;
  p = p * (r * r) + r + 1.0f;
  const std::int32_t exponent = bit_cast<std::int32_t>(shifted) - 0x4b400000;
  const std::int32_t half = exponent >> 1;
  const float s1 = bit_cast<float>((half + 127) << 23), s2 = bit_cast<float>((exponent - half + 127) << 23);
  return p * s1 * s2;
}

[[gnu::always_inline]] inline float sigmoid_of(float x) { return 1.0f / (1.0f + exp_of(-x)); }

// Odd polynomial near 0, where 1 - 2/(e^2x + 1) would cancel.
[[gnu::always_inline]] inline float tanh_of(float x) {
  const float a = bit_cast<float>(bit_cast<std::uint32_t>(x) & 0x7fffffffu);
  const float s = x * x;
  float p = -5.70498872745e-3f;
  p = p * s + 2.06390887954e-2f;
  p = p * s - 5.37397155531e-2f;
  p = p * s + 1.33314422036e-1f;
  p = p * s - 3.33332819422e-1f;
  const float small = p * s * x + x;
  const float large = 1.0f - 2.0f / (exp_of(2.0f * a) + 1.0f);
  const float signed_large = bit_cast<float>(bit_cast<std::uint32_t>(large) | (bit_cast<std::uint32_t>(x) & 0x80000000u));
  return a < 0.625f ? small : signed_large;
}

// |x| < 0.94: x times a polynomial in x^2; beyond: 1 - exp(polynomial), both fitted by weighted least squares.
[[gnu::always_inline]] inline float erf_of(float x) {
  const float a0 = bit_cast<float>(bit_cast<std::uint32_t>(x) & 0x7fffffffu);
  const float a = a0 > 4.0f ? 4.0f : a0;
  const float s = x * x;
  float p = 8.215414652063253e-05f;
  p = p * s - 0.0008105962672373402f;
  p = p * s + 0.005197796919315412f;
  p = p * s - 0.026858104172989526f;
  p = p * s + 0.11283672543124548f;
  p = p * s - 0.3761263228549113f;
  p = p * s + 1.1283791664947596f;
  float q = -2.1279006133176975e-05f;
  q = q * a + 0.0004365776750917165f;
  q = q * a - 0.004181253566886577f;
  q = q * a + 0.025146110014292487f;
  q = q * a - 0.10832111699222373f;
  q = q * a - 0.6333098366275903f;
  q = q * a - 1.1295331674838793f;
  q = q * a + 0.00017845604343322798f;
  const float large = 1.0f - exp_of(q);
  const float signed_large = bit_cast<float>(bit_cast<std::uint32_t>(large) | (bit_cast<std::uint32_t>(x) & 0x80000000u));
  return a < 0.94f ? p * x : signed_large;
}

}  // namespace

namespace {

[[gnu::target_clones("default", "arch=x86-64-v3")]] void sigmoid_floats_portable(const float* x, float* y, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = sigmoid_of(x[i]);
}

[[gnu::target_clones("default", "arch=x86-64-v3")]] void swish_floats_portable(const float* x, float* y, std::int64_t n, float alpha) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * sigmoid_of(alpha * x[i]);
}

}  // namespace

void sigmoid_floats(const float* x, float* y, std::int64_t n) {
  SATURATE_X86_HAS("avx512f") ? sigmoid_floats_avx512(x, y, n) : sigmoid_floats_portable(x, y, n);
}

void swish_floats(const float* x, float* y, std::int64_t n, float alpha) {
  SATURATE_X86_HAS("avx512f") ? swish_floats_avx512(x, y, n, alpha) : swish_floats_portable(x, y, n, alpha);
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void tanh_floats(const float* x, float* y, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = tanh_of(x[i]);
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void exp_floats(const float* x, float* y, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = exp_of(x[i]);
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void erf_floats(const float* x, float* y, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = erf_of(x[i]);
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void gelu_floats(const float* x, float* y, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = 0.5f * x[i] * (1.0f + erf_of(x[i] * 0.70710678f));
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void gelu_tanh_floats(const float* x, float* y, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = 0.5f * x[i] * (1.0f + tanh_of(0.79788456f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}

}  // namespace saturate
