// Quantizers: which values they stand for.
#pragma once

#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

// Whether all QuantizeLinear that make this value read one value, or what is dequantized of their own result. Where they read several, as x
// and Clip(x), the range of the quantizer is one of them, and none of them is what is dequantized again.
bool quantizes_one(const OnnxEGraph& g, Id id);

// Whether an input of the model makes this value, or a view or copy of one.
bool hands_on_input(const OnnxEGraph& g, Id id);

}  // namespace saturate
