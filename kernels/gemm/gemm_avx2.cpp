// 6 x 16 micro-kernel: 12 accumulators, 2 vectors of B, one broadcast of A.
#include <immintrin.h>

#include "kernels/gemm/gemm.h"

namespace saturate {
namespace {

constexpr int kRows = 6, kVectors = 2, kLanes = 8;
alignas(32) constexpr std::int32_t kMask[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

// All loops over the tile are unrolled: otherwise the accumulators would live on the stack.
template <int R, int V>
[[gnu::target("avx2,fma")]] void tile(const TileCall& call, int rest) {
  const std::int64_t ldb = call.ldb, piece = call.taps == nullptr ? call.k : call.piece;
  const float* b = call.b;
  const __m256i last = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMask + 8 - rest));
  __m256 sum[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[r][v] = _mm256_setzero_ps();
  }
  for (std::int64_t part = 0, done = 0; done < call.k; ++part, done += piece) {
    const float* a[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) a[r] = call.row(r, part);
    for (std::int64_t p = 0; p < piece; ++p) {
      __m256 row[V];
#pragma GCC unroll 8
      for (int v = 0; v + 1 < V; ++v) row[v] = _mm256_loadu_ps(b + v * kLanes);
      row[V - 1] = rest == kLanes ? _mm256_loadu_ps(b + (V - 1) * kLanes) : _mm256_maskload_ps(b + (V - 1) * kLanes, last);
      b += ldb;
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const __m256 x = _mm256_broadcast_ss(a[r] + p);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sum[r][v] = _mm256_fmadd_ps(x, row[v], sum[r][v]);
      }
    }
  }
  const TileFinish none, &finish = call.finish == nullptr ? none : *call.finish;
  const __m256 low = _mm256_set1_ps(finish.low), high = _mm256_set1_ps(finish.high);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      float* out = call.c + r * call.ldc + v * kLanes;
      const __m256i mask = v + 1 < V ? _mm256_set1_epi32(-1) : last;
      __m256 x = sum[r][v];
      if (call.accumulate) x = _mm256_add_ps(x, _mm256_maskload_ps(out, mask));
      if (finish.bias != nullptr) x = _mm256_add_ps(x, _mm256_maskload_ps(finish.bias + v * kLanes, mask));
      if (finish.residual != nullptr)
        x = _mm256_add_ps(x, _mm256_maskload_ps(finish.residual + r * finish.residual_step + v * kLanes, mask));
      x = _mm256_min_ps(high, _mm256_max_ps(low, x));  // the second operand where one is NaN
      _mm256_maskstore_ps(out, mask, x);
    }
  }
}

using Tile = void (*)(const TileCall&, int);
constexpr std::array<std::array<Tile, kVectors>, kRows> kTiles{{{tile<1, 1>, tile<1, 2>},
                                                                {tile<2, 1>, tile<2, 2>},
                                                                {tile<3, 1>, tile<3, 2>},
                                                                {tile<4, 1>, tile<4, 2>},
                                                                {tile<5, 1>, tile<5, 2>},
                                                                {tile<6, 1>, tile<6, 2>}}};

void run_tile(const TileCall& call) {
  const int vectors = (call.cols + kLanes - 1) / kLanes, rest = call.cols - (vectors - 1) * kLanes;
  kTiles[static_cast<std::size_t>(call.rows - 1)][static_cast<std::size_t>(vectors - 1)](call, rest);
}

}  // namespace

GemmKernel gemm_kernel_avx2() { return {kRows, kVectors * kLanes, run_tile}; }

}  // namespace saturate
