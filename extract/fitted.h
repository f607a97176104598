// A fitted cost model: the time of an operator as a sum of sizes, with weights by kind of operator found by least squares.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/op_sizes.h"

namespace saturate {

// seconds = w . (1, flops, bytes, bytes beyond the cache, rows), w >= 0.
class FittedTimes {
 public:
  static constexpr std::size_t kFeatures = 5;
  using Weights = std::array<double, kFeatures>;

  // Least squares of the relative error, weights not negative (coordinate descent; the problem is convex). Kinds with less than three rows
  // get the roofline's times, scaled.
  static FittedTimes fit(const std::vector<TimedUse>& rows, std::string machine);
  // As to_json() writes it. `place` names it in errors.
  static absl::StatusOr<FittedTimes> parse(const std::string& text, const std::string& place);
  std::string to_json() const;

  double seconds(const OpUse& use) const;
  const Roofline& roofline() const { return roofline_; }

 private:
  std::map<std::string, Weights> weights_;
  Roofline roofline_;
  double usual_ratio_ = 1;
  std::string machine_;  // JSON
};

}  // namespace saturate
