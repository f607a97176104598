// Times of another machine or thread count: a table that was measured elsewhere, fitted to this one by few rows.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/price/op_times.h"
#include "extract/sizes/op_features.h"

namespace saturate {

// The logarithm of a time is that of the other table plus a Gaussian process that is conditioned on what the rows differ by from it
// (extract/fit/measured.h has the same). It is the sum of what all operators of one length have in common, as the overhead of a call
// is; of what one operator has in common; and of what a family at one size has. So an operator without rows follows the others of its
// length, and one with rows those. Far from all of them the other table counts as it is, but for what all have in common.
class CalibratedTimes : public OpTimes {
 public:
  CalibratedTimes(std::shared_ptr<const OpTimes> base, const TimedRows& rows, MeasuredOn on);
  double launch() const override;
  double seconds(const OpUse& use) const override;
  std::optional<MeasuredOn> measured_on() const override { return on_; }

 private:
  struct Row {
    std::string op;  // comparable_op()
    OpFeatures features;
    double length = 0;  // doublings of seconds
    double pull = 0;
  };
  static double covariance(const Row& a, const Row& b);
  Row row_of(const OpUse& use, double seconds) const;

  std::shared_ptr<const OpTimes> base_;
  std::vector<Row> rows_;
  double usual_ = 0;  // the median of what the logarithms differ by
  MeasuredOn on_;
};

// What is timed to fit a table, the rows that tell most first: lines of bench/runtime/calibration_rows.py.
std::string_view calibration_cases();

// The first line of a file of rows that are to be fitted so says by "fitted" to which table: the name of a built-in one.
absl::StatusOr<std::shared_ptr<const OpTimes>> load_calibrated(const std::string& text, const std::string& place);

}  // namespace saturate
