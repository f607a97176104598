// The exporters' guard against rows of attention that a mask hides as a whole: Where(IsNaN(p), 0, p) around p = Softmax(x).
#pragma once

#include <functional>
#include <string>

#include "onnx_bridge/onnx_egraph.h"

namespace saturate {

// Whether rules (that assume such rows away) have made the guard and its Softmax one class, of which `id` is the class, or a Cast of it.
// The guard stands in its own class then, so that it cannot be chosen.
bool lost_nan_guard(const OnnxEGraph& g, Id id);

// Writes the guard behind the last node of the graph, a Softmax that no operator took in: NaN of a hidden row would reach every row of
// the next layer. `fresh_name` gives unused names.
void guard_last_node(Graph& graph, DType dtype, const std::function<std::string(const std::string&)>& fresh_name);

}  // namespace saturate
