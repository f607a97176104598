// Softmax of a row in three passes over whole vectors, the last one masked: rows of windowed attention are a few vectors long.
#include <immintrin.h>

#include <limits>

#include "kernels/reduce/softmax.h"

namespace saturate {
namespace {

constexpr int kLanes = 16;
constexpr __mmask16 kAll = 0xffff;

__mmask16 lanes_of(std::int64_t left) { return left >= kLanes ? kAll : static_cast<__mmask16>((1u << left) - 1u); }

// e^t for t <= 0, NaN kept; the polynomial of exp_of in activation_fast.cpp.
[[gnu::target("avx512f")]] inline __m512 exp_of(__m512 t) {
  t = _mm512_maskz_max_ps(kAll, _mm512_set1_ps(-105.0f), t);  // NaN: the second operand
  const __m512 n = _mm512_maskz_roundscale_ps(kAll, _mm512_mul_ps(t, _mm512_set1_ps(1.44269504f)), 0);
  const __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.42860682030941723e-6f), _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693145751953125f), t));
  __m512 p = _mm512_set1_ps(0.00139411055320755f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.008363179816688495f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.04166637535366059f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.16666576978543027f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5000000026917567f));
  p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), _mm512_add_ps(r, _mm512_set1_ps(1.0f)));
  return _mm512_maskz_scalef_ps(kAll, p, n);
}

[[gnu::target("avx512f")]] float largest(__m512 v) {
  float lanes[kLanes], top = -std::numeric_limits<float>::infinity();
  _mm512_storeu_ps(lanes, v);
  for (float x : lanes) top = x > top ? x : top;
  return top;
}

[[gnu::target("avx512f")]] float total(__m512 v) {
  float lanes[kLanes], sum = 0;
  _mm512_storeu_ps(lanes, v);
  for (float x : lanes) sum += x;
  return sum;
}

}  // namespace

[[gnu::target("avx512f")]] float row_max_avx512(const float* x, std::int64_t n) {
  const __m512 low = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  __m512 best = low;
  for (std::int64_t i = 0; i < n; i += kLanes)
    best = _mm512_maskz_max_ps(kAll, _mm512_mask_loadu_ps(low, lanes_of(n - i), x + i), best);  // NaN is passed over
  return largest(best);
}

[[gnu::target("avx512f")]] void exp_row_avx512(float* x, std::int64_t n, float top) {
  const __m512 offset = _mm512_set1_ps(top);
  __m512 sum = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const __mmask16 mask = lanes_of(n - i);
    const __m512 e = exp_of(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), offset));
    _mm512_mask_storeu_ps(x + i, mask, e);
    sum = _mm512_mask_add_ps(sum, mask, sum, e);
  }
  const __m512 factor = _mm512_set1_ps(1.0f / total(sum));
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const __mmask16 mask = lanes_of(n - i);
    _mm512_mask_storeu_ps(x + i, mask, _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), factor));
  }
}

}  // namespace saturate
