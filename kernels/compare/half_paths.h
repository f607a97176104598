// Where what an output holds was rounded to 16 bits on its way.
#pragma once

#include <map>
#include <string>

#include "onnx_bridge/model/model.h"

namespace saturate {

enum class HalfPath : std::uint8_t {
  kNone,      // nowhere: weights or inputs of 16 bits that are read as wider floats are numbers like others
  kRounded,   // some value was rounded, and computed in wider floats before and after
  kComputed,  // something was computed in 16 bits
};

// Of each output of the graph. What is not known of a type or a body counts as computed where 16 bits come near it.
std::map<std::string, HalfPath> half_paths(const Model& model);

}  // namespace saturate
