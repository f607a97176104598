// Which nodes of a quantized model are to stay as they are.
#pragma once

#include <unordered_set>

#include "onnx_bridge/model/model.h"

namespace saturate {

// ONNX Runtime fuses DequantizeLinear, an operator and QuantizeLinear into one integer kernel ("QDQ node units"), several times as fast.
// Such groups must stay intact, and the weights must keep their integers. In a graph that quantizes anything they are: every
// DequantizeLinear but those whose values are only quantized again; matrix products and convolutions of two dequantized values, views
// between allowed; and other operators that read dequantized values alone and are read by QuantizeLinear alone. Empty for other graphs.
std::unordered_set<const Node*> quantized_nodes(const Graph& graph);

}  // namespace saturate
