// Measured times: rows of operator, shapes and seconds, interpolated between the nearest ones of the same operator.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/op_sizes.h"

namespace saturate {

class MeasuredTable {
 public:
  // Rows as JSON lines: the first object describes the machine; others as bench/gather_ort.py writes them. `place` names them in errors.
  static absl::StatusOr<MeasuredTable> parse(const std::string& text, const std::string& place);

  // Seconds of an operator. One that was never measured gets the roofline's, `estimated` says so.
  double seconds(const OpUse& use, bool* estimated = nullptr) const;
  const Roofline& roofline() const { return roofline_; }
  const std::string& machine() const { return machine_; }
  std::size_t num_rows() const { return num_rows_; }

 private:
  struct Point {
    double log_flops, log_bytes, log_last, log_ratio;  // ratio: measured to roofline
    std::size_t arity;
  };
  Roofline roofline_;
  std::map<std::string, std::vector<Point>> points_;
  std::string machine_;
  std::size_t num_rows_ = 0;
  double usual_ratio_ = 1;  // the median of measured to roofline: for operators that were never measured
};

}  // namespace saturate
