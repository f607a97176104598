// Operators that nobody can run, since the standard does not define them.
#pragma once

#include "absl/status/status.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// An error where a node of the model has an operator of ai.onnx that no version of the standard has, as far as we know it: a slip of a pen,
// such as Reluu. Operators of other domains, and those of a newer opset than we know, are none.
absl::Status check_operators(const Model& model);

}  // namespace saturate
