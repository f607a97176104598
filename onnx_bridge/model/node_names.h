// Names of nodes as ONNX Runtime wants them: no two nodes of a graph share one. The standard asks for nothing, and its checker looks away.
#pragma once

#include "onnx_bridge/model/model.h"

namespace saturate {

// The first node of a name keeps it; of further ones, in bodies too, a number behind it makes a new one. No name stays no name.
void make_node_names_unique(Graph& graph);

}  // namespace saturate
