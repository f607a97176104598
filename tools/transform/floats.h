// Numbers of float tensors, exchanged for others.
#pragma once

#include <functional>
#include <optional>

#include "onnx_bridge/model/tensor.h"

namespace saturate {

// The tensor with `by` for each number that `is_meant` is true of; nullopt where there is none, and for tensors that are not of float or
// double.
std::optional<Tensor> replaced(const Tensor& tensor, const std::function<bool(double)>& is_meant, double by);

}  // namespace saturate
