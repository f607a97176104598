// Operators at the border of a graph: those of Target::border that reach a graph input or output through such operators alone. A model may
// keep the shapes, orders and types of its inputs and outputs so, whatever the target takes inside.
#pragma once

#include <vector>

#include "extract/target/target.h"
#include "onnx_bridge/convert/lower.h"

namespace saturate {

class Border {
 public:
  // Of a lowered model, to which no rules were applied: its nodes, named as they are written.
  static Border of_nodes(const OnnxEGraph& egraph, const Lowered& lowered, const Target& target);
  // Of a saturated e-graph: an e-node reaches an input or output if some choice of others lets it.
  static Border of_enodes(const OnnxEGraph& egraph, const Lowered& lowered, const Target& target);

  // Of an operator of Target::border that makes class `result` of class `of`.
  bool has(Id of, Id result) const;

 private:
  struct Step {
    Id of, result;
  };
  Border(const OnnxEGraph& egraph, const Lowered& lowered, const std::vector<Step>& steps);
  const EGraph& e_;
  std::vector<bool> from_input_, to_output_;  // by canonical class
};

}  // namespace saturate
