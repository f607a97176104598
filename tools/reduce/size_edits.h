// Edits that make the sizes of a model smaller, as those of model_edits.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "onnx_bridge/model/model.h"

namespace saturate {

// Every size, attribute and integer constant that is a multiple of `from` (only equal to it, where `exactly`) becomes that of `to`; tensors
// are cut. Types of outputs lose their shapes.
Model with_size(const Model& model, std::int64_t from, std::int64_t to, bool exactly);
// Sizes and small integers above 2 that the model holds, largest first.
std::vector<std::int64_t> sizes_in(const Model& model);
// Symbolic dims of the inputs get numbers; dims that still have none lose their shape. "" is all dims without a name.
Model with_symbols(const Model& model, const std::map<std::string, std::int64_t>& sizes);
// The names of dims of inputs; "" where some have none.
std::vector<std::string> symbols_in(const Model& model);

}  // namespace saturate
