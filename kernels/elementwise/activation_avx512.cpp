// x * sigmoid(alpha x) with the reciprocal by estimate and one step of Newton: a division of 16 floats takes as long as all the rest.
#include <immintrin.h>

#include "kernels/elementwise/activation.h"

namespace saturate {
namespace {

// 1 / (1 + exp(-x)). Below -87 it is 0, so that minus infinity times it is NaN; the step of Newton would need normal numbers there.
[[gnu::target("avx512f")]] inline __m512 sigmoid_of(__m512 x) {
  constexpr __mmask16 kAll = 0xffff;
  const __m512 below = _mm512_maskz_min_ps(kAll, _mm512_set1_ps(87.0f), _mm512_sub_ps(_mm512_setzero_ps(), x));  // NaN: the second operand
  const __m512 t = _mm512_maskz_max_ps(kAll, _mm512_set1_ps(-87.0f), below);  // farther off the remainder of t / log 2 is none
  const __m512 n = _mm512_maskz_roundscale_ps(kAll, _mm512_mul_ps(t, _mm512_set1_ps(1.44269504f)), 0);
  const __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.42860682030941723e-6f), _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693145751953125f), t));
  __m512 p = _mm512_set1_ps(0.00139411055320755f);  // as exp_of in activation_fast.cpp
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.008363179816688495f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.04166637535366059f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.16666576978543027f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5000000026917567f));
  p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), _mm512_add_ps(r, _mm512_set1_ps(1.0f)));
  const __m512 d = _mm512_add_ps(_mm512_set1_ps(1.0f), _mm512_maskz_scalef_ps(kAll, p, n));
  const __m512 y = _mm512_maskz_rcp14_ps(kAll, d);
  const __mmask16 normal = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.0f), _CMP_NLT_UQ);  // NaN, too
  return _mm512_maskz_mul_ps(normal, y, _mm512_fnmadd_ps(d, y, _mm512_set1_ps(2.0f)));
}

}  // namespace

[[gnu::target("avx512f")]] void swish_floats_avx512(const float* x, float* y, std::int64_t n, float alpha) {
  const __m512 a = _mm512_set1_ps(alpha);
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 mask = n - i >= 16 ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1u << (n - i)) - 1u);
    const __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
    _mm512_mask_storeu_ps(y + i, mask, _mm512_mul_ps(v, sigmoid_of(_mm512_mul_ps(a, v))));
  }
}

[[gnu::target("avx512f")]] void sigmoid_floats_avx512(const float* x, float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 mask = n - i >= 16 ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1u << (n - i)) - 1u);
    _mm512_mask_storeu_ps(y + i, mask, sigmoid_of(_mm512_maskz_loadu_ps(mask, x + i)));
  }
}

}  // namespace saturate
