// Numbers by which masks hide keys, where they are beyond half precision.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "onnx_bridge/model/model.h"
#include "tools/transform/precision/half_weights.h"

namespace saturate {

// What a mask adds to hide a key where the number that it has is none of the type: e to the power of it is 0 in any type, and three of them
// added are a number of half precision with room.
inline constexpr float kMaskFill = -10000.0F;

// How many constants' numbers became it. A constant is of a mask where all that is made of it are scores of a Softmax, or a bias of an
// attention operator; where others read it as well, they keep the number that it has. `types`: of the model's values, those of new
// constants are added.
std::size_t fill_masks(Model& model, DType to, HalfWeights& weights, std::map<std::string, ValueType>& types);

}  // namespace saturate
