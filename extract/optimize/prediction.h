// What a model is predicted to cost, the same for every verb and in the same words.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/onnx_problem.h"
#include "extract/prepare/assumed_sizes.h"
#include "extract/price/cost.h"
#include "extract/target/target.h"
#include "onnx_bridge/model/model.h"
#include "rules/compile/rule_set.h"

namespace saturate {

struct OptimizeReport;

// Of two models: what runs after load, in the main graph, and in each body once.
struct Prediction {
  double before = 0, after = 0;
  std::optional<std::pair<double, double>> ratio;  // of after / before with 90 % confidence; absent where costs are no times
  std::string cost_model, unit, target;            // CostModel::unit()
  AssumedSizes assumed;
  std::vector<CostPoint> given;  // sizes of the user
  bool original_runs = true;     // where the target has kernels for the model as it came; else its time is that of nothing
};
Prediction prediction_of(const OptimizeReport& report);

// What runs once the target's runtime has loaded a model as it is. `assumed`: of symbols that the cost model was given no size for.
absl::StatusOr<AtLoad> predicted_price(const Model& model, const RuleSet& rules, const Target& target, const CostModel& cost,
                                       const AssumedSizes& assumed);

std::string cost_text(double cost, std::string_view unit);                                           // "374 us"
std::pair<std::string, std::string> cost_texts(double before, double after, std::string_view unit);  // with one unit
// "680 -> 374 us predicted (-38 to -52 %; ort-cpu; sizes assumed: batch=1, seq=128 (tokens), --cost-at sets them)".
// `space`: within what belongs together in a line.
std::string predicted_text(const Prediction& prediction, std::string_view space = " ");
// "680 -> 374 us predicted (-38 to -52 %)".
std::string brief_prediction(const Prediction& prediction);
// "sizes assumed: batch=1, seq=128 (tokens), --cost-at sets them"; "" where all are numbers.
std::string sizes_text(const AssumedSizes& assumed, const std::vector<CostPoint>& given);

}  // namespace saturate
