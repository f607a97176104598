// What a runtime fuses when it loads a model (LoadFusion in load_pattern.h), as part of the choice. Each spelling that it would fuse gives
// its class a second e-node: the operator that the runtime makes of it, which no model holds (UnitRole::kFused). It has that operator's
// price, and is written back as the spelling.
#pragma once

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "extract/target/target.h"
#include "onnx_bridge/convert/lower.h"

namespace saturate {

struct LoadFusion;  // load_pattern.h

struct FusedAtLoad {
  struct Spelling {
    std::vector<NodeId> nodes;  // the one whose value it has first
    std::vector<Id> leaves;     // classes that these read
  };
  absl::flat_hash_map<NodeId, Spelling> of;  // by e-node of UnitRole::kFused
};

// Adds them, for spellings with the e-nodes that there are.
void add_load_fusions(OnnxEGraph& egraph, const Target& target);

// Operators that give what they get, which the runtime drops: a Cast to the type that its input has, a product with 1.
class DroppedAtLoad {
 public:
  DroppedAtLoad(const OnnxEGraph& egraph, const Target& target);
  bool has(NodeId node) const;

 private:
  const OnnxEGraph& g_;
  std::vector<const LoadFusion*> fusions_;
};

}  // namespace saturate
