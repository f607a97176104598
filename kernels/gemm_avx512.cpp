// 6 x 64 micro-kernel: 24 accumulators, 4 vectors of B, one broadcast of A.
#include <immintrin.h>

#include "kernels/gemm.h"

namespace saturate {
namespace {

constexpr int kRows = 6, kVectors = 4, kLanes = 16;
constexpr __mmask16 kAll = 0xffff;
constexpr std::int64_t kAhead = 8;  // rows of B asked for before they are needed: they come from the second-level cache

// All loops over the tile are unrolled: otherwise the accumulators would live on the stack.
template <int R, int V>
[[gnu::target("avx512f")]] void tile(const TileCall& call, __mmask16 last) {
  const std::int64_t lda = call.lda, ldb = call.ldb;
  const float *a = call.a, *b = call.b, *ahead = call.ahead == nullptr ? call.b : call.ahead;
  __m512 sum[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  for (std::int64_t p = 0; p < call.k; ++p) {
    __m512 row[V];
#pragma GCC unroll 8
    for (int v = 0; v + 1 < V; ++v) row[v] = _mm512_loadu_ps(b + v * kLanes);
    row[V - 1] = _mm512_maskz_loadu_ps(last, b + (V - 1) * kLanes);
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) _mm_prefetch(reinterpret_cast<const char*>(b + kAhead * ldb + v * kLanes), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(ahead + p * kLanes), _MM_HINT_T1);
    b += ldb;
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512 x = _mm512_set1_ps(a[r * lda + p]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] = _mm512_fmadd_ps(x, row[v], sum[r][v]);
    }
  }
  const TileFinish none, &finish = call.finish == nullptr ? none : *call.finish;
  const __m512 low = _mm512_set1_ps(finish.low), high = _mm512_set1_ps(finish.high);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const __mmask16 mask = v + 1 < V ? kAll : last;
      float* out = call.c + r * call.ldc + v * kLanes;
      __m512 x = sum[r][v];
      if (call.accumulate) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, out));
      if (finish.bias != nullptr) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, finish.bias + v * kLanes));
      if (finish.residual != nullptr)
        x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, finish.residual + r * finish.residual_step + v * kLanes));
      // The second operand where one is NaN. (GCC 12 warns of the forms without a mask.)
      x = _mm512_maskz_min_ps(kAll, high, _mm512_maskz_max_ps(kAll, low, x));
      _mm512_mask_storeu_ps(out, mask, x);
    }
  }
}

using Tile = void (*)(const TileCall&, __mmask16);

template <int R>
constexpr std::array<Tile, kVectors> row_of_tiles() {
  return {tile<R, 1>, tile<R, 2>, tile<R, 3>, tile<R, 4>};
}
constexpr std::array<std::array<Tile, kVectors>, kRows> kTiles{row_of_tiles<1>(), row_of_tiles<2>(), row_of_tiles<3>(),
                                                               row_of_tiles<4>(), row_of_tiles<5>(), row_of_tiles<6>()};

void run_tile(const TileCall& call) {
  const int vectors = (call.cols + kLanes - 1) / kLanes, rest = call.cols - (vectors - 1) * kLanes;
  kTiles[static_cast<std::size_t>(call.rows - 1)][static_cast<std::size_t>(vectors - 1)](call, static_cast<__mmask16>((1u << rest) - 1u));
}

}  // namespace

GemmKernel gemm_kernel_avx512() { return {kRows, kVectors * kLanes, run_tile}; }

}  // namespace saturate
