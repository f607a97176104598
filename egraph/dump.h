// E-graphs as text: a summary for people, s-expressions, DOT, and the JSON of egraph-serialize (what extraction-gym reads).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "egraph/egraph.h"

namespace saturate {

using OpName = std::function<std::string(OpId)>;

struct DumpOptions {
  std::size_t max_classes = ~std::size_t{0};  // the rest is left out and said to be
  std::size_t max_nodes_per_class = ~std::size_t{0};
};

// Classes, e-nodes, the largest classes and the most frequent operators.
std::string summary(const EGraph& egraph, const OpName& op_name);

// One line a class: "c7 = (add c1 c2) | (mul c3 c4)". Cycles are no trouble, as children are classes.
std::string to_sexpr(const EGraph& egraph, const OpName& op_name, const DumpOptions& options = {});

// The term of an e-node as it was made (with record_explanations(); else by its class's first e-nodes), "..." beyond `max_nodes` operators.
std::string term_text(const EGraph& egraph, NodeId node, const OpName& op_name, std::size_t max_nodes);

// A cluster per class.
std::string to_dot(const EGraph& egraph, const OpName& op_name, const DumpOptions& options = {});

// egraph-serialize: {"nodes": {id: {op, children, eclass, cost, subsumed}}, "root_eclasses": [...], "class_data": {}}. Costs by e-node, 1
// where null.
std::string to_json(const EGraph& egraph, const OpName& op_name, std::span<const Id> roots,
                    const std::function<double(NodeId)>& cost = nullptr);

struct LoadedEGraph {
  std::unique_ptr<EGraph> egraph;
  std::vector<std::string> op_names;  // by OpId; an operator is its text
  std::vector<Id> roots;
  std::vector<double> costs;             // by NodeId; of equal e-nodes the least
  std::vector<std::string> class_names;  // by class id, of canonical ones
};
// Reads that JSON. Equal e-nodes in different classes make the classes equal. kInvalidArgument: what is wrong, and where.
absl::StatusOr<LoadedEGraph> from_json(std::string_view text);

}  // namespace saturate
