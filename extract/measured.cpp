#include "extract/measured.h"

#include <algorithm>
#include <cmath>

namespace saturate {
namespace {

constexpr std::size_t kNeighbours = 3;
constexpr double kNear = 0.02;        // added to a squared distance in doublings
constexpr double kArityDistance = 2;  // what another number of inputs counts, in doublings

double log2_of(double v) { return std::log2(std::max(v, 1.0)); }

}  // namespace

absl::StatusOr<MeasuredTable> MeasuredTable::parse(const std::string& text, const std::string& place) {
  MeasuredTable table;
  auto timed = read_timed_rows(text, place);
  if (!timed.ok()) return timed.status();
  table.roofline_ = fit_roofline(timed->rows);
  table.num_rows_ = timed->rows.size();
  table.machine_ = std::move(timed->machine);
  for (const auto& [use, seconds] : timed->rows) {
    const OpSizes s = sizes_of(use);
    if (is_view(s.key)) continue;  // timed as copies where the input must stay
    table.points_[s.key].push_back(
        {log2_of(s.flops), log2_of(s.bytes), log2_of(s.last), std::log(std::max(seconds, 1e-9) / table.roofline_.seconds(s)), s.arity});
  }
  std::vector<double> ratios;
  for (const auto& [key, points] : table.points_)
    for (const Point& p : points) ratios.push_back(p.log_ratio);
  if (!ratios.empty()) {
    std::nth_element(ratios.begin(), ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2), ratios.end());
    table.usual_ratio_ = std::exp(ratios[ratios.size() / 2]);
  }
  return table;
}

double MeasuredTable::seconds(const OpUse& use, bool* estimated) const {
  const OpSizes s = sizes_of(use);
  const auto it = find_kind(points_, s.key);
  if (estimated) *estimated = it == points_.end();
  if (it == points_.end()) return roofline_.seconds(s) * (is_view(s.key) ? 1 : usual_ratio_);
  std::vector<std::pair<double, double>> near;  // squared distance, log ratio
  for (const Point& p : it->second) {
    const double a = p.log_flops - log2_of(s.flops), b = p.log_bytes - log2_of(s.bytes), c = p.log_last - log2_of(s.last);
    const double d = p.arity == s.arity ? 0 : kArityDistance;
    near.emplace_back(a * a + b * b + 0.25 * c * c + d * d, p.log_ratio);
  }
  const std::size_t count = std::min(kNeighbours, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end());
  double weights = 0, sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double w = 1 / (near[i].first + kNear);
    weights += w;
    sum += w * near[i].second;
  }
  return roofline_.seconds(s) * std::exp(sum / weights);
}

}  // namespace saturate
