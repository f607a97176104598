#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math", "associative-math", "no-signed-zeros")
#include "kernels/gemm/gemm.h"

namespace saturate {

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] float dot_floats(const float* x, const float* y, std::int64_t n) {
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

}  // namespace saturate
