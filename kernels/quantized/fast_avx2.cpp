#include <immintrin.h>

#include "kernels/quantized/fast.h"

namespace saturate {

// Two taps of a channel lie beside each other, which is what VPMADDWD multiplies and adds (Intel Software Developer's Manual, volume 2).
[[gnu::target("avx2")]] void sum_weighted_avx2(const std::uint8_t* const* x, std::int64_t pairs, std::int64_t offset,
                                               const std::int16_t* weight, const std::int32_t* start, std::int32_t* y) {
  constexpr int kVectors = kDepthwiseChannels / 8;
  const auto at = [](auto* p) [[gnu::target("avx2")]] { return reinterpret_cast<const __m256i*>(p); };
  __m256i sums[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) sums[v] = _mm256_loadu_si256(at(start + v * 8));
  for (std::int64_t p = 0; p < pairs; ++p, weight += 2 * kDepthwiseChannels) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v += 2) {
      const __m128i even = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x[2 * p] + offset + v * 8));
      const __m128i odd = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x[2 * p + 1] + offset + v * 8));
      const __m256i first = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(even, odd)), second = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(even, odd));
      sums[v] = _mm256_add_epi32(sums[v], _mm256_madd_epi16(first, _mm256_loadu_si256(at(weight + v * 16))));
      sums[v + 1] = _mm256_add_epi32(sums[v + 1], _mm256_madd_epi16(second, _mm256_loadu_si256(at(weight + v * 16 + 16))));
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + v * 8), sums[v]);
}

}  // namespace saturate
