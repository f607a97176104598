#include "extract/fit/gaussian.h"

namespace saturate {
namespace {

// Four sums at once: one alone waits for each addition.
double dot(const double* a, const double* b, std::size_t n) {
  double sums[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (std::size_t j = 0; j < 4; ++j) sums[j] += a[i + j] * b[i + j];
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

}  // namespace

void cholesky_solve(std::vector<double>& k, std::vector<double>& y) {
  const std::size_t n = y.size();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      const double sum = k[i * n + j] - dot(&k[i * n], &k[j * n], j);
      k[i * n + j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / k[j * n + j];
    }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t m = 0; m < i; ++m) y[i] -= k[i * n + m] * y[m];
    y[i] /= k[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t m = i + 1; m < n; ++m) y[i] -= k[m * n + i] * y[m];
    y[i] /= k[i * n + i];
  }
}

}  // namespace saturate
