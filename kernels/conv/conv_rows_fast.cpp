// Sums over the taps of a window, for outputs that lie side by side. Compiled for the baseline, AVX2 and AVX-512 and chosen by cpuid when
// the program is loaded; products are rounded before they are added, so that each gives the same numbers.
#pragma GCC optimize("O3", "fp-contract=off")
#include "kernels/conv/conv.h"

namespace saturate {
namespace {

// N floats anywhere in memory.
template <int N>
struct Floats {
  typedef float Type __attribute__((vector_size(N * sizeof(float))));
  typedef float Loose __attribute__((vector_size(N * sizeof(float)), aligned(4), may_alias));
};

// V times N outputs: sums stay in registers from the first tap to the last.
template <int V, int N>
[[gnu::always_inline]] inline void sum_block(std::span<const RowTap> taps, const float* x, float* y) {
  using Loose = typename Floats<N>::Loose;
  typename Floats<N>::Type sum[V] = {};
  for (const RowTap& tap : taps) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[v] += tap.weight * *reinterpret_cast<const Loose*>(x + tap.offset + v * N);
  }
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) *reinterpret_cast<Loose*>(y + v * N) = sum[v];
}

// The last block overlaps the one before: the same numbers are written twice.
template <int V, int N>
[[gnu::always_inline]] inline void sum_blocks(std::span<const RowTap> taps, const float* x, std::int64_t n, float* y) {
  for (std::int64_t at = 0; at < n; at += V * N) {
    const std::int64_t from = std::min(at, n - V * N);
    sum_block<V, N>(taps, x + from, y + from);
  }
}

}  // namespace

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void sum_taps(std::span<const RowTap> taps, const float* x,
                                                                                    std::int64_t n, float* y) {
  if (n >= 64) return sum_blocks<4, 16>(taps, x, n, y);
  if (n >= 16) return sum_blocks<1, 16>(taps, x, n, y);
  if (n >= 8) return sum_blocks<1, 8>(taps, x, n, y);
  if (n >= 4) return sum_blocks<1, 4>(taps, x, n, y);
  for (std::int64_t i = 0; i < n; ++i) {
    float sum = 0;
    for (const RowTap& tap : taps) sum += tap.weight * x[tap.offset + i];
    y[i] = sum;
  }
}

}  // namespace saturate
