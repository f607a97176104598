// Causal masks: 0/1-valued tensors whose element [..., i, j] is 1 exactly where j <= i + n, for one n (0 along the main diagonal).
#pragma once

#include <optional>

#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

// n of a tensor of rank 2 or more, all of whose matrices are such a triangle; nullopt: they are none. All ones say the smallest n.
std::optional<std::int64_t> lower_triangle(const Tensor& t);

// The same of a class, from constants, slices of constants, Trilu of ones and comparisons of positions that count; nullopt: not proven.
std::optional<Dim> lower_triangle(const OnnxEGraph& g, Id id);

}  // namespace saturate
