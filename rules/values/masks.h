// Masks: tensors that hold nothing but 0 and 1.
#pragma once

#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

inline constexpr std::size_t kMostMaskBytes = std::size_t{1} << 25;  // of a constant that is looked at: causal masks are large

bool holds_zeros_and_ones(const Tensor& t);

// Whether every element is proven to be 0 or 1: made from truth values or from constants by operators that keep elements as they are.
bool is_zero_or_one(const OnnxEGraph& g, Id id);

// Whether one may assume it (`assume mask_of_zeros_and_ones`): proven, or moved about from an input of the model of the same element type
// that the model uses as a truth value somewhere. It does so by a Cast to bool, by comparing with 0 or 1, or by 1 - m in a mask of scores.
bool may_be_mask(const OnnxEGraph& g, Id id);

// Whether a mask hides by -inf: a constant with one, or a choice (Where, be it expanded) of one.
bool hides_by_infinity(const OnnxEGraph& g, Id id);

bool holds_minus_infinity(const Tensor& t);

}  // namespace saturate
