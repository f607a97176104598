// Operators, attributes and constants as text: the same text for what is the same, whatever its values are named.
#pragma once

#include <string>

#include "onnx_bridge/convert/onnx_egraph.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// Type, dims and content.
std::string tensor_text(const Tensor& tensor);
// Exact, with bodies: the values of a body are numbered.
std::string exact_text(const Attribute& attribute);
std::string attributes_text(std::vector<Attribute> attributes);
// Of an e-node's operator, without the number of its outputs.
std::string operator_text(const OpKey& key);
std::string body_text(const Graph& graph);
std::string function_text(const Function& function);
// As people read them; tensors and bodies are left out.
std::string short_attributes(const Node& node);

}  // namespace saturate
