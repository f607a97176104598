// What a target says of operators where they stand. Rules ask through the e-graph (OnnxEGraph::is_refused), and know no target.
#pragma once

#include <limits>

#include "egraph/egraph.h"

namespace saturate {

class OnnxEGraph;
struct OpKey;

// The ranks of the tensors that an operator is taken with.
struct Ranks {
  int low = 0, high = std::numeric_limits<int>::max();
  bool takes(int rank) const { return rank >= low && rank <= high; }
};

class Refusals {
 public:
  virtual ~Refusals() = default;
  // Whether an e-node of class `id` is refused there, or wished away. It follows from the facts of the class and of the e-node's operands;
  // safe from any thread.
  virtual bool refuses(const OnnxEGraph& g, const ENode& node, Id id) const = 0;
  virtual Ranks ranks(const OpKey& key) const = 0;
  // Whether it may refuse operators that no limit names. Else only those are refused that one does (by_place).
  virtual bool of_any_operator() const = 0;
  // Whether an operator is taken at some places and refused at others for what it is, not for what all tensors are.
  virtual bool by_place(const OpKey& key) const = 0;
  // Whether an operator is taken with sizes of 0.
  virtual bool takes_empty(const OpKey& key) const = 0;
  // Whether an e-node of class `id`, which works along one axis of places, would run faster as one over images of one row.
  virtual bool prefers_image(const OnnxEGraph&, const ENode&, Id) const { return false; }
  virtual bool prefers_images() const { return false; }  // whether it says so of any operator
  // Whether it says anything of how many heads or matrices an operator works on at once.
  virtual bool counts_heads() const = 0;
};

}  // namespace saturate
