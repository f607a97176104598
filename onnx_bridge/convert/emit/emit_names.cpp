#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "onnx_bridge/convert/emit/emit_parts.h"
#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/op_traits.h"

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

namespace {

// Who reads a value, as operators and the first values that these give.
template <typename Value>
using Readers = absl::flat_hash_map<Value, std::vector<std::pair<std::string_view, Value>>>;

// Whether a QuantizeLinear stands behind views of a value of which the first is a Transpose.
template <typename Value>
bool is_quantized_when_turned(const Readers<Value>& readers, const Value& value) {
  std::vector<Value> open;
  const auto reach = [&](const Value& of, auto&& goes_on) {
    const auto it = readers.find(of);
    if (it == readers.end()) return false;
    for (const auto& [op, made] : it->second) {
      if (op == "QuantizeLinear" && !(of == value)) return true;
      if (goes_on(op)) open.push_back(made);
    }
    return false;
  };
  reach(value, [](std::string_view op) { return op == "Transpose"; });
  while (!open.empty()) {
    const Value next = open.back();
    open.pop_back();
    if (reach(next, [](std::string_view op) { return has(Trait::kMovement, op); })) return true;
  }
  return false;
}

}  // namespace

// ONNX Runtime (1.20 to 1.32) moves a QuantizeLinear in front of Transposes even where what these turn is an output, which is then
// quantized. Such an output stays a copy of the value, unless the model itself has it so.
std::vector<bool> ValueNames::copied_outputs(const SelectedNodes& nodes) const {
  const auto quantizes = [&](const EmitUnit& unit) { return is_of_standard(task_.g.key(task_.e().node(unit.node).op), "QuantizeLinear"); };
  if (std::ranges::none_of(nodes.units, quantizes)) return std::vector<bool>(task_.lowered.roots.size());
  std::vector<bool> out;
  Readers<Id> readers;
  Readers<std::string> readers_in_model;
  const auto concerns = [](std::string_view op) { return op == "QuantizeLinear" || has(Trait::kMovement, op); };
  for (const EmitUnit& unit : nodes.units)
    if (const OpKey& key = task_.g.key(task_.e().node(unit.node).op); key.domain.empty() && concerns(key.op_type) && !unit.children.empty())
      readers[task_.e().find(unit.children[0])].emplace_back(key.op_type, task_.e().find(unit.id));
  for (const Node& node : task_.model().graph.nodes)
    if (node.domain.empty() && concerns(node.op_type) && !node.inputs.empty() && !node.outputs.empty())
      readers_in_model[node.inputs[0]].emplace_back(node.op_type, node.outputs[0]);
  for (std::size_t i = 0; i < task_.lowered.roots.size(); ++i)
    out.push_back(is_quantized_when_turned(readers, task_.e().find(task_.lowered.roots[i])) &&
                  !is_quantized_when_turned(readers_in_model, task_.model().graph.outputs[i].name));
  return out;
}

ValueNames::ValueNames(const EmitTask& task, const SelectedNodes& nodes) : task_(task) {
  collect_names(task_.model().graph, used_);
  std::map<Id, std::vector<std::string>> names_of;
  for (const auto& [id, names] : task_.lowered.names) {
    auto& all = names_of[task_.e().find(id)];
    all.insert(all.end(), names.begin(), names.end());
  }
  claim_leaves(nodes);
  const std::vector<bool> copied = copied_outputs(nodes);
  for (std::size_t i = 0; i < task_.lowered.roots.size(); ++i)
    if (!copied[i]) claim(task_.e().find(task_.lowered.roots[i]), task_.model().graph.outputs[i].name);
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
