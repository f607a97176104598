#include "extract/units/border.h"

#include <unordered_map>

#include "extract/sizes/op_sizes.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {
namespace {

using Edges = std::unordered_map<Id, std::vector<Id>>;

// The classes that can be reached from these along the edges, these among them.
std::vector<bool> reached(std::size_t num_ids, std::vector<Id> from, const Edges& edges) {
  std::vector<bool> seen(num_ids, false);
  while (!from.empty()) {
    const Id id = from.back();
    from.pop_back();
    if (seen[id]) continue;
    seen[id] = true;
    if (const auto it = edges.find(id); it != edges.end()) from.insert(from.end(), it->second.begin(), it->second.end());
  }
  return seen;
}

}  // namespace

Border::Border(const OnnxEGraph& egraph, const Lowered& lowered, const std::vector<Step>& steps) : e_(egraph.egraph()) {
  std::vector<Id> inputs, outputs;
  for (const ValueInfo& input : lowered.model->graph.inputs)
    if (const auto it = lowered.values.find(input.name); it != lowered.values.end()) inputs.push_back(e_.find(it->second));
  for (const Id root : lowered.roots) outputs.push_back(e_.find(root));
  Edges forward, backward;
  for (const Step& step : steps) {
    const Id of = e_.find(step.of), result = e_.find(step.result);
    forward[of].push_back(result);
    backward[result].push_back(of);
  }
  from_input_ = reached(e_.num_ids(), std::move(inputs), forward);
  to_output_ = reached(e_.num_ids(), std::move(outputs), backward);
}

Border Border::of_nodes(const OnnxEGraph& g, const Lowered& lowered, const Target& target) {
  std::vector<Step> steps;
  for (const Source& s : lowered.sources)
    if (s.node != nullptr && !s.inputs.empty() && !s.outputs.empty() && s.outputs[0] != kNone &&
        target.border.contains(operator_name(s.node->domain, s.node->op_type)))
      steps.push_back({s.inputs[0], s.outputs[0]});
  return Border(g, lowered, steps);
}

Border Border::of_enodes(const OnnxEGraph& g, const Lowered& lowered, const Target& target) {
  std::vector<Step> steps;
  if (!target.border.empty())
    for (const Id id : g.egraph().classes())
      for (const NodeId n : g.egraph().class_nodes(id)) {
        const ENode node = g.egraph().node(n);
        const OpKey& key = g.key(node.op);
        if (!node.children.empty() && target.border.contains(operator_name(key.domain, key.op_type)))
          steps.push_back({node.children[0], id});
      }
  return Border(g, lowered, steps);
}

bool Border::has(Id of, Id result) const { return from_input_[e_.find(of)] || to_output_[e_.find(result)]; }

}  // namespace saturate
