// What a runtime rewrites by itself at load, as part of the choice (ForcedRewrite in extract/target.h).
#pragma once

#include "extract/cost.h"
#include "extract/target.h"
#include "onnx_bridge/lower.h"

namespace saturate {

// Adds to every class that a forced pair may be made of the same sum under a name that the runtime leaves alone: Sum (a, b) beside Add (a,
// b).
void add_escapes(OnnxEGraph& egraph, const Lowered& lowered, const Target& target);

// For pricing: classes whose value one node of the model reads, and no graph output.
class SingleUse {
 public:
  SingleUse(const EGraph& egraph, const Lowered& lowered);
  bool contains(Id id) const { return id < uses_.size() && uses_[id] == 1; }

 private:
  std::vector<std::uint32_t> uses_;
};

// What the pair costs beyond its parts, for a consumer e-node of class `id`; 0 where no forced rewrite applies.
double forced_surcharge(const OnnxEGraph& egraph, const Target& target, const CostModel& cost, const ENode& consumer, Id id,
                        const SingleUse& single);
// Whether the e-node is the producer of a forced pair.
bool is_forced_producer(const OnnxEGraph& egraph, const Target& target, const ENode& node);

}  // namespace saturate
