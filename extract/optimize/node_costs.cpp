#include "extract/optimize/node_costs.h"

#include "kernels/runtime/runtime.h"
#include "onnx_bridge/convert/lower.h"

namespace saturate {

absl::StatusOr<std::vector<NodeCost>> node_costs(const Model& model, const CostModel& cost,
                                                 const std::map<std::string, std::int64_t>& sizes) {
  const auto evaluator = make_evaluator();
  OnnxEGraph g(*evaluator);
  LowerOptions options;
  options.inline_functions = false;
  const auto lowered = lower(model, g, options);
  if (!lowered.ok()) return lowered.status();
  const std::unique_ptr<CostModel> own = cost.for_graph(g, sizes);
  const CostModel& prices = own ? *own : cost;
  std::vector<NodeCost> out;
  for (const Source& source : lowered->sources) {
    if (!source.node) continue;
    NodeCost node{qualified_name(source.node->domain, source.node->op_type), first_output(*source.node), 0};
    const Id id = source.op == kNone ? kNone : g.egraph().lookup(source.op, source.children);
    if (id != kNone && !g.facts(id).constant) node.cost = prices.cost(g, ENode{source.op, source.children}, id);
    out.push_back(std::move(node));
  }
  return out;
}

}  // namespace saturate
