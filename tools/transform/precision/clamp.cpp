#include "tools/transform/precision/clamp.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "onnx_bridge/graph/floats.h"
#include "onnx_bridge/graph/names.h"
#include "onnx_bridge/operators/op_traits.h"
#include "tools/transform/edit.h"

namespace saturate {
namespace {

// Whether the node makes a value whose numbers are no larger than those of its first input, which are clamped.
bool keeps_within(const Node& node, const std::string& value, const ToClamp& known) {
  if (node.outputs.empty() || node.inputs.empty() || node.outputs[0] != value) return false;
  return (has(Trait::kMovement, node) || has(Trait::kKeepsMagnitude, node)) &&
         (known.values.contains(node.inputs[0]) || known.within.contains(node.inputs[0]));
}

}  // namespace

ToClamp values_to_clamp(const Model& model, const std::map<std::string, ValueType>& types, PrecisionOptions options, HalfWeights& weights) {
  const std::set<std::string> large = std::exchange(options.large, {});
  options.any_size = true;
  const Precision made = with_precision(model, types, options, weights);
  const std::unordered_set<std::string> converted(made.converted.begin(), made.converted.end()), compared = compared_values(model.graph);
  ToClamp out;
  const auto is_beyond = [&](const std::string& value) {
    if (large.contains(value)) return !(options.interface && find_named(model.graph.inputs, value));
    const Tensor* constant = compared.contains(value) ? nullptr : constant_tensor(model.graph, value);
    if (!constant || constant->dtype() != DType::kFloat) return false;
    const HalfWeights::Reach reach = weights.reach_of(*constant);
    return std::max(reach.above, reach.below) > largest_number(options.to);
  };
  for (const Node& node : model.graph.nodes) {
    if (converted.contains(label(node)))
      for (const auto* list : {&node.inputs, &node.outputs})
        for (const std::string& value : *list)
          if (is_beyond(value) && !out.within.contains(value) && !keeps_within(node, value, out)) out.values.insert(value);
    for (const std::string& made : node.outputs)
      if (keeps_within(node, made, out)) out.within.insert(made);
  }
  return out;
}

}  // namespace saturate
