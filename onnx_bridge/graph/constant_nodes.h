// Constant nodes and what they hold.
#pragma once

#include <optional>

#include "onnx_bridge/model/model.h"

namespace saturate {

bool is_constant(const Node& node);
// Of a Constant; nullopt: sparse.
std::optional<Tensor> value_of(const Node& constant);

}  // namespace saturate
