// Weights that a model stores in fewer bytes than it computes with (int8 that is cast and scaled, a row that is repeated) and that the
// runtime unpacks once, when it loads the model: computing them takes no time in a run, so that storing them unpacked saves none.
#pragma once

#include <unordered_map>

#include "extract/target/target.h"
#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

class UnpackedAtLoad {
 public:
  UnpackedAtLoad(const OnnxEGraph& egraph, const Target* target) : g_(egraph), runs_(target && !target->node_units.empty()) {}

  // Whether the runtime computes this e-node of class `id` when it loads the model, of constants that are smaller than what it makes.
  bool has(const ENode& node, Id id);

 private:
  double bytes_below(Id id, int depth = 0);

  const OnnxEGraph& g_;
  bool runs_ = false;  // models are loaded by ONNX Runtime
  std::unordered_map<Id, double> below_;
};

}  // namespace saturate
