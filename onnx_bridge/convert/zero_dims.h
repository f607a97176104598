// Sizes that may be 0 at run time, and what Reshape makes of them.
#pragma once

#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

// Whether a Reshape of `x` to `target` must be written with allowzero = 1 (ONNX Reshape-14): then 0 means 0, not "copy the input's dim".
// True if `target` holds every dim, and one of them may be 0 and is no copy of the dim of `x` in its place.
bool may_make_empty(const OnnxEGraph& g, Id x, Id target, Id result);

}  // namespace saturate
