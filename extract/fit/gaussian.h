// Gaussian processes over operators: how alike the errors of two are, and what rows say of others.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "extract/sizes/op_features.h"

namespace saturate {

inline constexpr double kReach = 4;         // doublings over which errors of the fit are alike
inline constexpr double kKindDistance = 2;  // what another kernel counts, in doublings

// OpFeatures without the family.
struct FeatureRow {
  FeatureRow(std::span<const float> of_logs, std::span<const int> of_kinds) : logs(of_logs), kinds(of_kinds) {}
  explicit FeatureRow(const OpFeatures& f) : FeatureRow(f.logs, f.kinds) {}
  std::span<const float> logs;
  std::span<const int> kinds;
};

// Correlation of two rows' errors: exponential (Matern 1/2), which follows the steps that kernels take.
inline double correlation(const FeatureRow& a, const FeatureRow& b) {
  double square = 0;
  const float *x = a.logs.data(), *y = b.logs.data();
  for (const float* const end = x + std::min(a.logs.size(), b.logs.size()); x != end; ++x, ++y) square += (*x - *y) * (*x - *y);
  const int *k = a.kinds.data(), *l = b.kinds.data();
  for (const int* const end = k + std::min(a.kinds.size(), b.kinds.size()); k != end; ++k, ++l)
    if (*k != *l) square += kKindDistance * kKindDistance;
  return std::exp(-std::sqrt(square) / kReach);
}

// Solves K x = y in place for a positive definite K (its lower half, by rows).
void cholesky_solve(std::vector<double>& k, std::vector<double>& y);

}  // namespace saturate
