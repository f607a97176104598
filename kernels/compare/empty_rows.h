// Rows of attention scores that a mask hides as a whole: what a model makes of them is what some assumptions speak of
// (onnx_bridge/operators/assumptions.h).
#pragma once

#include "kernels/inputs/draw_inputs.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

enum class HiddenBy : std::uint8_t {
  kInfinity,  // -inf throughout, of which Softmax makes NaN; not where the model asks of each row whether it is NaN
  kNumbers,   // no score lies above the fill of a mask
};

// True if, on these inputs, some Softmax of the graph gets a row that is hidden as a whole. False where the model does not run.
bool has_hidden_row(const Model& model, const Inputs& inputs, const SessionOptions& options, HiddenBy by);

}  // namespace saturate
