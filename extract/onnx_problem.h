// The extraction problem of an e-graph over ONNX, and choices for it as selections of e-nodes.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "extract/extract.h"
#include "extract/price/price.h"
#include "extract/solve/problem.h"

namespace saturate {

// The plain problem of an e-graph: the classes that can be reached from the roots, each with the e-nodes that may stand for it.
struct OnnxProblem {
  ExtractionProblem plain;
  std::vector<Id> class_id;                                       // by class of `plain`, ascending
  std::vector<NodeId> node_id;                                    // by node of `plain`; kNone: the class's value, folded
  std::vector<std::pair<std::uint32_t, std::uint32_t>> blockers;  // classes of one e-node at the end of `plain`, and the class it is of
  std::vector<std::uint32_t> number;                              // by canonical class id; kUnchosen: not reachable
  // What the runtime makes of a spelling when it loads the model (load_fusions.h), by node of `plain`: the nodes that it stands for, the
  // one of its own class first.
  std::map<std::uint32_t, std::vector<std::uint32_t>> spelled;
};

// What is asked again by each extraction from one e-graph, for one target with one cost model, sizes and opset: of an e-node its price, or
// what it costs as what the runtime makes of a spelling, and the lowest opset that has it; and the problem with nothing left out.
struct AskedOfNodes {
  absl::flat_hash_map<NodeId, Price> price;
  absl::flat_hash_map<NodeId, double> cost_when_fused;
  absl::flat_hash_map<NodeId, std::optional<std::int64_t>> lowest;
  absl::flat_hash_map<std::vector<std::uint64_t>, std::optional<std::int64_t>> lowest_alike;  // of operators and inputs of one sort
  std::optional<OnnxProblem> whole;
};

// The same with spellings in the place of what the runtime makes of them. Where a value between has another node, that stays, and may come
// to need itself: nullopt.
std::optional<NodeChoice> spelled_out(const OnnxProblem& problem, const NodeChoice& choice);

// What runs once the runtime has loaded a choice: what it fuses, and without what it computes then from constants.
struct AtLoad {
  Price price;
  std::map<std::string, std::size_t> operators;  // "Op", "domain::Op"
  std::map<std::string, double> cost;            // by family of operators whose times are comparable (op_features.h)
  std::map<const Node*, bool> taken;             // Ifs that the runtime replaces by a branch: whether that is the first
};
// What of the one over the other is to be expected: least and most, with 90 % confidence. Prices of families are wrong by `relative_error`
// (one standard deviation), each by as much in both, and the change as a whole by what trained models show.
std::pair<double, double> ratio_range(const AtLoad& before, const AtLoad& after, double relative_error);
// Whether `after` costs more, however prices are wrong: with 90 % confidence, where both are run at the sizes and on the machine of the
// table.
bool is_dearer(const AtLoad& before, const AtLoad& after, double relative_error);
// Of a lowered model as it stands, without calls of functions and without what its bodies hold. `usual_sizes`: of symbols without a size.
AtLoad load_as_it_is(const OnnxEGraph& egraph, const Lowered& lowered, const Target& target, const CostModel& cost,
                     const std::map<std::string, std::int64_t>& usual_sizes);
// `choice` may hold spellings or what is made of them. What is made costs as in the problem, where it is dearer than the operator, so that
// this is written in its place; with `told` what the operator costs by that, which is prepared for this e-graph.
AtLoad at_load(const OnnxEGraph& egraph, const Target* target, const OnnxProblem& problem, const NodeChoice& choice,
               const CostModel* told = nullptr);
// An operator that the runtime makes itself, which need not be the standard's.
double cost_as_made(const OnnxEGraph& egraph, const CostModel& cost, const OpKey& key, std::span<const Id> inputs, Id output);

// Without a target nothing is refused, and fusions at load are not priced. The classes of `options.pinned` are roots, too.
OnnxProblem onnx_problem(const OnnxEGraph& egraph, const Lowered& lowered, const Target* target, const CostModel& cost,
                         const ExtractOptions& options);
// The e-node of each class that the model itself has: a leaf, or the first of its nodes. `inside`: of a call what its function's body has,
// where that was lowered.
absl::StatusOr<NodeChoice> original_choice(const OnnxEGraph& egraph, const Lowered& lowered, const OnnxProblem& problem,
                                           bool inside = false);
// Empty where spelled_out() is.
Selection to_selection(const OnnxProblem& problem, const NodeChoice& choice);

}  // namespace saturate
