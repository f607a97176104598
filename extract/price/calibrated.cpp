#include "extract/price/calibrated.h"

#include <algorithm>
#include <cmath>

#include "egraph/text/read_json.h"
#include "extract/costs/calibration.h"
#include "extract/fit/gaussian.h"
#include "extract/fit/time_fit.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace saturate {
namespace {

// Variances of logarithms, and the doublings of length over which what is common is alike.
constexpr double kOfAll = 0.03, kOfOperator = 0.06, kOfFamily = 0.12, kOfRow = 0.004;
constexpr double kLength = 12;

double doublings(double seconds) { return std::log2(std::max(seconds, kLeastSeconds)); }

}  // namespace

CalibratedTimes::Row CalibratedTimes::row_of(const OpUse& use, double seconds) const {
  return {comparable_op(use.op), features_of(use), doublings(seconds), 0};
}

double CalibratedTimes::covariance(const Row& a, const Row& b) {
  const double apart = std::abs(a.length - b.length);
  const double alike = std::exp(-apart / kLength);
  double out = kOfAll * alike;
  if (a.op != b.op) return out;
  out += kOfOperator * alike;
  if (a.features.family == b.features.family) out += kOfFamily * correlation(FeatureRow(a.features), FeatureRow(b.features));
  return out;
}

CalibratedTimes::CalibratedTimes(std::shared_ptr<const OpTimes> base, const TimedRows& timed, MeasuredOn on)
    : base_(std::move(base)), on_(std::move(on)) {
  std::vector<double> differ;
  for (const TimedUse& row : timed.rows) {
    const double there = base_->seconds(row.use);
    rows_.push_back(row_of(row.use, there));
    differ.push_back(std::log(std::max(row.seconds, kLeastSeconds) / std::max(there, kLeastSeconds)));
  }
  usual_ = median(differ, 0);
  const std::size_t n = rows_.size();
  std::vector<double> k(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    differ[i] -= usual_;
    for (std::size_t j = 0; j < i; ++j) k[i * n + j] = covariance(rows_[i], rows_[j]);
    k[i * n + i] = covariance(rows_[i], rows_[i]) + kOfRow;
  }
  cholesky_solve(k, differ);
  for (std::size_t i = 0; i < n; ++i) rows_[i].pull = differ[i];
}

double CalibratedTimes::launch() const { return base_->launch() * std::exp(usual_); }

double CalibratedTimes::seconds(const OpUse& use) const {
  const double there = base_->seconds(use);
  const Row at = row_of(use, there);
  double differs = usual_;
  for (const Row& row : rows_) differs += row.pull * covariance(at, row);
  return there * std::exp(differs);
}

std::string_view calibration_cases() { return kCalibration; }

absl::StatusOr<std::shared_ptr<const OpTimes>> load_calibrated(const std::string& text, const std::string& place) {
  auto rows = read_timed_rows(text, place);
  if (!rows.ok()) return rows.status();
  auto on = measured_on(read_json(rows->machine).value_or(nlohmann::json()));
  const auto built_in = measured_tables();
  if (!on || std::find(built_in.begin(), built_in.end(), on->fitted) == built_in.end())
    return absl::InvalidArgumentError(
        fmt::format("{}: it was fitted to a table that is not known here: {}; let `saturate cost calibrate` write it anew", place,
                    on ? on->fitted : ""));
  auto base = load_op_times(on->fitted);
  if (!base.ok()) return base.status();
  return std::make_shared<CalibratedTimes>(*std::move(base), *rows, *std::move(on));
}

}  // namespace saturate
