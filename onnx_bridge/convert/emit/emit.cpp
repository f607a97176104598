#include "onnx_bridge/convert/emit/emit.h"

#include <algorithm>
#include <climits>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "egraph/stop.h"
#include "fmt/format.h"
#include "onnx_bridge/convert/emit/emit_parts.h"
#include "onnx_bridge/model/constant_inputs.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/model/uncalled_functions.h"
#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/opsets/canonical.h"

namespace saturate {
namespace {

std::optional<NodeId> constant_leaf(const EmitTask& task, Id id) {
  for (const NodeId n : task.e().class_nodes(id))
    if (task.g.key(task.e().node(n).op).op_type == kConstantOp) return n;
  return std::nullopt;
}

// Inputs that a message names and its canonical form does not, as the roi of a Resize that takes none: constants are written for it.
void take_dropped_inputs(const EmitTask& task, const OpsetForms& forms, SelectedNodes& nodes) {
  std::unordered_set<Id> taken(nodes.classes.begin(), nodes.classes.end());
  for (EmitUnit& unit : nodes.units) {
    if (!unit.source || !forms.keeps_meaning(*unit.source->node)) continue;
    for (std::size_t i = 0; i < unit.source->inputs.size(); ++i) {
      const Id id = task.e().find(unit.source->inputs[i]);
      const bool dropped =
          (i >= unit.children.size() || task.is_absent(unit.children[i])) &&
          std::find(unit.children.begin(), unit.children.end(), id) == unit.children.end();  // else the scales of an Upsample
      if (task.is_absent(id) || (taken.contains(id) && !dropped)) continue;
      const auto leaf = constant_leaf(task, id);
      if (!leaf && !task.g.facts(id).value) {  // computed, perhaps after this node
        unit.canonical = true;
      } else if (taken.insert(id).second) {
        nodes.add_constant(id, leaf ? Choice{*leaf, false} : Choice{kNone, true});
      }
    }
  }
}

// Writes constants and nodes into a graph, under the names that are chosen.
class NodeWriter {
 public:
  NodeWriter(const EmitTask& task, const SelectedNodes& nodes, const OpsetForms& forms, Graph& graph)
      : task_(task), nodes_(nodes), forms_(forms), names_(task, nodes), graph_(graph) {
    note_node_names(task.model().graph);
  }

  absl::Status write() {
    if (auto s = write_constants(); !s.ok()) return s;
    for (std::size_t u : nodes_.in_order()) {
      heed_stop();
      if (auto s = write_unit(nodes_.units[u]); !s.ok()) return s;
    }
    write_output_copies();
    drop_unread();
    return absl::OkStatus();
  }
  const ValueNames& names() const { return names_; }
  const std::set<std::string>& new_domains() const { return new_domains_; }

 private:
  absl::Status write_constants() {
    std::set<const Initializer*> written;
    std::vector<const Initializer*> kept;
    std::unordered_map<std::string_view, const Initializer*> named;
    for (const Initializer& i : task_.model().graph.initializers) named.emplace(i.name, &i);
    for (Id id : nodes_.classes) {
      heed_stop();
      const Choice& c = nodes_.choice(id);
      if (c.folded) continue;
      const ENode node = task_.e().node(c.node);
      const OpKey& key = task_.g.key(node.op);
      if (key.op_type == kInputOp) {
        if (const auto it = named.find(key.attributes[0].s()); it != named.end()) kept.push_back(it->second);
      } else if (key.op_type == kConstantOp) {
        if (auto it = task_.lowered.initializers.find(node.op); it != task_.lowered.initializers.end()) kept.push_back(it->second);
      }
    }
    written.insert(kept.begin(), kept.end());
    for (const ValueInfo& input : task_.model().graph.inputs)  // defaults of inputs belong to the interface, used or not
      if (const auto it = named.find(input.name); it != named.end() && task_.model().ir_version >= 4) written.insert(it->second);
    for (const Initializer& i : task_.model().graph.initializers)
      if (written.contains(&i)) graph_.initializers.push_back(i);
    for (Id id : nodes_.constants)
      if (auto s = write_constant(id); !s.ok()) return s;
    return absl::OkStatus();
  }

  absl::Status write_constant(Id id) {
    const Choice& c = nodes_.choice(id);
    if (c.folded) {
      auto value = task_.g.value(id, ~std::size_t{0});
      if (!value) return absl::FailedPreconditionError(fmt::format("class {} cannot be folded", id));
      graph_.initializers.push_back({names_.of(id), *value, nullptr, false});
      return absl::OkStatus();
    }
    const OpId op = task_.e().node(c.node).op;
    if (auto it = task_.lowered.initializers.find(op); it != task_.lowered.initializers.end()) return absl::OkStatus();
    const auto it = task_.lowered.constant_nodes.find(op);
    const bool stays = !task_.options.only_initializers || (it != task_.lowered.constant_nodes.end() && task_.is_output(names_.of(id)));
    if (it != task_.lowered.constant_nodes.end() && stays) {
      Node node = *it->second;
      node.outputs[0] = names_.of(id);
      graph_.nodes.push_back(std::move(node));
      return absl::OkStatus();
    }
    if (task_.lowered.captured_constants.contains(op)) return absl::OkStatus();
    graph_.initializers.push_back({names_.of(id), task_.g.constant_tensor(op), nullptr, false});
    return absl::OkStatus();
  }

  // Constants of canonical forms (axes and the like) that no written node names: their reader was written back as it was. Where bodies were
  // optimized, also what they no longer take from here.
  void drop_unread() const {
    std::unordered_set<std::string> kept;
    if (task_.model().ir_version >= 4)
      for (const ValueInfo& input : task_.model().graph.inputs) kept.insert(input.name);  // their defaults
    if (task_.options.bodies.empty()) {
      for (const Initializer& i : task_.model().graph.initializers) kept.insert(i.name);
      for (const Node& node : graph_.nodes) kept.insert(node.outputs.begin(), node.outputs.end());
    }
    erase_unread(graph_, kept);
  }

  absl::Status write_unit(const EmitUnit& unit) {
    const OpKey& key = task_.g.key(task_.e().node(unit.node).op);
    if (unit.source && !unit.canonical && names_outputs(unit) && forms_.keeps_meaning(*unit.source->node) && forms_.takes_types(unit)) {
      write_original(unit);
      return absl::OkStatus();
    }
    if (key.version != 0) {
      const std::string& name = unit.source ? unit.source->node->name : key.op_type;
      return absl::FailedPreconditionError(fmt::format("node '{}': {} of opset {} has no form in opset {}; --keep-opset keeps the model's",
                                                       name, key.op_type, task_.model().opset(key.domain), forms_.opset()));
    }
    return write_canonical(unit);
  }

  // Whether the message has a place for each output that is read: an operator of rules has all that it is defined with.
  static bool names_outputs(const EmitUnit& unit) {
    return unit.outputs.empty() || unit.outputs.rbegin()->first < static_cast<int>(unit.source->node->outputs.size());
  }

  void write_original(const EmitUnit& unit) {
    Node node = *unit.source->node;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (!node.inputs[i].empty()) node.inputs[i] = names_.of(unit.source->inputs[i]);
    std::map<std::string, std::string> renamed;
    for (std::size_t i = 0; i < unit.source->captures.size(); ++i) {
      const Id id = unit.source->inputs[node.inputs.size() + i];
      if (!task_.is_absent(id) && names_.of(id) != unit.source->captures[i]) renamed[unit.source->captures[i]] = names_.of(id);
    }
    for (Attribute& a : node.attributes) {
      if (a.type != AttributeType::kGraph) continue;
      if (auto it = task_.options.bodies.find(&a.g()); it != task_.options.bodies.end()) a.value = it->second;
      if (!renamed.empty()) a.value = rename_captures(a.g(), renamed);
    }
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i) {
      if (auto it = unit.outputs.find(i); it != unit.outputs.end())
        node.outputs[i] = names_.of(it->second);
      else if (!node.outputs[i].empty() && !names_.take(node.outputs[i]))
        node.outputs[i] = names_.fresh("unused");
    }
    node.name = given_name(node.name);
    note_domain(node.domain);
    note_written(unit, true, first_output(node), {first_output(node)});
    graph_.nodes.push_back(std::move(node));
  }

  void note_node_names(const Graph& graph) {
    for (const Node& node : graph.nodes) {
      model_node_names_.insert(node.name);
      for_each_body(node, [this](const Graph& body) { note_node_names(body); });
    }
  }

  // The name that a node has in the model; one like it where the model has two nodes of one name, which ONNX Runtime refuses.
  std::string given_name(const std::string& name) { return name.empty() || node_names_.insert(name).second ? name : made_name(name); }

  // A name for a node that is made: the model's node of this name may be about another value by now.
  std::string made_name(const std::string& base) {
    for (int k = 0;; ++k) {
      std::string name = k == 0 ? base : fmt::format("{}_{}", base, k);
      if (!model_node_names_.contains(name) && node_names_.insert(name).second) return name;
    }
  }

  void note_written(const EmitUnit& unit, bool kept, const std::string& output, std::vector<std::string> values) const {
    if (!task_.options.written) return;
    WrittenNode written{unit.node, unit.source, kept, key_name(task_, unit), output, std::move(values), unit.children, {}};
    for (const auto& [index, id] : unit.outputs) written.outputs.push_back(task_.e().find(id));
    task_.options.written->push_back(std::move(written));
  }

  // How many outputs an attention operator names where it is given a cache. The later ones, the grown cache, are optional by their schemas,
  // but ONNX Runtime fails without them (Attention), or is silently wrong (MultiHeadAttention).
  static std::size_t cache_outputs(const Node& node) {
    auto given = [&](std::size_t i) { return i < node.inputs.size() && !node.inputs[i].empty(); };
    if (node.op_type == "Attention" && given(4)) return node.domain.empty() ? 3 : 2;
    if (node.op_type == "MultiHeadAttention" && given(6)) return 3;
    return 0;
  }

  absl::Status write_canonical(const EmitUnit& unit) {
    Node node = canonical_node(task_, unit);
    const ENode enode = task_.e().node(unit.node);
    if (forms_.opset() >= 14 && wants_zeros(task_, unit)) node.attributes = {Attribute::of("allowzero", std::int64_t{1})};
    for (std::size_t i = 0; i < enode.children.size(); ++i) node.inputs[i] = names_.of(enode.children[i]);
    while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i) {
      auto it = unit.outputs.find(i);
      node.outputs[i] = it == unit.outputs.end() ? "" : names_.of(it->second);
    }
    const OpSchema* schema = find_schema(node.domain, node.op_type, node.domain.empty() ? forms_.opset() : INT_MAX);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {  // every output of a variadic operator and the required ones need a name
      const bool variadic = schema && !schema->outputs.empty() && schema->outputs.back().variadic;
      const bool needed = i == 0 || (schema && i < static_cast<std::size_t>(schema->min_outputs)) ||
                          (variadic && i + 1 >= schema->outputs.size()) || i < cache_outputs(node);
      if (node.outputs[i].empty() && needed) node.outputs[i] = names_.fresh("unused");
    }
    while (node.outputs.size() > 1 && node.outputs.back().empty()) node.outputs.pop_back();
    auto written = from_canonical(node, forms_.opset(), input_facts(task_, unit), task_.g.dims(), node.outputs[0]);
    if (!written.ok()) return written.status();
    name_made_values(node, *written);
    for (Initializer& c : written->constants) graph_.initializers.push_back(std::move(c));
    std::vector<std::string> values;
    for (Node& part : written->nodes) {
      values.push_back(first_output(part));
      part.origin = nullptr;
      if (part.name.empty())
        part.name = unit.source && written->nodes.size() == 1 ? given_name(unit.source->node->name)
                                                              : made_name(fmt::format("{}/{}", part.outputs[0], part.op_type));
      note_domain(part.domain);
      graph_.nodes.push_back(std::move(part));
    }
    note_written(unit, false, node.outputs[0], std::move(values));
    return absl::OkStatus();
  }

  // Values that an older form needs beside the node's own outputs are named after these, as the model may name its values, too.
  void name_made_values(const Node& node, Canonical& written) {
    std::map<std::string, std::string> names;
    const auto own = [&](const std::string& name) {
      return std::find(node.outputs.begin(), node.outputs.end(), name) != node.outputs.end();
    };
    const auto rename = [&](std::string& name) {
      const std::string& made = names[name] = names_.unused(name);
      name = made;
    };
    for (Initializer& c : written.constants) rename(c.name);
    for (Node& part : written.nodes)
      for (std::string& output : part.outputs)
        if (!output.empty() && !own(output)) rename(output);
    for (Node& part : written.nodes)
      for (std::string& input : part.inputs)
        if (const auto it = names.find(input); it != names.end()) input = it->second;
  }

  void note_domain(const std::string& domain) {
    if (!domain.empty() && !task_.model().opset_imports.contains(domain)) new_domains_.insert(domain);
  }

  // Outputs whose value already bears another name.
  void write_output_copies() {
    std::unordered_set<std::string_view> seen;
    for (std::size_t i = 0; i < task_.lowered.roots.size(); ++i) {
      const std::string& from = names_.of(task_.lowered.roots[i]);
      const std::string& to = task_.model().graph.outputs[i].name;
      const bool again = !seen.insert(to).second;  // the same output listed twice
      if (from == to || again) continue;
      Node copy;
      copy.op_type = "Identity";
      copy.name = made_name(to + "/Identity");
      copy.inputs = {from};
      copy.outputs = {to};
      if (task_.options.written)
        task_.options.written->push_back({kNone, nullptr, false, copy.op_type, to, {to}, {task_.e().find(task_.lowered.roots[i])}, {}});
      graph_.nodes.push_back(std::move(copy));
    }
  }

  const EmitTask& task_;
  const SelectedNodes& nodes_;
  const OpsetForms& forms_;
  ValueNames names_;
  Graph& graph_;
  std::set<std::string> new_domains_;
  std::unordered_set<std::string> model_node_names_, node_names_;  // of the model and its bodies; given so far
};

bool calls(const std::vector<Node>& nodes, const Function& f, bool of_model) {
  return std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) {
    if (node.domain == f.domain && node.op_type == f.name && node.overload == f.overload && (!of_model || node.origin != nullptr))
      return true;
    bool within = false;
    for_each_body(node, [&](const Graph& body) { within = within || calls(body.nodes, f, false); });
    return within;
  });
}

// A function with the name of an operator goes where all nodes of that name are the operator, which rules made: they would call it.
void drop_shadowing_functions(Model& model) {
  const auto is_shadowing = [&](const Function& f) {
    const auto within = [&](const Function& other) { return calls(other.nodes, f, false); };
    return !schema_versions(f.domain, f.name).empty() && calls(model.graph.nodes, f, false) && !calls(model.graph.nodes, f, true) &&
           std::none_of(model.functions.begin(), model.functions.end(), within);
  };
  std::vector<bool> goes;  // told before any does
  for (const Function& f : model.functions) goes.push_back(is_shadowing(f));
  if (std::none_of(goes.begin(), goes.end(), [](bool g) { return g; })) return;
  std::vector<Function> kept;
  for (std::size_t i = 0; i < goes.size(); ++i)
    if (!goes[i]) kept.push_back(std::move(model.functions[i]));
  model.functions = std::move(kept);
}

}  // namespace

absl::StatusOr<Model> emit_model(const OnnxEGraph& egraph, const Lowered& lowered, const Selection& selection,
                                 const EmitModelOptions& options) {
  const EmitTask task(egraph, lowered, selection, options);
  SelectedNodes nodes(task);
  const absl::StatusOr<OpsetForms> forms = OpsetForms::choose(task, nodes.units);
  if (!forms.ok()) return forms.status();
  take_dropped_inputs(task, *forms, nodes);
  Model out = task.model();
  out.graph.nodes.clear();
  out.graph.initializers.clear();
  NodeWriter writer(task, nodes, *forms, out.graph);
  if (auto s = writer.write(); !s.ok()) return s;
  if (forms->opset() > task.model().opset(""))
    out.ir_version = std::max<std::int64_t>(out.ir_version, ir_version_for_opset(forms->opset()));
  settle_constant_inputs(out, task.model());
  write_types(task, nodes, writer.names(), out.graph);
  out.opset_imports[""] = forms->opset();
  for (const std::string& domain : writer.new_domains()) {
    const auto version = options.domain_versions.find(domain);
    out.opset_imports.try_emplace(domain, version == options.domain_versions.end() ? 1 : version->second);
  }
  out.opset_imports.insert(options.body_imports.begin(), options.body_imports.end());
  drop_shadowing_functions(out);
  return without_uncalled_functions(std::move(out), task.model());
}

}  // namespace saturate
