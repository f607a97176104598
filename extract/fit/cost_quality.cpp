#include "extract/fit/cost_quality.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace saturate {
namespace {

// Whether what was measured differs by more than its noise.
bool told_apart(const Compared& a, const Compared& b) {
  const double x = a.noise * a.measured, y = b.noise * b.measured, noise = std::sqrt(x * x + y * y);
  return noise == 0 || std::abs(a.measured - b.measured) > noise;
}

}  // namespace

std::vector<ErrorSummary> errors_by_key(std::span<const Compared> rows) {
  std::map<std::string, ErrorSummary> by_key;
  ErrorSummary all;
  const auto add = [](ErrorSummary& s, double error) {
    ++s.count;
    s.mape += error;
    s.within_tenth += error <= 0.1 ? 1 : 0;
  };
  for (const Compared& r : rows) {
    if (!(r.measured > 0)) continue;
    const double error = std::abs(r.predicted - r.measured) / r.measured;
    by_key[r.key].key = r.key;
    add(by_key[r.key], error);
    add(all, error);
  }
  std::vector<ErrorSummary> out;
  for (auto& [key, s] : by_key) out.push_back(s);
  out.push_back(all);
  for (ErrorSummary& s : out)
    if (s.count > 0) s.mape /= static_cast<double>(s.count), s.within_tenth /= static_cast<double>(s.count);
  return out;
}

double kendall_tau(std::span<const Compared> rows) {
  double concordant = 0, ties_predicted = 0, ties_measured = 0, pairs = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = i + 1; j < rows.size(); ++j) {
      const double a = rows[i].predicted - rows[j].predicted;
      const double b = rows[i].measured - rows[j].measured;
      if (!told_apart(rows[i], rows[j])) continue;
      ++pairs;
      ties_predicted += a == 0;
      ties_measured += b == 0;
      if (a != 0 && b != 0) concordant += (a > 0) == (b > 0) ? 1 : -1;
    }
  const double scale = std::sqrt((pairs - ties_predicted) * (pairs - ties_measured));
  return scale > 0 ? concordant / scale : 0;
}

std::size_t pairs_told_apart(std::span<const Compared> rows) {
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = i + 1; j < rows.size(); ++j) pairs += told_apart(rows[i], rows[j]) ? 1 : 0;
  return pairs;
}

double top1_regret(std::span<const Compared> rows) {
  if (rows.empty()) return 0;
  const auto chosen =
      std::min_element(rows.begin(), rows.end(), [](const Compared& a, const Compared& b) { return a.predicted < b.predicted; });
  const auto best =
      std::min_element(rows.begin(), rows.end(), [](const Compared& a, const Compared& b) { return a.measured < b.measured; });
  return best->measured > 0 ? chosen->measured / best->measured - 1 : 0;
}

}  // namespace saturate
