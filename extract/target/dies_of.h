// Shapes of graph at which ONNX Runtime's optimizers end the process or refuse the model while they load it: extract/runtimes/dies_of.json.
// Such a shape spans several operators, so that no limit of a target can say it.
#pragma once

#include <string>
#include <vector>

#include "extract/target/target.h"
#include "onnx_bridge/convert/emit/emit.h"
#include "onnx_bridge/convert/lower.h"

namespace saturate {

// A place of a choice that has such a shape.
struct DeadlyPlace {
  std::string because;
  std::vector<NodeId> made;   // its e-nodes that are none of the model's own, readers first
  std::vector<NodeId> moved;  // all between its dequantizer, or whatever comes first, and its reader
};

struct OpsetsOfResult {
  static constexpr std::int64_t kNone = -1;  // nothing is excused
  std::int64_t written;                      // of ai.onnx, or the newest in which the result may be written
  std::int64_t excusing;                     // the newest in which the model itself may have had a shape: the model's own, or `written`
};

// The places of a choice, but for shapes that the model itself has.
std::vector<DeadlyPlace> deadly_places(const OnnxEGraph& egraph, const Lowered& lowered, const Selection& selection, const Target& target,
                                       const OpsetsOfResult& opsets);

}  // namespace saturate
