#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math", "associative-math", "no-signed-zeros")
#include "kernels/reduce/reduce.h"

namespace saturate {

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] double sum_floats(const float* x, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  return sum;
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] double sum_squares_floats(const float* x, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] double sum_squared_deviations_floats(const float* x, std::int64_t n,
                                                                                                           float center) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(x[i] - center);
    sum += d * d;
  }
  return sum;
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void normalize_floats(const float* x, std::int64_t n, float center,
                                                                                            float factor, ScaleAndBias<float> by,
                                                                                            float* y) {
  const auto [scale, bias] = by;
  if (scale != nullptr && bias != nullptr) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - center) * factor * scale[i] + bias[i];
  } else if (scale != nullptr) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - center) * factor * scale[i];
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - center) * factor + (bias == nullptr ? 0.0f : bias[i]);
  }
}

}  // namespace saturate
