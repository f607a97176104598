// Nodes of functions in another opset, of which nobody knows what their inputs are.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// The node, of opset `from` of ai.onnx, as nodes of opset `to`; attributes may refer to those of a function. kFailedPrecondition: that
// opset lacks the operator, or has it in a form that hangs on what is not known.
absl::StatusOr<std::vector<Node>> node_in_opset(const Node& node, std::int64_t from, std::int64_t to);
// The same of all nodes and of their bodies.
absl::StatusOr<std::vector<Node>> nodes_in_opset(const std::vector<Node>& nodes, std::int64_t from, std::int64_t to);
// Whether both opsets have one version of each operator of ai.onnx in nodes and bodies, so that onnx.checker takes them for either.
bool same_in_opset(const std::vector<Node>& nodes, std::int64_t from, std::int64_t to);

}  // namespace saturate
