// Calls of a model's local functions: a body with a call's attributes, and what is known of a call that stays one.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "onnx_bridge/convert/lower.h"

namespace saturate {

// The node of a function's body with the call's attributes, also in its subgraphs.
Node bind_attributes(const Node& node, const Node& call, const Function& function);

// What is known of a call's outputs, found in an e-graph of the body alone; empty where the body cannot be lowered. `inputs`: its classes
// in `g`. `kept`: as in LowerOptions.
std::vector<Facts> facts_of_call(const Model& model, const Function& function, const Node& call, const OnnxEGraph& g,
                                 std::span<const Id> inputs, const std::set<OperatorName>& kept);

}  // namespace saturate
