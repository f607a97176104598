// What operators cost on an accelerator with memory of its own: a price for each launch, each multiply-add, each byte of data, each byte
// of weights that it reads, and each byte of data beyond what fits into its memory. Nothing in it names an operator but `launch_of`.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/fit/time_fit.h"
#include "extract/price/op_times.h"

namespace saturate {

enum class NpuFeature : std::uint8_t { kLaunch, kMac, kByte, kWeightByte, kSpilledByte };
inline constexpr std::array<const char*, kTimeFeatures> kNpuFeatureNames{"launch", "mac", "byte", "weight_byte", "spilled_byte"};

// How numbers are stored; 0 bytes: as the model says.
struct NpuPrecision {
  double factor = 1;
  double activation_bytes = 0, weight_bytes = 0;
};

class NpuTimes : public OpTimes {
 public:
  // As to_json() writes it. `place` names it in errors.
  static absl::StatusOr<NpuTimes> parse(const std::string& text, const std::string& place);
  std::string to_json() const;

  double seconds(const OpUse& use) const override;  // in the unit of the figures: seconds, cycles
  bool in_seconds() const override { return false; }
  double launch() const override { return factor() * prices[0]; }
  double dispatch() const override { return 0; }
  // What of each an operator takes.
  TimeWeights features(const OpUse& use) const;
  double factor() const;

  TimeWeights prices{};                     // of a launch, a multiply-add, ...
  std::map<std::string, double> launch_of;  // operators whose launch costs other than one launch: how many
  double on_chip_bytes = 0;                 // data of one operator that its memory holds
  std::map<std::string, double> machines;   // how much slower each is
  std::map<std::string, NpuPrecision> precisions;
  std::string machine, precision;  // of which it tells; "": none of them, a factor of 1
};

// What a whole graph took on a machine, its numbers stored in some precision.
struct NpuFigure {
  std::string machine, precision;
  double activation_bytes = 0, weight_bytes = 0;
  std::vector<OpUse> operators;
  double cost = 0;
};

// Least squares of the relative error over all figures: one set of prices, a factor for each machine and each precision, and the size of
// memory that explains them best.
absl::StatusOr<NpuTimes> fit_npu(const std::vector<NpuFigure>& figures);

}  // namespace saturate
