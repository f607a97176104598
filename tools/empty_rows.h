// Rows of attention scores that a mask hides as a whole: what a model makes of them is not kept (the assumption no_empty_row).
#pragma once

#include "kernels/runtime.h"
#include "onnx_bridge/model.h"
#include "tools/draw_inputs.h"

namespace saturate {

// Whether the model, run on these inputs, gives some Softmax of its graph a row of which no score lies above the fill of a mask. False
// where it does not run.
bool has_empty_row(const Model& model, const Inputs& inputs, const SessionOptions& options);

}  // namespace saturate
