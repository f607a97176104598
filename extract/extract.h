// Extraction: the cheapest acyclic choice of e-nodes that the target can run, sharing counted once (DAG cost).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "extract/price/cost.h"
#include "extract/target/target.h"
#include "extract/units/check_selection.h"
#include "onnx_bridge/convert/emit/emit.h"

namespace saturate {

struct AskedOfNodes;  // extract/onnx_problem.h

struct ExtractOptions {
  std::int64_t opset_limit = 23;      // operators made by rules must exist in this opset of ai.onnx
  bool keep_quantizers = false;       // as extract/units/kept_quantizers.h says
  bool lowers_opset = false;          // the model's own operators must, too, wherever rules make something else of them
  std::set<OperatorName> calls_left;  // functions whose bodies stand in the place of their calls, wherever they can
  std::set<Id> not_foldable;          // constant classes whose value cannot be computed here
  std::set<NodeId> left_out;          // e-nodes that are not chosen; none of the model's own
  std::set<NodeId> avoided;           // e-nodes that count as refused
  std::map<Id, NodeId> pinned;        // e-nodes that the selection must contain, at any price
  int improvement_rounds = 8;         // of local search over DAG cost, from the model's own graph
  std::string extractor = "search";   // of extract/solve/extractors.h; its choice is taken where it costs less
  double extractor_seconds = 10;
  double per_constant_byte = 0;  // of the cost, what each byte of constants counts beside what the cost model says of it
  double memory_slack = 0;       // share of the cost that may be given away for less memory at the peak (extract/peak_memory.h)
  std::map<std::string, std::int64_t> usual_sizes;  // of symbolic dims, where the user gives none
  std::shared_ptr<AskedOfNodes> asked = nullptr;    // remembered from call to call, where given
};

// The selection covers the roots, is acyclic and complete (proved before it is returned), and costs no more than the input's own e-nodes.
absl::StatusOr<Selection> extract(const OnnxEGraph& egraph, const Lowered& lowered, const Target& target, const CostModel& cost,
                                  const ExtractOptions& options = {});
// Cost of the cheapest selection that contains every e-node of `options.pinned`; infinity if there is none.
absl::StatusOr<double> cost_with_pinned(const OnnxEGraph& egraph, const Lowered& lowered, const Target& target, const CostModel& cost,
                                        const ExtractOptions& options);
// The input's own graph as a selection: extraction must not be worse. Without a target, fusions at load are not priced.
absl::StatusOr<Selection> original_selection(const OnnxEGraph& egraph, const Lowered& lowered, const Target* target, const CostModel& cost,
                                             const ExtractOptions& options = {});

}  // namespace saturate
