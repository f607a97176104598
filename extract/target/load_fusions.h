// What a runtime fuses when it loads a model (LoadFusion in load_pattern.h), as part of the choice. Each spelling that it would fuse gives
// its class a second e-node: the operator that the runtime makes of it, which no model holds (UnitRole::kFused). It has that operator's
// price, and is written back as the spelling.
#pragma once

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "extract/target/target.h"
#include "onnx_bridge/convert/lower.h"

namespace saturate {

struct FusedAtLoad {
  struct Spelling {
    std::vector<NodeId> nodes;  // the one whose value it has first
    std::vector<Id> leaves;     // classes that these read
  };
  absl::flat_hash_map<NodeId, Spelling> of;  // by e-node of UnitRole::kFused
};

// Adds them, for spellings with the e-nodes that there are.
void add_load_fusions(OnnxEGraph& egraph, const Target& target);

// Whether the runtime drops an operator that gives what it gets: a Cast to the type that its input has, a product with 1.
bool is_dropped_at_load(const OnnxEGraph& g, const Target& target, NodeId node);

}  // namespace saturate
