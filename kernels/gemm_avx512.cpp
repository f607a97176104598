// 6 x 64 micro-kernel: 24 accumulators, 4 vectors of B, one broadcast of A.
#include <immintrin.h>

#include "kernels/gemm.h"

namespace saturate {
namespace {

constexpr int kRows = 6, kVectors = 4, kLanes = 16;

// All loops over the tile are unrolled: otherwise the accumulators would live on the stack.
template <int R, int V>
[[gnu::target("avx512f")]] void tile(std::int64_t k, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float* c,
                                     std::int64_t ldc, bool accumulate, __mmask16 last) {
  __m512 sum[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  for (std::int64_t p = 0; p < k; ++p) {
    __m512 row[V];
#pragma GCC unroll 8
    for (int v = 0; v + 1 < V; ++v) row[v] = _mm512_loadu_ps(b + v * kLanes);
    row[V - 1] = _mm512_maskz_loadu_ps(last, b + (V - 1) * kLanes);
    b += ldb;
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512 x = _mm512_set1_ps(a[r * lda + p]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] = _mm512_fmadd_ps(x, row[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const __mmask16 mask = v + 1 < V ? static_cast<__mmask16>(0xffff) : last;
      float* out = c + r * ldc + v * kLanes;
      if (accumulate) sum[r][v] = _mm512_add_ps(sum[r][v], _mm512_maskz_loadu_ps(mask, out));
      _mm512_mask_storeu_ps(out, mask, sum[r][v]);
    }
  }
}

using Tile = void (*)(std::int64_t, const float*, std::int64_t, const float*, std::int64_t, float*, std::int64_t, bool, __mmask16);

template <int R>
constexpr std::array<Tile, kVectors> row_of_tiles() {
  return {tile<R, 1>, tile<R, 2>, tile<R, 3>, tile<R, 4>};
}
constexpr std::array<std::array<Tile, kVectors>, kRows> kTiles{row_of_tiles<1>(), row_of_tiles<2>(), row_of_tiles<3>(),
                                                               row_of_tiles<4>(), row_of_tiles<5>(), row_of_tiles<6>()};

void run_tile(int rows, int cols, std::int64_t k, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float* c,
              std::int64_t ldc, bool accumulate) {
  const int vectors = (cols + kLanes - 1) / kLanes, rest = cols - (vectors - 1) * kLanes;
  kTiles[static_cast<std::size_t>(rows - 1)][static_cast<std::size_t>(vectors - 1)](k, a, lda, b, ldb, c, ldc, accumulate,
                                                                                    static_cast<__mmask16>((1u << rest) - 1u));
}

}  // namespace

GemmKernel gemm_kernel_avx512() { return {kRows, kVectors * kLanes, run_tile}; }

}  // namespace saturate
