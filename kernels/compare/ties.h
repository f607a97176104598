// Places of the largest or smallest elements, where several are equal but for rounding: which of them is named means nothing.
#pragma once

#include <string>

#include "kernels/inputs/draw_inputs.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// Whether the output holds places that ArgMax, ArgMin or TopK found, where `got` names other elements than `wanted`. `wanted` is what the
// model gives; the elements are as large but for rounding. False where the model does not run.
bool differs_by_ties(const Model& model, const std::string& output, const Inputs& inputs, const SessionOptions& options,
                     const Tensor& wanted, const Tensor& got);

// Whether such an output names elements of an input of the model as it is, so that which of equal ones comes first is no matter of
// rounding.
bool searches_an_input(const Model& model, const std::string& output);

}  // namespace saturate
