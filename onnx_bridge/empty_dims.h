// Sizes that may be 0 at run time, and what Reshape makes of them.
#pragma once

#include <span>
#include <string>

#include "onnx_bridge/lower.h"

namespace saturate {

// At least 1 where each of these symbols is: one of them, or a product of such; not what a convolution or a Slice leaves, which may be 0.
bool fills(const DimTable& dims, Dim d, std::span<const std::string> symbols);

// Whether a Reshape is given every dim of its result (by the class `target`), of which one may be 0 where the dims of the model's inputs
// are at least 1. It is then no copy of a dim of what is reshaped: allowzero = 1 (ONNX Reshape-14).
bool may_make_empty(const OnnxEGraph& g, const Lowered& lowered, const Model& model, Id target, Id result);

}  // namespace saturate
