#include "tools/measure/ratio.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace saturate {
namespace {

double middle(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

}  // namespace

double median_of(std::span<const double> values) {
  std::vector<double> known;
  std::copy_if(values.begin(), values.end(), std::back_inserter(known), [](double v) { return !std::isnan(v); });
  std::sort(known.begin(), known.end());
  return known.empty() ? 0 : middle(known);
}

MeasuredRatio ratio_of(std::span<const double> a, std::span<const double> b) {
  constexpr double kDeviations = 1.96;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (!std::isnan(a[i]) && !std::isnan(b[i])) ratios.push_back(b[i] > 0 ? a[i] / b[i] : 1);
  std::sort(ratios.begin(), ratios.end());
  MeasuredRatio out{ratios.empty() ? 1 : middle(ratios), 0, std::numeric_limits<double>::infinity()};
  if (ratios.size() < kFewestRounds) return out;
  const auto n = static_cast<double>(ratios.size());
  const auto outside = static_cast<std::size_t>(std::max(0.0, std::floor((n - kDeviations * std::sqrt(n)) / 2)));
  out.low = ratios[outside];
  out.high = ratios[ratios.size() - 1 - outside];
  return out;
}

}  // namespace saturate
