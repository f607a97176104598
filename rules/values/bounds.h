// Between which numbers the elements of a value lie, as the operators tell that make it.
#pragma once

#include <cmath>

#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

// Elements that are NaN are left out, and so is what operators round.
struct Bounds {
  double low = -HUGE_VAL, high = HUGE_VAL;
};

// Of a value of floats; near operators alone are looked at.
Bounds bounds_of(const OnnxEGraph& g, Id id);

}  // namespace saturate
