// How large and how small the numbers of a constant are: what folds constants asks whether the result can hold them.
#pragma once

#include <cmath>
#include <optional>

#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

// Of the absolute values of all elements. `most` is infinite where an element is infinite or NaN.
struct Magnitudes {
  double least = HUGE_VAL;  // of those that are not 0; infinite where there are none
  double most = 0;
};
Magnitudes magnitudes_of(const Tensor& t);

// Of a constant class, be it large: views of a weight have its magnitudes. nullopt: not constant, or too large to be computed for this.
std::optional<Magnitudes> magnitudes(const OnnxEGraph& g, Id id);

// Whether a product of the value with one constant number is read.
bool is_multiplied(const OnnxEGraph& g, Id id);

// What a floating dtype holds with all its digits: 0, and from `least` to `highest`; nullopt for others.
struct FloatRange {
  double least, highest;
  int digits;  // binary ones
};
std::optional<FloatRange> float_range(DType dtype);

}  // namespace saturate
