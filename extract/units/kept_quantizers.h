// Quantized models for targets whose compilers find integer kernels by the quantizers of a graph: whole units, the quantizers of
// activations and quantized weights stay as they came. What breaks one counts as operators that the target refuses.
#pragma once

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "extract/price/cost.h"
#include "extract/price/price.h"
#include "onnx_bridge/convert/lower.h"

namespace saturate {

class KeptQuantizers {
 public:
  // Of the model's own nodes; `egraph` may have been rewritten since.
  KeptQuantizers(const OnnxEGraph& egraph, const Lowered& lowered);

  // What an e-node of class `id` counts beside its price; `original`: it is the model's own.
  Price surcharge(const CostModel& cost, Id id, const ENode& node, bool original) const;
  // What it counts to store the value of class `id`.
  Price stored(Id id) const;

 private:
  void reach_other_forms();
  // Adds to `values` their other forms, but for `others` and what stands behind these.
  void reach_other_forms(absl::flat_hash_set<Id>& values, const absl::flat_hash_set<Id>& others) const;
  void note_what_weights_make();
  bool is_joined(const ENode& node) const;
  bool is_quantized_view(const ENode& node) const;
  bool reads_dequantized(const ENode& node) const;
  bool is_of_unit(Id id) const;
  double converted_parts(const ENode& quantize) const;

  const OnnxEGraph& g_;
  const EGraph& e_;
  absl::flat_hash_set<Id> dequantized_;       // values of the model's DequantizeLinear
  absl::flat_hash_set<Id> also_dequantized_;  // these, their heads, and all of them in another shape or order
  absl::flat_hash_map<Id, ENode> quantized_;  // values of the model's QuantizeLinear, and these
  absl::flat_hash_set<Id> in_units_;          // values that the model computes between quantizers
  absl::flat_hash_set<Id> computed_;          // of these what is more than a view
  absl::flat_hash_set<Id> outputs_;           // of the model
  absl::flat_hash_set<Id> of_units_;          // of `quantized_` those of such values
  absl::flat_hash_set<Id> of_weights_;        // floats that quantized weights alone make
};

// Where a rule found that quantizers change nothing, behind a MaxPool or a view, an operator and its DequantizeLinear are one class, and no
// choice of e-nodes has the quantizers. There this adds the model's operator with its QuantizeLinear as a second form of the integers,
// whose value between nothing else reads (UnitRole). A view of integers that rules made gets such a form, too.
void add_kept_units(OnnxEGraph& egraph, const Lowered& lowered);

}  // namespace saturate
