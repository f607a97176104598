// Products with weights of few bits that ONNX Runtime makes one kernel of when it loads a model, whose activations it quantizes for it
// (NodeUnit::coarse in extract/target/target.h): the result is farther from what the operators say than rounding in floats. The model's own
// such products stay; rules make no others, whatever the target, since ONNX Runtime reads any file.
#pragma once

#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "extract/target/target.h"
#include "onnx_bridge/convert/emit/emit.h"
#include "onnx_bridge/convert/lower.h"

namespace saturate {

class CoarseUnits {
 public:
  // Of a saturated e-graph.
  CoarseUnits(const OnnxEGraph& egraph, const Lowered& lowered);

  // Whether an e-node is a product of which ONNX Runtime may make such a unit, and of the model's it made none with these weights.
  bool is_new(NodeId product) const;
  // A product of a choice that would be a new unit, by the e-nodes without which it is none.
  struct Place {
    std::vector<NodeId> nodes;
    bool of_model = false;  // they are the model's own: its own product and its own weights came together
  };
  std::vector<Place> made_by(const Selection& selection) const;

 private:
  // A value of the model as it came, by the id that it had then.
  struct Weights {
    Id dequantized = kNone;
    bool shared = false;  // by several readers, of it or of what stands for it: some releases make no unit of it, others do
  };
  using Makers = std::unordered_map<Id, const Source*>;
  using Readers = std::unordered_map<Id, int>;

  void note_product(const Source& product, const Makers& makers, const Readers& readers);
  bool weights_of(Id value, const Makers& makers, const Readers& readers, Weights& out) const;
  bool is_dequantizer(const ENode& node) const;
  bool is_original(const ENode& node) const { return originals_.contains(node_signature(g_.egraph(), node.op, node.children)); }

  const OnnxEGraph& g_;
  const EGraph& e_;
  const Lowered& lowered_;
  bool any_ = false;                                     // weights of few bits in the model
  absl::flat_hash_set<std::vector<Id>> originals_;       // signatures of the model's own e-nodes
  absl::flat_hash_set<std::vector<Id>> units_, shared_;  // of its products that are units in all releases, and in some
  absl::flat_hash_set<Id> of_matmul_, of_any_;           // weights of such MatMul, and of such products
};

}  // namespace saturate
