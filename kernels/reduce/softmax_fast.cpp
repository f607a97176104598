#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math", "associative-math", "no-signed-zeros")
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/core/processor.h"
#include "kernels/elementwise/activation.h"
#include "kernels/reduce/softmax.h"

namespace saturate {
namespace {

constexpr int kLanes = 16;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));

// By lanes: the compiler leaves a maximum over one variable scalar, because of NaN. (A NaN is not found here, but poisons the sum.)
[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] float row_max(const float* x, std::int64_t n) {
  float top = -std::numeric_limits<float>::infinity();
  std::int64_t i = 0;
  if (n >= 2 * kLanes) {
    Lanes best[2];
    std::memcpy(best, x, sizeof best);
    for (i = 2 * kLanes; i + 2 * kLanes <= n; i += 2 * kLanes) {
      Lanes v[2];
      std::memcpy(v, x + i, sizeof v);
      best[0] = v[0] > best[0] ? v[0] : best[0];
      best[1] = v[1] > best[1] ? v[1] : best[1];
    }
    float lanes[2 * kLanes];
    std::memcpy(lanes, best, sizeof lanes);
    for (float v : lanes) top = v > top ? v : top;
  }
  for (; i < n; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] float row_sum(const float* x, std::int64_t n) {
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void row_scale(float* x, std::int64_t n, float factor, float offset) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = (x[i] - offset) * factor;
}

}  // namespace

void softmax_row(float* x, std::int64_t n, bool zero_hidden) {
  constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
  const float top = SATURATE_X86_HAS("avx512f") ? row_max_avx512(x, n) : row_max(x, n);
  if (zero_hidden && top == kMinusInf && std::all_of(x, x + n, [](float v) { return v == kMinusInf; }))
    return std::fill_n(x, n, 0.0f), void();
  if (SATURATE_X86_HAS("avx512f")) return exp_row_avx512(x, n, top);
  row_scale(x, n, 1.0f, top);
  exp_floats(x, x, n);
  row_scale(x, n, 1.0f / row_sum(x, n), 0.0f);
}

}  // namespace saturate
