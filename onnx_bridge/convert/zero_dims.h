// Sizes that may be 0 at run time, and what Reshape makes of them.
#pragma once

#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

// Whether a Reshape of `x` is given every dim of its result (by the class `target`), of which one may be 0 and is no copy of the dim of `x`
// in its place: allowzero = 1 (ONNX Reshape-14).
bool may_make_empty(const OnnxEGraph& g, Id x, Id target, Id result);

}  // namespace saturate
