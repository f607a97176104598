// What bodies take from the graphs around them.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "onnx_bridge/convert/onnx_egraph.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

struct Lowered;

// What the e-graph of a body (of If, Loop, Scan) is told of a value outside.
struct Captured {
  Facts facts;
  std::optional<Tensor> constant;
};
Captured captured_value(const OnnxEGraph& outside, Id id, DimTable& dims);
// What a body captures of the graph around it, by name; `dims` are the body's. Computed constants are known up to 64 KiB.
std::map<std::string, Captured> capture(const Graph& body, const OnnxEGraph& outside, const Lowered& values, DimTable& dims);

}  // namespace saturate
