// Nodes whose meaning runtimes do not agree on.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "onnx_bridge/convert/onnx_egraph.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// What the node does that ONNX Runtime and the standard read differently, or its releases do: nothing is computed ahead of such a node, and
// no rule sees it, so that each runtime keeps its own reading. `inputs`: the classes of its inputs; `opset`: of ai.onnx.
std::optional<std::string_view> disputed(const OnnxEGraph& g, const Node& node, std::span<const Id> inputs, std::int64_t opset);

}  // namespace saturate
