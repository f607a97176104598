// What each node of a model is predicted to cost.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/price/cost.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

struct NodeCost {
  std::string op_type, output;  // op_type with its domain; the first output
  double cost = 0;              // in the cost model's unit; 0 of constants and of what vanishes
};

// Of the main graph, in its order. A target's runtime may fuse nodes at load, and constants are computed beforehand: the sum need not be
// what is predicted for the graph. `sizes`: of symbols without a size.
absl::StatusOr<std::vector<NodeCost>> node_costs(const Model& model, const CostModel& cost,
                                                 const std::map<std::string, std::int64_t>& sizes);

}  // namespace saturate
