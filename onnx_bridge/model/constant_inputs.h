// Constants that a model lists among its inputs.
#pragma once

#include "onnx_bridge/model/model.h"

namespace saturate {

// Before IR 4 each initializer is among the inputs, too, though it is a constant: what is gone from `out` is no input either, and with one
// that is new `out` becomes a model of IR 4, where an initializer among the inputs would be a default. A model that kept initializers apart
// before IR 4 allowed it keeps its version.
void settle_constant_inputs(Model& out, const Model& original);

}  // namespace saturate
