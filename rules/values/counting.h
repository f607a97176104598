// Values that count along one of their axes: tables of places, as an exporter computes them for a mask that it reads element by element.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

class Look;

// Element [..., i, ...] is from + i, with i along `axis`; without an axis each element is `from`.
struct Counting {
  std::optional<std::size_t> axis;
  Dim from;
};

// How a value of int32 or int64 counts; nullopt: not proven. A constant of one element counts along its last axis.
std::optional<Counting> counts_along(Look& look, Id id);

std::optional<Counting> counting(const OnnxEGraph& g, Id id);

// How each of the parts [..., k] of a table of indices (GatherND's) counts, its last axis left out. Empty where that is not proven of all.
std::vector<Counting> counting_parts(const OnnxEGraph& g, Id id);

}  // namespace saturate
