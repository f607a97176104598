// Which nodes of a quantized model are to stay as they are.
#pragma once

#include <unordered_set>

#include "onnx_bridge/model/model.h"

namespace saturate {

// Runtimes replace an operator together with the DequantizeLinear before and the QuantizeLinear behind it by one integer kernel (ONNX
// Runtime: "QDQ node units"), several times as fast. Such an operator must keep its neighbours, and the weights their integers. In a
// graph that quantizes anything these are: every DequantizeLinear but those whose values are only quantized again; matrix products and
// convolutions of two dequantized values, views between allowed; and other operators that read dequantized values alone and are read by
// QuantizeLinear alone. Empty for other graphs.
std::unordered_set<const Node*> quantized_nodes(const Graph& graph);

}  // namespace saturate
