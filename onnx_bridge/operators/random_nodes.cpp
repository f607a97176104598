#include "onnx_bridge/operators/random_nodes.h"

#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {

std::optional<std::size_t> training_place(const Node& node) {
  const auto versions = schema_versions(node.domain, node.op_type);
  if (versions.empty()) return std::nullopt;
  const auto& inputs = versions.back()->inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].name == "training_mode") return i;
  return std::nullopt;
}

std::optional<std::size_t> training_input(const Node& node) {
  const auto place = training_place(node);
  return place && *place < node.inputs.size() && !node.inputs[*place].empty() ? place : std::nullopt;
}

bool may_draw(const Node& node) { return has(Trait::kRandom, node) && (!training_place(node) || training_input(node)); }

}  // namespace saturate
