// Which axes of the values around a node have the same entries.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "onnx_bridge/model/model.h"
#include "tools/transform/cache_parts.h"

namespace saturate {

struct AxisOf {
  std::string value;
  int axis = 0;
  auto operator<=>(const AxisOf&) const = default;
};
using SameAxes = std::vector<AxisOf>;  // whose entries are of the same places

// Of what a node reads and makes. The ranks of all of it must be known. nullopt: nothing is known of the operator.
std::optional<std::vector<SameAxes>> same_axes(const DecoderFacts& facts, const Node& node);

}  // namespace saturate
