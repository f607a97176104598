// Models of 16 bits with floats in their place: what they compute without the rounding of their types.
#pragma once

#include <optional>

#include "kernels/inputs/draw_inputs.h"
#include "onnx_bridge/model/evaluator.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

bool is_16_bit_float(DType dtype);
// The tensor as one of floats, where it is of float16 or bfloat16.
Tensor widened(const Tensor& tensor);
Inputs widened(Inputs inputs);
// Weights, constants, inputs and outputs are floats, and Casts to 16 bits make floats. nullopt where that is another model: something reads
// the bits of numbers, or the model calls functions of its own. `most`: bytes that weights may take then.
std::optional<Model> widened(const Model& model, std::size_t most);
// A float in the type of `reference`, and what is no finite number in either is what the reference is there: it overflows for its type.
Value narrowed(const Value& wide, const Value& reference);

}  // namespace saturate
