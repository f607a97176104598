// Sums and products with one constant after another: which of them are put together, so that not every part of a long row is.
#pragma once

#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

// Whether the constants behind x and behind middle, which x leads to, need not be put together for y, which middle leads to: y is told in
// several ways by a value and a constant already, and by x, or by a value in front of x or of middle. A short row of constants is told in
// every way. Of a longer one each value jumps to what is farthest in front, twice as far each time: n log n constants are made of n.
bool are_joined_past(const OnnxEGraph& g, Id x, Id middle, Id y);

}  // namespace saturate
