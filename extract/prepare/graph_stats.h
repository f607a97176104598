// How many operators and weights a model has.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "onnx_bridge/model/model.h"

namespace saturate {

struct GraphStats {
  std::map<std::string, std::size_t>
      operators;                     // "Add", "com.microsoft.Attention": graph, subgraphs, and local functions times their calls
  std::size_t nodes = 0;             // without Constant
  std::size_t unit_quick_gelus = 0;  // com.microsoft.QuickGelu with alpha 1, which is SiLU
  std::size_t constants = 0, initializers = 0;
  std::uint64_t parameters = 0, parameter_bytes = 0;
  std::int64_t opset = 0, ir_version = 0;
  std::size_t count(const std::string& op_type) const {
    const auto it = operators.find(op_type);
    return it == operators.end() ? 0 : it->second;
  }
};
GraphStats graph_stats(const Model& model);

}  // namespace saturate
