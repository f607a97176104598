// Inputs and outputs of two models, side by side.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "onnx_bridge/model/model.h"

namespace saturate {

// Inputs that callers give: not those that only name an initializer, as old files do.
std::vector<const ValueInfo*> given_inputs(const Model& model);
std::vector<const ValueInfo*> outputs_of(const Model& model);
// Partners of one name; then, where as many are left, those at one place and of one type.
std::map<std::string, std::string> partners(const std::vector<const ValueInfo*>& first, const std::vector<const ValueInfo*>& second);

}  // namespace saturate
