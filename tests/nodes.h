// Nodes for tests that build graphs by hand.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "onnx_bridge/model/model.h"

namespace saturate {

inline Node node(std::string op, std::vector<std::string> inputs, std::vector<std::string> outputs) {
  Node n;
  n.op_type = std::move(op);
  n.inputs = std::move(inputs);
  n.outputs = std::move(outputs);
  return n;
}

}  // namespace saturate
