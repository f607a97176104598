// Cost models that know how long an operator of given sizes takes: roofline, measured, fitted.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/price/cost.h"
#include "extract/price/measured_on.h"
#include "extract/sizes/op_sizes.h"

namespace saturate {

class OpTimes {
 public:
  virtual ~OpTimes() = default;
  virtual double seconds(const OpUse& use) const = 0;
  virtual bool in_seconds() const { return true; }
  virtual double relative_error() const;  // as CostModel::relative_error()
  virtual double launch() const = 0;      // of an operator that does nothing
  virtual double dispatch() const;        // what an operator costs beside its kernel
  virtual std::optional<MeasuredOn> measured_on() const { return std::nullopt; }
  virtual bool of_blocks() const { return false; }  // of a runtime that runs images in blocks of channels (blocks.h)
};

// "roofline" and "measured" with the constants of ort-cpu, a .jsonl file of measured times, a .json file of a roofline or a fit. Null where
// `name_or_path` is another kind of cost model.
absl::StatusOr<std::shared_ptr<const OpTimes>> load_op_times(const std::string& name_or_path);

// The built-in cost models that are measured times, the default first.
std::vector<std::string> measured_tables();
// The first of them that was measured on a machine that runs the same kernels; "" where there is none.
std::string fitting_table(const Machine& machine);

// Costs in seconds. Symbolic dims have the sizes of `options`.
std::unique_ptr<CostModel> make_times_cost(std::string name, std::shared_ptr<const OpTimes> times, CostOptions options);

}  // namespace saturate
