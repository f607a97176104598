// The extraction problem of an e-graph over ONNX, and choices for it as selections of e-nodes.
#pragma once

#include <utility>
#include <vector>

#include "extract/extract.h"
#include "extract/solve/problem.h"

namespace saturate {

// The plain problem of an e-graph: the classes that can be reached from the roots, each with the e-nodes that may stand for it.
struct OnnxProblem {
  ExtractionProblem plain;
  std::vector<Id> class_id;                                       // by class of `plain`, ascending
  std::vector<NodeId> node_id;                                    // by node of `plain`; kNone: the class's value, folded
  std::vector<std::pair<std::uint32_t, std::uint32_t>> blockers;  // classes of one e-node at the end of `plain`, and the class it is of
  std::vector<std::uint32_t> number;                              // by canonical class id; kUnchosen: not reachable
};

// Without a target nothing is refused, and fusions at load are not priced. The classes of `options.pinned` are roots, too.
OnnxProblem onnx_problem(const OnnxEGraph& egraph, const Lowered& lowered, const Target* target, const CostModel& cost,
                         const ExtractOptions& options);
// The e-node of each class that the model itself has: a leaf, or the first of its nodes. `inside`: of a call what its function's body has,
// where that was lowered.
absl::StatusOr<NodeChoice> original_choice(const OnnxEGraph& egraph, const Lowered& lowered, const OnnxProblem& problem,
                                           bool inside = false);
Selection to_selection(const OnnxProblem& problem, const NodeChoice& choice);

}  // namespace saturate
