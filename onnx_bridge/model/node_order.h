// Nodes behind those that make what they read.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "onnx_bridge/model/model.h"

namespace saturate {

// Names that a node needs: its inputs, and what its bodies take from around them.
std::vector<std::string> names_read(const Node& node);

// Sorts nodes, and leaves them alone where they are in order. Where they form a cycle nothing is moved, and its nodes are returned.
std::vector<std::size_t> sort_nodes(std::vector<Node>& nodes);

}  // namespace saturate
