// Whether a selection of e-nodes is a graph.
#pragma once

#include <string>
#include <vector>

#include "onnx_bridge/convert/emit/emit.h"

namespace saturate {

// Proof: every selected e-node's children are selected, no cycle, roots covered. Empty string, or what is wrong.
std::string check_selection(const EGraph& egraph, const std::vector<Id>& roots, const Selection& selection);

}  // namespace saturate
