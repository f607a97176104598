#include "fmt/format.h"
#include "onnx_bridge/convert/emit_parts.h"
#include "onnx_bridge/model/subgraphs.h"

namespace saturate {

void ValueNames::claim(Id id, const std::string& name) {
  if (!name_.contains(id) && claimed_.insert(name).second) name_[id] = name;
}

// Inputs and constants keep theirs.
void ValueNames::claim_leaves(const SelectedNodes& nodes) {
  for (Id id : nodes.classes) {
    const Choice& c = nodes.choice(id);
    if (c.folded) continue;
    const ENode node = task_.e().node(c.node);
    const OpKey& key = task_.g.key(node.op);
    if (key.op_type == kInputOp) claim(id, key.attributes[0].s());
    if (key.op_type != kConstantOp) continue;
    if (auto it = task_.lowered.initializers.find(node.op); it != task_.lowered.initializers.end())
      claim(id, it->second->name);
    else if (auto n = task_.lowered.constant_nodes.find(node.op);
             n != task_.lowered.constant_nodes.end() && !task_.is_output(n->second->outputs[0]))
      claim(id, n->second->outputs[0]);
    else if (auto c = task_.lowered.captured_constants.find(node.op); c != task_.lowered.captured_constants.end())
      claim(id, c->second);
  }
}

ValueNames::ValueNames(const EmitTask& task, const SelectedNodes& nodes) : task_(task) {
  collect_names(task_.model().graph, used_);
  std::map<Id, std::vector<std::string>> names_of;
  for (const auto& [id, names] : task_.lowered.names) {
    auto& all = names_of[task_.e().find(id)];
    all.insert(all.end(), names.begin(), names.end());
  }
  claim_leaves(nodes);
  for (std::size_t i = 0; i < task_.lowered.roots.size(); ++i)
    claim(task_.e().find(task_.lowered.roots[i]), task_.model().graph.outputs[i].name);
  for (const ValueInfo& o : task_.model().graph.outputs) claimed_.insert(o.name);
  for (const EmitUnit& unit : nodes.units)
    if (unit.source)
      for (const auto& [o, id] : unit.outputs)
        if (o < static_cast<int>(unit.source->node->outputs.size()) && !unit.source->node->outputs[o].empty())
          claim(id, unit.source->node->outputs[o]);
  for (Id id : nodes.classes)
    if (auto it = names_of.find(id); it != names_of.end())
      for (const std::string& name : it->second) claim(id, name);
  for (Id id : nodes.classes)
    if (!name_.contains(id)) name_[id] = fresh(label(nodes, id));
}

std::string ValueNames::label(const SelectedNodes& nodes, Id id) const {
  const Choice& c = nodes.choice(id);
  if (c.folded) return "constant";
  const OpKey& key = task_.g.key(task_.e().node(c.node).op);
  if (key.op_type == kProjOp) return task_.g.key(task_.e().node(nodes.choice(task_.e().node(c.node).children[0]).node).op).op_type + "_out";
  return key.domain == "#" ? "constant" : key.op_type;
}

bool ValueNames::reserve(const std::string& name) {
  if (task_.options.reserved && !task_.options.reserved->insert(name).second) return false;
  return used_.insert(name).second && claimed_.insert(name).second;
}

std::string ValueNames::fresh(const std::string& base) {
  for (;;)
    if (std::string name = fmt::format("{}_{}", base, numbers_[base]++); reserve(name)) return name;
}

std::string ValueNames::unused(const std::string& name) { return reserve(name) ? name : fresh(name); }

const std::string& ValueNames::of(Id id) const {
  static const std::string absent;
  return task_.is_absent(id) ? absent : name_.at(task_.e().find(id));
}

}  // namespace saturate
