#include "kernels/compare/known_operators.h"

#include <string>

#include "fmt/format.h"
#include "onnx_bridge/model/function_index.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {
namespace {

// The first node with an operator of ai.onnx that no version of the standard has; null where there is none.
const Node* unknown_operator(const FunctionIndex& functions, const Graph& graph) {
  for (const Node& node : graph.nodes) {
    const bool standard = node.domain.empty() || node.domain == "ai.onnx";
    if (standard && !functions.called(node) && schema_versions("", node.op_type).empty()) return &node;
    const Node* inside = nullptr;
    for_each_body(node, [&](const Graph& body) { inside = inside ? inside : unknown_operator(functions, body); });
    if (inside) return inside;
  }
  return nullptr;
}

}  // namespace

absl::Status check_operators(const Model& model) {
  if (model.opset("") > kNewestOpset) return absl::OkStatus();
  const Node* node = unknown_operator(FunctionIndex(model.functions), model.graph);
  if (!node) return absl::OkStatus();
  const std::string near = nearest(node->op_type, operator_names(""));
  return absl::InvalidArgumentError(
      fmt::format("node '{}' ({}): ONNX has no operator of this name; {}", node->name, node->op_type,
                  near.empty() ? "an operator of your own has a domain" : fmt::format("did you mean {}?", near)));
}

}  // namespace saturate
