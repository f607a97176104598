// Products and convolutions that a choice computes twice: once as they are and once as part of a fused operator, since both results are
// read. By the prices of single operators that may pay (an activation alone costs more than a small convolution); in the runtime it does
// not.
#pragma once

#include <vector>

#include "onnx_bridge/convert/emit/emit.h"
#include "onnx_bridge/convert/lower.h"

namespace saturate {

// The e-nodes to leave out, so that none is: fused operators that rules made, whose product stands beside them.
std::vector<NodeId> computed_twice(const OnnxEGraph& egraph, const Lowered& lowered, const Selection& selection);

}  // namespace saturate
