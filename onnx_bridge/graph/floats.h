// Numbers of float tensors, exchanged for others, and what 16 bits cost.
#pragma once

#include <functional>
#include <optional>

#include "onnx_bridge/model/tensor.h"

namespace saturate {

// Of results, as the rounding of some dozens of layers makes it, in a type of 16 bits.
constexpr double rtol_of_layers(DType dtype) { return dtype == DType::kBfloat16 ? 0.16 : 0.02; }

// The tensor with `by` for each number that `is_meant` is true of; nullopt where there is none, and for tensors that are not of float or
// double.
std::optional<Tensor> replaced(const Tensor& tensor, const std::function<bool(double)>& is_meant, double by);

}  // namespace saturate
