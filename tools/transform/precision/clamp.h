// Values kept within what half precision holds.
#pragma once

#include <map>
#include <set>
#include <string>

#include "onnx_bridge/model/model.h"
#include "tools/transform/precision/precision.h"

namespace saturate {

struct ToClamp {
  std::set<std::string> values;
  std::set<std::string> within;  // whose numbers are no larger then: views of them, and such
};
// Of `options.large` and of constants beyond the type those that operators make or read which would convert if all numbers were of the
// type, but not constants that are compared, and inputs that become halves.
ToClamp values_to_clamp(const Model& model, const std::map<std::string, ValueType>& types, PrecisionOptions options, HalfWeights& weights);

}  // namespace saturate
