// What a runtime rewrites by itself at load, as part of the choice (LoadTimeFusion in extract/target/target.h).
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "extract/price/cost.h"
#include "extract/target/target.h"
#include "onnx_bridge/convert/lower.h"

namespace saturate {

// For every Add that the runtime would fuse at load, adds an equal Sum, which it leaves alone.
void add_sums_for_adds(OnnxEGraph& egraph, const Lowered& lowered, const Target& target);

// The classes of e-nodes with which the runtime would join this one of class `id` (JoinedAtLoad), each with what it makes of both.
std::vector<std::pair<Id, std::string>> joined_at_load(const OnnxEGraph& egraph, const Target& target, const ENode& node, Id id);
// Whether the runtime would quantize the constant weights of this e-node of class `id` when it loads the model.
bool quantizes_weights_of(const OnnxEGraph& egraph, const Target& target, const ENode& node, Id id);
// For every Conv whose weights the runtime would quantize, adds an equal FusedConv without an activation, whose weights it leaves alone.
void add_fused_convs_for_convs(OnnxEGraph& egraph, const Target& target);

// Who reads which value in the model.
class ValueReaders {
 public:
  ValueReaders(const EGraph& egraph, const Lowered& lowered);
  // True if every path from `value` ends in `consumer`. An operator that makes `consumer` of it is then its only reader, and the nodes
  // between them, as of a normalization in single operators, are not needed. Only near ones are looked at.
  bool only_for(Id value, Id consumer) const;

 private:
  const EGraph& egraph_;
  const Lowered& lowered_;
  std::unordered_map<Id, std::vector<std::size_t>> sources_;  // by what they read
  std::unordered_set<Id> roots_;
};

// What the pair costs beyond its parts, for a consumer e-node of class `id`; 0 where no fusion at load applies.
double load_time_surcharge(const OnnxEGraph& egraph, const Target& target, const CostModel& cost, const ENode& consumer, Id id,
                           const ValueReaders& readers);
// Whether ONNX Runtime would end by a signal on this Cast, were its input the Transpose that its class holds: its optimizer (1.31) takes
// Transpose, Cast and MatMul for one product, and loses the Cast where the first axis moves in between the last two.
bool may_end_the_runtime(const OnnxEGraph& egraph, const ENode& cast, Id id);
// Whether the e-node is the producer of a pair that the runtime fuses at load.
bool is_fused_at_load(const OnnxEGraph& egraph, const Target& target, const ENode& node);

}  // namespace saturate
