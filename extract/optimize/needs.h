// Which release of its runtime loads a result.
#pragma once

#include <string>

#include "extract/prepare/graph_stats.h"
#include "extract/target/target.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// The runtime that a target stands for; of one that names none, and of a target that is not known, ONNX Runtime on a CPU.
Runtime runtime_of(const Target* target);

// The oldest release that loads a model.
struct Needs {
  std::string runtime;    // "ONNX Runtime"
  std::string release;    // "1.23"; "": none that is known
  bool is_oldest = true;  // of those that are known: older ones may load it too
};
Needs needs_of(const GraphStats& model, const Runtime& runtime);

// The newest IR version that releases load which load this opset: of the one that the target is held to, or of the oldest one for the opset
// where that is newer. A model whose types need no newer one is written in it.
void fit_ir_version(Model& model, const Target& target);

}  // namespace saturate
