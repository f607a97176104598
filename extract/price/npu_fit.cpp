#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "extract/price/npu_times.h"

namespace saturate {
namespace {

constexpr int kTurns = 60;  // of prices and factors, each fitted with the other held
constexpr double kSettled = 1e-7;

// The figures with one size of memory: what each graph takes of each feature.
class FitOfSize {
 public:
  FitOfSize(const std::vector<NpuFigure>& figures, NpuTimes start) : figures_(figures), times_(std::move(start)) {
    for (const NpuFigure& f : figures) {
      times_.precision = f.precision;
      TimeWeights sum{};
      for (const OpUse& use : f.operators) {
        const TimeWeights one = times_.features(use);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
      }
      takes_.push_back(sum);
    }
  }

  // Prices, and the factors of machines and of precisions, in turns.
  void run() {
    for (int turn = 0; turn < kTurns; ++turn) {
      const TimeWeights before = times_.prices;
      std::vector<TimeWeights> rows;
      for (std::size_t i = 0; i < takes_.size(); ++i) {
        rows.push_back(takes_[i]);
        for (double& v : rows.back()) v *= factor(i) / figures_[i].cost;
      }
      times_.prices = non_negative_least_squares(rows);
      for (auto& [name, factor] : times_.machines) factor *= off([&wanted = name](const NpuFigure& f) { return f.machine == wanted; });
      for (auto& [name, p] : times_.precisions) p.factor *= off([&wanted = name](const NpuFigure& f) { return f.precision == wanted; });
      double change = 0;
      for (std::size_t i = 0; i < before.size(); ++i)
        change = std::max(change, std::abs(times_.prices[i] - before[i]) / std::max(before[i], 1e-300));
      if (change < kSettled) break;
    }
  }

  // The sum of the squares of the logarithms of predicted to measured.
  double error() const {
    double sum = 0;
    for (std::size_t i = 0; i < takes_.size(); ++i) sum += std::pow(std::log(predicted(i) / figures_[i].cost), 2);
    return sum;
  }

  const NpuTimes& times() const { return times_; }

 private:
  double factor(std::size_t i) const {
    return times_.machines.at(figures_[i].machine) * times_.precisions.at(figures_[i].precision).factor;
  }
  double predicted(std::size_t i) const {
    return std::max(factor(i) * std::inner_product(takes_[i].begin(), takes_[i].end(), times_.prices.begin(), 0.0), 1e-300);
  }

  // The geometric mean of measured to predicted over some figures.
  template <typename Of>
  double off(const Of& of) const {
    double sum = 0, count = 0;
    for (std::size_t i = 0; i < figures_.size(); ++i)
      if (of(figures_[i])) sum += std::log(figures_[i].cost / predicted(i)), ++count;
    return count > 0 ? std::exp(sum / count) : 1;
  }

  const std::vector<NpuFigure>& figures_;
  NpuTimes times_;
  std::vector<TimeWeights> takes_;
};

// Sizes of memory that tell some operators of the figures from others: what each of them moves, and none.
std::set<double> sizes_to_try(const std::vector<NpuFigure>& figures, NpuTimes times) {
  std::set<double> out{0};
  for (const NpuFigure& f : figures) {
    times.precision = f.precision;
    for (const OpUse& use : f.operators) out.insert(times.features(use)[static_cast<std::size_t>(NpuFeature::kByte)]);
  }
  return out;
}

}  // namespace

absl::StatusOr<NpuTimes> fit_npu(const std::vector<NpuFigure>& figures) {
  if (figures.empty()) return absl::InvalidArgumentError("no figures to fit");
  NpuTimes start;
  for (const NpuFigure& f : figures) {
    if (!(f.cost > 0) || f.operators.empty()) return absl::InvalidArgumentError("a figure has no cost above 0, or no operators");
    start.machines[f.machine] = 1;
    start.precisions[f.precision] = {1, f.activation_bytes, f.weight_bytes};
  }
  std::optional<FitOfSize> best;
  for (const double bytes : sizes_to_try(figures, start)) {
    start.on_chip_bytes = bytes;
    FitOfSize fit(figures, start);
    fit.run();
    if (!best || fit.error() < best->error()) best.emplace(fit);
  }
  NpuTimes out = best->times();
  const double first = out.machines.begin()->second, as_stored = out.precisions.begin()->second.factor;  // these two are 1
  for (double& price : out.prices) price *= first * as_stored;
  for (auto& [name, factor] : out.machines) factor /= first;
  for (auto& [name, p] : out.precisions) p.factor /= as_stored;
  out.machine = figures.back().machine;
  out.precision = figures.back().precision;
  return out;
}

}  // namespace saturate
