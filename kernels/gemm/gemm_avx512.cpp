// 6 x 64 micro-kernel: 24 accumulators, 4 vectors of B, one broadcast of A; 12 x 32 for narrow matrices.
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/gemm/gemm.h"

namespace saturate {
namespace {

constexpr int kRows = 6, kVectors = 4, kLanes = 16, kNarrowRows = 12, kNarrowVectors = 2, kTogether = 3;
constexpr __mmask16 kAll = 0xffff;
constexpr std::int64_t kAhead = 8;  // rows of B asked for before they are needed: they come from the second-level cache

template <int V>
[[gnu::target("avx512f"), gnu::always_inline]] inline void load_row(const TileCall& call, const float* b, __mmask16 last, __m512* row) {
#pragma GCC unroll 8
  for (int v = 0; v + 1 < V; ++v) row[v] = _mm512_loadu_ps(b + v * kLanes);
  row[V - 1] = _mm512_maskz_loadu_ps(last, b + (V - 1) * kLanes);
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) _mm_prefetch(reinterpret_cast<const char*>(b + kAhead * call.ldb + v * kLanes), _MM_HINT_T0);
}

template <int R, int V>
[[gnu::target("avx512f"), gnu::always_inline]] inline void add_row(const float* const* a, std::int64_t step, const __m512* row,
                                                                   __m512 (*sum)[V]) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    const __m512 x = _mm512_set1_ps(a[r / kTogether][r % kTogether * step]);
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[r][v] = _mm512_fmadd_ps(x, row[v], sum[r][v]);
  }
}

// Choices outside of the loops: inside, each costs as much as a step of k.
template <int R, int V>
[[gnu::target("avx512f"), gnu::always_inline]] inline void finish_tile(const TileCall& call, __mmask16 last, __m512 (&sum)[R][V]) {
  float* const c = call.c;
  const std::int64_t ldc = call.ldc;
  if (call.accumulate) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v)
        sum[r][v] = _mm512_add_ps(sum[r][v], _mm512_maskz_loadu_ps(v + 1 < V ? kAll : last, c + r * ldc + v * kLanes));
    }
  }
  if (call.finish != nullptr) {
    const TileFinish& finish = *call.finish;
    if (finish.bias != nullptr) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        const __m512 bias = _mm512_maskz_loadu_ps(v + 1 < V ? kAll : last, finish.bias + v * kLanes);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) sum[r][v] = _mm512_add_ps(sum[r][v], bias);
      }
    }
    if (finish.residual != nullptr) {
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const float* from = finish.residual + r * finish.residual_step;
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sum[r][v] = _mm512_add_ps(sum[r][v], _mm512_maskz_loadu_ps(v + 1 < V ? kAll : last, from + v * kLanes));
      }
    }
    const __m512 low = _mm512_set1_ps(finish.low), high = _mm512_set1_ps(finish.high);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v)  // The second operand where one is NaN. (GCC 12 warns of the forms without a mask.)
        sum[r][v] = _mm512_maskz_min_ps(kAll, high, _mm512_maskz_max_ps(kAll, low, sum[r][v]));
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) _mm512_mask_storeu_ps(c + r * ldc + v * kLanes, v + 1 < V ? kAll : last, sum[r][v]);
  }
}

// All loops over the tile are unrolled: otherwise the accumulators would live on the stack.
template <int R, int V>
[[gnu::target("avx512f")]] void tile(const TileCall& call, __mmask16 last) {
  const float *b = call.b, *ahead = call.ahead == nullptr ? call.b : call.ahead;
  __m512 sum[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  // One pointer for three rows: there are not enough registers for all.
  constexpr int kGroups = (R + kTogether - 1) / kTogether;
  const float* a[kGroups];
#pragma GCC unroll 8
  for (int g = 0; g < kGroups; ++g) a[g] = call.a + g * kTogether * call.lda;
  for (std::int64_t p = 0; p < call.k; ++p) {
    __m512 row[V];
    load_row<V>(call, b, last, row);
    _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T1);
    add_row<R, V>(a, call.lda, row, sum);
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) ++a[g];
    ahead += kLanes;
    b += call.ldb;
  }
  finish_tile<R, V>(call, last, sum);
}

// The same over rows in pieces.
template <int R, int V>
[[gnu::target("avx512f")]] void tile_of_taps(const TileCall& call, __mmask16 last) {
  const float *b = call.b, *ahead = call.ahead == nullptr ? call.b : call.ahead;
  __m512 sum[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  for (std::int64_t part = 0, done = 0; done < call.k; ++part, done += call.piece) {
    const float* a[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) a[r] = call.row(r, part);
    for (std::int64_t p = 0; p < call.piece; ++p) {
      __m512 row[V];
      load_row<V>(call, b, last, row);
      _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T1);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const __m512 x = _mm512_set1_ps(a[r][p]);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sum[r][v] = _mm512_fmadd_ps(x, row[v], sum[r][v]);
      }
      ahead += kLanes;
      b += call.ldb;
    }
  }
  finish_tile<R, V>(call, last, sum);
}

using Tile = void (*)(const TileCall&, __mmask16);

template <int R>
constexpr std::array<Tile, kVectors> row_of_tiles() {
  if constexpr (R > kRows)
    return {tile<R, 1>, tile<R, 2>, nullptr, nullptr};
  else
    return {tile<R, 1>, tile<R, 2>, tile<R, 3>, tile<R, 4>};
}
template <int... R>
constexpr std::array<std::array<Tile, kVectors>, sizeof...(R)> all_tiles(std::integer_sequence<int, R...>) {
  return {row_of_tiles<R + 1>()...};
}
template <int... R>
constexpr std::array<std::array<Tile, kVectors>, sizeof...(R)> all_tiles_of_taps(std::integer_sequence<int, R...>) {
  return {{{tile_of_taps<R + 1, 1>, tile_of_taps<R + 1, 2>, tile_of_taps<R + 1, 3>, tile_of_taps<R + 1, 4>}...}};
}
constexpr auto kTiles = all_tiles(std::make_integer_sequence<int, kNarrowRows>());
constexpr auto kTilesOfTaps = all_tiles_of_taps(std::make_integer_sequence<int, kRows>());

void run_tile(const TileCall& call) {
  const int vectors = (call.cols + kLanes - 1) / kLanes, rest = call.cols - (vectors - 1) * kLanes;
  const auto row = static_cast<std::size_t>(call.rows - 1), column = static_cast<std::size_t>(vectors - 1);
  (call.taps == nullptr ? kTiles[row][column] : kTilesOfTaps[row][column])(call, static_cast<__mmask16>((1u << rest) - 1u));
}

}  // namespace

[[gnu::target("avx512f")]] void pack_transposed_avx512(std::int64_t k, std::int64_t cols, const float* b, std::int64_t col_stride,
                                                       std::int64_t nr, float* to) {
  const __m512i steps = _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                           _mm512_set1_epi32(static_cast<int>(col_stride)));
  for (std::int64_t j = 0; j < cols; j += kLanes) {
    const auto mask = static_cast<__mmask16>((1u << std::min<std::int64_t>(kLanes, cols - j)) - 1u);
    const float* from = b + j * col_stride;
    for (std::int64_t p = 0; p < k; ++p)
      _mm512_mask_storeu_ps(to + p * nr + j, mask, _mm512_mask_i32gather_ps(_mm512_setzero_ps(), mask, steps, from + p, sizeof(float)));
  }
}

GemmKernel gemm_kernel_avx512() { return {kRows, kVectors * kLanes, run_tile, kNarrowRows, kNarrowVectors * kLanes}; }

}  // namespace saturate
