#include "onnx_bridge/graph/model_edits.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <unordered_set>

#include "onnx_bridge/model/subgraphs.h"

namespace saturate {
namespace {

using NameSet = std::unordered_set<std::string>;

void change_graphs(Node& node, const std::function<bool(Graph&)>& change) {
  for (Attribute& a : node.attributes) {
    if (a.type != AttributeType::kGraph) continue;
    auto body = std::make_shared<Graph>(a.g());
    if (!change(*body)) continue;
    a.value = std::shared_ptr<const Graph>(std::move(body));
    node.origin = nullptr;
  }
}

std::size_t count_nodes_of(const std::vector<Node>& nodes) {
  std::size_t count = nodes.size();
  for (const Node& node : nodes)
    for (const Attribute& a : node.attributes)
      if (a.type == AttributeType::kGraph) count += count_nodes_of(a.g().nodes);
  return count;
}

// Of graph and bodies: whether something went.
bool erase_unread_inside(Graph& graph) {
  const std::size_t before = graph.nodes.size(), tensors = graph.initializers.size();
  erase_unread(graph, {});
  bool changed = graph.nodes.size() != before || graph.initializers.size() != tensors;
  for (Node& node : graph.nodes)
    change_graphs(node, [&](Graph& body) {
      const bool inside = erase_unread_inside(body);
      changed |= inside;
      return inside;
    });
  return changed;
}

void erase_unread_inside(Function& function) {
  Graph graph;
  for (const std::string& output : function.outputs) graph.outputs.push_back({output, {}, nullptr});
  graph.nodes = std::move(function.nodes);
  if (erase_unread_inside(graph)) function.origin = nullptr;
  function.nodes = std::move(graph.nodes);
}

using Callee = std::tuple<std::string, std::string, std::string>;

void collect_called(const std::vector<Node>& nodes, std::set<Callee>& called, std::set<std::string>& domains) {
  for (const Node& node : nodes) {
    called.insert({node.domain, node.op_type, node.overload});
    domains.insert(node.domain);
    for (const Attribute& a : node.attributes)
      if (a.type == AttributeType::kGraph) collect_called(a.g().nodes, called, domains);
  }
}

void erase_uncalled(Model& model) {
  std::set<Callee> called;
  std::set<std::string> domains{""};
  collect_called(model.graph.nodes, called, domains);
  for (bool more = true; more;) {
    const std::size_t before = called.size();
    for (const Function& f : model.functions)
      if (called.contains({f.domain, f.name, f.overload})) collect_called(f.nodes, called, domains);
    more = called.size() > before;
  }
  std::erase_if(model.functions, [&](const Function& f) { return !called.contains({f.domain, f.name, f.overload}); });
  std::erase_if(model.opset_imports, [&](const auto& import) { return !domains.contains(import.first); });
}

void forget_origins(std::vector<Node>& nodes) {
  for (Node& node : nodes) {
    node.origin = nullptr;
    change_graphs(node, [](Graph& body) {
      body.origin = nullptr;
      body.value_info.clear();
      forget_origins(body.nodes);
      return true;
    });
  }
}

}  // namespace

std::size_t count_nodes(const Model& model) {
  std::size_t count = count_nodes_of(model.graph.nodes);
  for (const Function& f : model.functions) count += count_nodes_of(f.nodes);
  return count;
}

Model without_unread(Model model) {
  Graph& graph = model.graph;
  erase_unread_inside(graph);
  NameSet read;
  for (const ValueInfo& output : graph.outputs) read.insert(output.name);
  for (const Node& node : graph.nodes)
    for (std::string& name : names_read(node)) read.insert(std::move(name));
  std::erase_if(graph.inputs, [&](const ValueInfo& input) { return !read.contains(input.name); });
  std::erase_if(graph.value_info, [&](const ValueInfo& v) { return !read.contains(v.name); });
  for (Function& f : model.functions) erase_unread_inside(f);
  erase_uncalled(model);
  return model;
}

Model plain(Model model) {
  model.origin = nullptr;
  model.graph.origin = nullptr;
  model.graph.value_info.clear();
  for (auto* infos : {&model.graph.inputs, &model.graph.outputs})
    for (ValueInfo& info : *infos)
      if (info.type.kind == ValueType::Kind::kTensor) info.origin = nullptr;
  for (Initializer& i : model.graph.initializers)
    if (!i.sparse) i.origin = nullptr;
  forget_origins(model.graph.nodes);
  for (Function& f : model.functions) {
    f.origin = nullptr;
    forget_origins(f.nodes);
  }
  return model;
}

std::optional<Model> induced(const Model& model, const std::vector<bool>& keep, const ValueTypes& types) {
  Model out = model;
  Graph& graph = out.graph;
  graph.nodes.clear();
  NameSet made, given, read, read_by_others;
  for (const ValueInfo& v : graph.inputs) given.insert(v.name);
  for (const Initializer& i : graph.initializers) given.insert(i.name);
  for (std::size_t i = 0; i < keep.size(); ++i) {
    const Node& node = model.graph.nodes[i];
    if (!keep[i]) {
      for (std::string& name : names_read(node)) read_by_others.insert(std::move(name));
      continue;
    }
    for (const std::string& o : node.outputs)
      if (!o.empty()) made.insert(o);
    graph.nodes.push_back(node);
  }
  for (const Node& node : graph.nodes)
    for (std::string& name : names_read(node)) {
      if (!made.contains(name) && given.insert(name).second) {
        const auto type = types.find(name);
        if (type == types.end()) return std::nullopt;
        graph.inputs.push_back({name, type->second, nullptr});
      }
      read.insert(std::move(name));
    }
  std::erase_if(graph.outputs, [&](const ValueInfo& o) { return !made.contains(o.name); });
  NameSet outputs;
  for (const ValueInfo& o : graph.outputs) outputs.insert(o.name);
  for (const Node& node : graph.nodes)
    for (const std::string& o : node.outputs) {
      if (o.empty() || read.contains(o) || !read_by_others.contains(o) || !outputs.insert(o).second) continue;
      const auto type = types.find(o);
      graph.outputs.push_back({o, type == types.end() ? ValueType{} : type->second, nullptr});
    }
  if (graph.outputs.empty()) return std::nullopt;
  return without_unread(std::move(out));
}

std::optional<Model> with_outputs(const Model& model, const std::vector<bool>& keep) {
  Model out = model;
  out.graph.outputs.clear();
  for (std::size_t i = 0; i < keep.size(); ++i)
    if (keep[i]) out.graph.outputs.push_back(model.graph.outputs[i]);
  if (out.graph.outputs.empty()) return std::nullopt;
  return without_unread(std::move(out));
}

Model with_initializers(const Model& model, const std::vector<bool>& keep) {
  Model out = model;
  out.graph.initializers.clear();
  NameSet inputs;
  for (const ValueInfo& v : model.graph.inputs) inputs.insert(v.name);
  for (std::size_t i = 0; i < keep.size(); ++i) {
    const Initializer& tensor = model.graph.initializers[i];
    if (keep[i] || tensor.sparse) {
      out.graph.initializers.push_back(tensor);
      continue;
    }
    if (inputs.contains(tensor.name)) continue;
    ValueType type{ValueType::Kind::kTensor, tensor.tensor.dtype(), std::vector<DimSpec>(), nullptr};
    type.shape->assign(tensor.tensor.dims().begin(), tensor.tensor.dims().end());
    out.graph.inputs.push_back({tensor.name, std::move(type), nullptr});
  }
  return out;
}

Model with_constants_outside(Model model) {
  std::erase_if(model.graph.nodes, [&](const Node& node) {
    const Attribute* value = node.op_type == "Constant" && node.domain.empty() ? find_attribute(node.attributes, "value") : nullptr;
    if (!value || value->type != AttributeType::kTensor || node.outputs.size() != 1) return false;
    model.graph.initializers.push_back({node.outputs[0], value->t(), nullptr, false});
    return true;
  });
  return model;
}

namespace {

void collect_scopes(const std::vector<Node>& nodes, const Scope& at, std::vector<Scope>& out) {
  out.push_back(at);
  for (std::size_t n = 0; n < nodes.size(); ++n)
    for (std::size_t a = 0; a < nodes[n].attributes.size(); ++a) {
      if (nodes[n].attributes[a].type != AttributeType::kGraph) continue;
      Scope inside = at;
      inside.bodies.emplace_back(n, a);
      collect_scopes(nodes[n].attributes[a].g().nodes, inside, out);
    }
}

// The graph of a body, to be changed; null for the nodes that stand in the graph or function itself.
Graph* edit_body(Model& model, const Scope& scope) {
  std::vector<Node>* nodes = scope.function < 0 ? &model.graph.nodes : &model.functions[static_cast<std::size_t>(scope.function)].nodes;
  if (scope.function >= 0) model.functions[static_cast<std::size_t>(scope.function)].origin = nullptr;
  Graph* body = nullptr;
  for (const auto& [node, attribute] : scope.bodies) {
    Node& n = (*nodes)[node];
    auto copy = std::make_shared<Graph>(n.attributes[attribute].g());
    body = copy.get();
    nodes = &copy->nodes;
    n.attributes[attribute].value = std::shared_ptr<const Graph>(std::move(copy));
    n.origin = nullptr;
  }
  return body;
}

}  // namespace

std::vector<Scope> scopes(const Model& model) {
  std::vector<Scope> out;
  collect_scopes(model.graph.nodes, {}, out);
  for (std::size_t f = 0; f < model.functions.size(); ++f) collect_scopes(model.functions[f].nodes, {static_cast<int>(f), {}}, out);
  return out;
}

const std::vector<Node>& nodes_of(const Model& model, const Scope& scope) {
  const std::vector<Node>* nodes =
      scope.function < 0 ? &model.graph.nodes : &model.functions[static_cast<std::size_t>(scope.function)].nodes;
  for (const auto& [node, attribute] : scope.bodies) nodes = &(*nodes)[node].attributes[attribute].g().nodes;
  return *nodes;
}

std::vector<Node>& edit_nodes(Model& model, const Scope& scope) {
  if (Graph* body = edit_body(model, scope)) return body->nodes;
  return scope.function < 0 ? model.graph.nodes : model.functions[static_cast<std::size_t>(scope.function)].nodes;
}

Model bypassed(const Model& model, const Scope& scope, const std::vector<Bypass>& bypasses) {
  Model out = model;
  std::vector<Node>& nodes = edit_nodes(out, scope);
  std::map<std::string, std::string> instead;  // nodes are sorted: what stands for an input is known already
  const auto final_name = [&](const std::string& name) {
    const auto it = instead.find(name);
    return it == instead.end() ? name : it->second;
  };
  std::vector<Node> kept;
  std::size_t next = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes[i];
    if (next < bypasses.size() && bypasses[next].node == i) {
      const std::string input = final_name(node.inputs[bypasses[next++].input]);
      for (const std::string& o : node.outputs)
        if (!o.empty()) instead[o] = input;
      continue;
    }
    for (std::string& input : node.inputs) input = final_name(input);
    for (Attribute& a : node.attributes)
      if (a.type == AttributeType::kGraph && !instead.empty()) a.value = rename_captures(a.g(), instead);
    kept.push_back(std::move(node));
  }
  // Outputs keep their names: an Identity gives what stands there now.
  std::vector<std::string> outputs;
  if (scope.is_main())
    for (const ValueInfo& o : out.graph.outputs) outputs.push_back(o.name);
  else if (scope.bodies.empty())
    outputs = out.functions[static_cast<std::size_t>(scope.function)].outputs;
  else
    for (const ValueInfo& o : edit_body(out, scope)->outputs) outputs.push_back(o.name);
  for (const std::string& o : outputs)
    if (instead.contains(o)) {
      const std::string from = instead[o];
      const auto maker = std::find_if(
          kept.begin(), kept.end(), [&](const Node& n) { return std::find(n.outputs.begin(), n.outputs.end(), from) != n.outputs.end(); });
      const bool taken = maker == kept.end() || std::find(outputs.begin(), outputs.end(), from) != outputs.end();
      if (taken) {
        Node& identity = kept.emplace_back();
        identity.op_type = "Identity";
        identity.inputs = {from};
        identity.outputs = {o};
        continue;
      }
      for (Node& n : kept) {
        std::replace(n.inputs.begin(), n.inputs.end(), from, o);
        std::replace(n.outputs.begin(), n.outputs.end(), from, o);
        for (Attribute& a : n.attributes)
          if (a.type == AttributeType::kGraph) a.value = rename_captures(a.g(), {{from, o}});
      }
      for (auto& [name, other] : instead)
        if (other == from) other = o;
    }
  edit_nodes(out, scope) = std::move(kept);
  return without_unread(std::move(out));
}

std::optional<Model> cut_in_body(const Model& model, const Scope& scope, std::size_t node, const ValueTypes& types) {
  Model out = model;
  Graph* body = edit_body(out, scope);
  if (!body || scope.function >= 0) return std::nullopt;
  const std::vector<std::string> outputs = body->nodes[node].outputs;
  for (const std::string& o : outputs) {
    if (o.empty()) continue;
    const auto type = types.find(o);
    if (type == types.end()) return std::nullopt;
    const auto gives = [&](const ValueInfo& v) { return v.name == o; };
    if (std::any_of(body->outputs.begin(), body->outputs.end(), gives)) return std::nullopt;
    if (std::any_of(out.graph.inputs.begin(), out.graph.inputs.end(), gives)) return std::nullopt;
    out.graph.inputs.push_back({o, type->second, nullptr});
  }
  body->nodes.erase(body->nodes.begin() + static_cast<std::ptrdiff_t>(node));
  return without_unread(std::move(out));
}

}  // namespace saturate
