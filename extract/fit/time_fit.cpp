#include "extract/fit/time_fit.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace saturate {
namespace {

constexpr int kRounds = 2000;
constexpr double kSettled = 1e-9;  // the largest relative change of a weight in the last round
// Seconds for 1e9 bytes beyond the cache: no memory is slower than 5 GB/s. Without it a single large row takes the blame for the error of
// all others.
constexpr double kSlowestMemory = 0.2;
constexpr std::size_t kBeyondCacheFeature = 3;

// In units that make a weight of 1 a time of about a second.
TimeWeights features(const OpSizes& s, double cache) {
  if (is_view(s.key)) return {1e-6, 0, 0, 0, 0};
  const double rows = s.last > 0 ? s.outputs / s.last : 0;
  return {1e-6, s.flops * 1e-9, s.bytes * 1e-9, std::max(0.0, s.bytes - cache) * 1e-9, rows * 1e-6};
}

}  // namespace

TimeWeights non_negative_least_squares(std::span<const TimeWeights> rows, const TimeWeights* most) {
  constexpr std::size_t n = kTimeFeatures;
  double gram[n][n] = {}, right[n] = {};
  for (const TimeWeights& f : rows)
    for (std::size_t i = 0; i < n; ++i) {
      right[i] += f[i];
      for (std::size_t j = 0; j < n; ++j) gram[i][j] += f[i] * f[j];
    }
  TimeWeights w{};
  for (int round = 0; round < kRounds; ++round) {
    double change = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (gram[i][i] <= 0) continue;
      double r = right[i];
      for (std::size_t j = 0; j < n; ++j)
        if (j != i) r -= gram[i][j] * w[j];
      double next = std::max(0.0, r / gram[i][i]);
      if (most) next = std::min(next, (*most)[i]);
      change = std::max(change, std::abs(next - w[i]) / std::max(next, w[i] + 1e-300));
      w[i] = next;
    }
    if (change < kSettled) break;
  }
  return w;
}

// Rows are divided by their measured times.
TimeWeights fit_time_weights(std::span<const std::pair<OpSizes, double>> rows, double cache_bytes) {
  std::vector<TimeWeights> relative;
  for (const auto& [sizes, seconds] : rows) {
    relative.push_back(features(sizes, cache_bytes));
    for (double& v : relative.back()) v /= std::max(seconds, kLeastSeconds);
  }
  TimeWeights most;
  most.fill(std::numeric_limits<double>::infinity());
  most[kBeyondCacheFeature] = kSlowestMemory;
  return non_negative_least_squares(relative, &most);
}

double weighted_seconds(const TimeWeights& weights, const OpSizes& sizes, double cache_bytes) {
  const TimeWeights f = features(sizes, cache_bytes);
  double sum = 0;
  for (std::size_t i = 0; i < kTimeFeatures; ++i) sum += weights[i] * f[i];
  return std::max(sum, kLeastSeconds);
}

double median(std::vector<double> values, double otherwise) {
  if (values.empty()) return otherwise;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace saturate
