// Small changes of a graph that passes share.
#pragma once

#include <string>
#include <vector>

#include "onnx_bridge/graph/graph_view.h"
#include "onnx_bridge/graph/questions.h"
#include "tools/transform/pass.h"

namespace saturate {

// New initializers; their names.
std::string add_ints(Work& work, const std::string& like, const std::vector<std::int64_t>& values);
std::string add_constant(Work& work, const std::string& like, Tensor tensor);
// Nodes and initializers that nothing needs any more, and what is written of their values. Inputs stay.
void drop_unread_nodes(Work& work);

}  // namespace saturate
