#include <algorithm>
#include <queue>
#include <set>

#include "fmt/format.h"
#include "onnx_bridge/convert/emit/emit_parts.h"
#include "onnx_bridge/convert/zero_dims.h"

namespace saturate {

EmitTask::EmitTask(const OnnxEGraph& egraph, const Lowered& from, const Selection& chosen, const EmitModelOptions& how)
    : g(egraph), lowered(from), selection(chosen), options(how) {
  for (const ValueInfo& o : model().graph.outputs) output_names.insert(o.name);
}

std::string key_name(const EmitTask& task, const EmitUnit& unit) {
  const OpKey& key = task.g.key(task.e().node(unit.node).op);
  return qualified_name(key.domain, key.op_type);
}

Node canonical_node(const EmitTask& task, const EmitUnit& unit) {
  const ENode node = task.e().node(unit.node);
  const OpKey& key = task.g.key(node.op);
  Node out;
  out.op_type = key.op_type;
  out.domain = key.domain;
  out.overload = key.overload;
  out.attributes = key.attributes;
  for (std::size_t i = 0; i < node.children.size(); ++i)
    out.inputs.push_back(task.is_absent(node.children[i]) ? "" : fmt::format("i{}", i));
  for (int i = 0; i < key.outputs; ++i) out.outputs.push_back(fmt::format("o{}", i));
  return out;
}

std::vector<const Facts*> input_facts(const EmitTask& task, const EmitUnit& unit) {
  std::vector<const Facts*> facts;
  for (Id c : task.e().node(unit.node).children) facts.push_back(&task.g.facts(c));
  return facts;
}

bool wants_zeros(const EmitTask& task, const EmitUnit& unit) {
  const ENode node = task.e().node(unit.node);
  return !unit.source && key_name(task, unit) == "Reshape" && node.children.size() == 2 &&
         may_make_empty(task.g, node.children[0], node.children[1], unit.outputs.at(0));
}

SelectedNodes::SelectedNodes(const EmitTask& task) : task_(task) {
  for (std::size_t s = 0; s < task.lowered.sources.size(); ++s)
    if (const Source& source = task.lowered.sources[s]; source.op != kNone)
      sources_[node_signature(task.e(), source.op, source.children)].push_back(s);
  walk();
}

const Choice& SelectedNodes::choice(Id id) const {
  const auto it = added_.find(task_.e().find(id));
  return it != added_.end() ? it->second : task_.selection.by_class[task_.e().find(id)];
}

void SelectedNodes::add_constant(Id id, Choice choice) {
  added_[id] = choice;
  classes.push_back(id);
  constants.push_back(id);
}

const Source* SelectedNodes::source_of(const ENode& node, std::size_t* index) const {
  OpId op = node.op;
  if (OpKey key = task_.g.key(op); key.role == UnitRole::kPart) {  // the model's own node where it reads what that reads
    key.role = UnitRole::kNone;
    op = task_.g.find_op(key).value_or(op);
  }
  const auto it = sources_.find(node_signature(task_.e(), op, node.children));
  if (it == sources_.end()) return nullptr;
  const Source* found = nullptr;
  for (std::size_t s : it->second) {
    const auto& outputs = task_.lowered.sources[s].node->outputs;
    const bool makes_output = std::any_of(outputs.begin(), outputs.end(), [this](const std::string& o) { return task_.is_output(o); });
    if (found && !makes_output) continue;  // of duplicates, the one whose name must stay
    *index = s;
    found = &task_.lowered.sources[s];
    if (makes_output) break;
  }
  return found;
}

void SelectedNodes::walk() {
  std::vector<std::pair<Id, std::size_t>> stack;
  std::unordered_set<Id> done;
  for (Id r : task_.lowered.roots) stack.emplace_back(task_.e().find(r), 0);
  while (!stack.empty()) {
    auto& [id, next] = stack.back();
    const Choice& c = choice(id);
    const auto children = c.folded ? std::span<const Id>() : task_.e().node(c.node).children;
    if (done.contains(id)) {
      stack.pop_back();
      continue;
    }
    if (next < children.size()) {
      stack.emplace_back(task_.e().find(children[next++]), 0);
      continue;
    }
    done.insert(id);
    add_class(id, c);
    stack.pop_back();
  }
}

void SelectedNodes::add_class(Id id, const Choice& c) {
  classes.push_back(id);
  if (c.folded) {
    constants.push_back(id);
    return;
  }
  const ENode node = task_.e().node(c.node);
  const OpKey& key = task_.g.key(node.op);
  if (key.op_type == kConstantOp) constants.push_back(id);
  if (key.op_type == kProjOp) {
    EmitUnit& unit = units[unit_of_.at(task_.e().find(node.children[0]))];
    unit.outputs[static_cast<int>(key.attributes[0].i())] = id;
  }
  if (key.domain == "#") return;
  EmitUnit unit{id, c.node, nullptr, 0, {}, {}, false};
  for (Id child : node.children) {
    unit.children.push_back(task_.e().find(child));
    if (auto it = unit_of_.find(producer(task_.e().find(child))); it != unit_of_.end())
      unit.position = std::max(unit.position, units[it->second].position);
  }
  std::size_t index = 0;
  unit.source = source_of(node, &index);
  if (unit.source) unit.position = std::max(unit.position, index);
  if (key.outputs == 1) unit.outputs[0] = id;
  unit_of_[id] = units.size();
  units.push_back(std::move(unit));
}

Id SelectedNodes::producer(Id id) const {
  const Choice& c = choice(id);
  if (c.folded) return id;
  const ENode node = task_.e().node(c.node);
  return task_.g.key(node.op).op_type == kProjOp ? task_.e().find(node.children[0]) : id;
}

std::vector<std::size_t> SelectedNodes::in_order() const {
  std::vector<std::vector<std::size_t>> parents(units.size());
  std::vector<std::size_t> missing(units.size(), 0), order;
  for (std::size_t u = 0; u < units.size(); ++u) {
    std::set<std::size_t> needs;
    for (Id child : units[u].children)
      if (auto it = unit_of_.find(producer(child)); it != unit_of_.end()) needs.insert(it->second);
    missing[u] = needs.size();
    for (std::size_t n : needs) parents[n].push_back(u);
  }
  using Entry = std::pair<std::size_t, std::size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (std::size_t u = 0; u < units.size(); ++u)
    if (missing[u] == 0) ready.emplace(units[u].position, u);
  while (!ready.empty()) {
    const std::size_t u = ready.top().second;
    ready.pop();
    order.push_back(u);
    for (std::size_t p : parents[u])
      if (--missing[p] == 0) ready.emplace(units[p].position, p);
  }
  return order;
}

}  // namespace saturate
