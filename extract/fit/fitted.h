// A fitted cost model: the time of an operator as a sum of sizes, with weights by kind of operator found by least squares.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/fit/time_fit.h"

namespace saturate {

// seconds = w . (1, flops, bytes, bytes beyond the cache, rows), w >= 0.
class FittedTimes {
 public:
  // Least squares of the relative error (extract/fit/time_fit.h). Kinds with less than three rows
  // get the roofline's times, scaled.
  static FittedTimes fit(const std::vector<TimedUse>& rows, std::string machine);
  // As to_json() writes it. `place` names it in errors.
  static absl::StatusOr<FittedTimes> parse(const std::string& text, const std::string& place);
  std::string to_json() const;

  double seconds(const OpUse& use) const;
  const Roofline& roofline() const { return roofline_; }
  const std::string& machine() const { return machine_; }

 private:
  std::map<std::string, TimeWeights> weights_;
  Roofline roofline_;
  double usual_ratio_ = 1;
  std::string machine_;  // JSON
};

}  // namespace saturate
