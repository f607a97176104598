// Calls and bodies written out.
#include <algorithm>
#include <set>
#include <unordered_set>

#include "fmt/format.h"
#include "onnx_bridge/graph/model_edits.h"
#include "onnx_bridge/model/subgraphs.h"

namespace saturate {
namespace {

using Renamed = std::map<std::string, std::string>;

// Nodes that go into the main graph under names that nothing has.
class Splice {
 public:
  explicit Splice(const Model& model) : out(model) {
    collect_names(out.graph, taken_);
    for (int k = 0;; ++k) {
      prefix_ = fmt::format("inlined{}_", k);
      if (std::none_of(taken_.begin(), taken_.end(), [&](const std::string& name) { return name.starts_with(prefix_); })) break;
    }
  }

  std::string fresh(const std::string& name) {
    std::string made = prefix_ + name;
    while (!taken_.insert(made).second) made += "_";
    return made;
  }

  // Names that the nodes and initializers define; those in `renamed` already keep what is said there.
  void rename_defined(const std::vector<Node>& nodes, const std::vector<Initializer>& initializers) {
    for (const Initializer& i : initializers) name_anew(i.name);
    for (const Node& node : nodes)
      for (const std::string& o : node.outputs)
        if (!o.empty()) name_anew(o);
  }

  Node moved(Node node) const {
    node.origin = nullptr;
    for (std::string& name : node.inputs) name = name_of(name);
    for (std::string& name : node.outputs) name = name_of(name);
    for (Attribute& a : node.attributes)
      if (a.type == AttributeType::kGraph) a.value = rename_captures(a.g(), renamed);
    return node;
  }

  std::string name_of(const std::string& name) const {
    const auto it = renamed.find(name);
    return it == renamed.end() ? name : it->second;
  }

  void add_initializers(const std::vector<Initializer>& initializers) {
    for (Initializer i : initializers) {
      i.name = name_of(i.name);
      if (!i.sparse) i.origin = nullptr;
      out.graph.initializers.push_back(std::move(i));
    }
  }

  void put(std::size_t at, std::vector<Node> nodes) {
    auto& all = out.graph.nodes;
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(at), std::make_move_iterator(nodes.begin()), std::make_move_iterator(nodes.end()));
  }

  Model out;
  Renamed renamed;

 private:
  void name_anew(const std::string& name) {
    if (!renamed.contains(name)) renamed[name] = fresh(name);
  }
  std::unordered_set<std::string> taken_;
  std::string prefix_;
};

Node identity_node(const std::string& from, const std::string& to) {
  Node node;
  node.op_type = "Identity";
  node.inputs = {from};
  node.outputs = {to};
  return node;
}

// Attributes that a call gives, or the function's defaults, in the place of references.
void fill_attributes(std::vector<Attribute>& attributes, const Function& f, const Node& call) {
  std::vector<Attribute> filled;
  for (Attribute& a : attributes) {
    if (a.ref.empty()) {
      if (a.type == AttributeType::kGraph) {
        auto body = std::make_shared<Graph>(a.g());
        for (Node& node : body->nodes) {
          fill_attributes(node.attributes, f, call);
          node.origin = nullptr;
        }
        a.value = std::shared_ptr<const Graph>(std::move(body));
      }
      filled.push_back(std::move(a));
      continue;
    }
    const Attribute* value = find_attribute(call.attributes, a.ref);
    if (!value) value = find_attribute(f.attribute_defaults, a.ref);
    if (!value) continue;
    Attribute copy = *value;
    copy.name = a.name;
    copy.raw = nullptr;
    filled.push_back(std::move(copy));
  }
  attributes = std::move(filled);
}

bool imports_fit(Model& model, const Function& f) {
  for (const auto& [domain, version] : f.opset_imports)
    if (model.opset_imports.try_emplace(domain, version).first->second != version) return false;
  return true;
}

}  // namespace

std::optional<Model> with_call_inlined(const Model& model, std::size_t at) {
  const Node call = model.graph.nodes[at];
  const auto f = std::find_if(model.functions.begin(), model.functions.end(), [&](const Function& g) {
    return g.domain == call.domain && g.name == call.op_type && g.overload == call.overload;
  });
  if (f == model.functions.end() || call.outputs.size() > f->outputs.size()) return std::nullopt;
  Splice splice(model);
  if (!imports_fit(splice.out, *f)) return std::nullopt;
  for (std::size_t i = 0; i < f->inputs.size(); ++i) splice.renamed[f->inputs[i]] = i < call.inputs.size() ? call.inputs[i] : "";
  std::vector<Node> nodes;
  std::vector<std::pair<std::string, std::string>> handed_on;  // an input that is an output, or an output that is one twice
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.outputs[i].empty()) continue;
    if (!splice.renamed.try_emplace(f->outputs[i], call.outputs[i]).second) handed_on.emplace_back(f->outputs[i], call.outputs[i]);
  }
  splice.rename_defined(f->nodes, {});
  for (Node node : f->nodes) {
    fill_attributes(node.attributes, *f, call);
    nodes.push_back(splice.moved(std::move(node)));
  }
  for (const auto& [from, to] : handed_on) nodes.push_back(identity_node(splice.name_of(from), to));
  splice.put(at, std::move(nodes));
  return without_unread(std::move(splice.out));
}

namespace {

std::optional<Model> with_branch(const Model& model, std::size_t at, const Graph& body) {
  const Node node = model.graph.nodes[at];
  Splice splice(model);
  splice.rename_defined(body.nodes, body.initializers);
  splice.add_initializers(body.initializers);
  std::vector<Node> nodes;
  for (const Node& n : body.nodes) nodes.push_back(splice.moved(n));
  for (std::size_t i = 0; i < std::min(node.outputs.size(), body.outputs.size()); ++i) {
    if (node.outputs[i].empty()) continue;
    const std::string from = splice.name_of(body.outputs[i].name);
    bool renamed = false;
    if (from != body.outputs[i].name)  // its own value: that takes the name of the node's output
      for (Node& n : nodes) {
        if (std::find(n.outputs.begin(), n.outputs.end(), from) != n.outputs.end()) renamed = true;
        std::replace(n.outputs.begin(), n.outputs.end(), from, node.outputs[i]);
        std::replace(n.inputs.begin(), n.inputs.end(), from, node.outputs[i]);
        for (Attribute& a : n.attributes)
          if (a.type == AttributeType::kGraph) a.value = rename_captures(a.g(), {{from, node.outputs[i]}});
      }
    if (!renamed) nodes.push_back(identity_node(from, node.outputs[i]));
  }
  splice.put(at, std::move(nodes));
  return without_unread(std::move(splice.out));
}

// The type of a body's input: declared, or that of what the node hands over (of a Loop's number of turns and condition: known).
std::optional<ValueType> type_of_body_input(const Node& node, const Graph& body, std::size_t i, const ValueTypes& types) {
  const ValueType& declared = body.inputs[i].type;
  if (declared.kind != ValueType::Kind::kUnknown && declared.kind != ValueType::Kind::kTensor) return declared;
  if (declared.kind == ValueType::Kind::kTensor && declared.dtype != DType::kUndefined && declared.shape) return declared;
  if (node.op_type == "Loop") {
    if (i < 2) return ValueType{ValueType::Kind::kTensor, i == 0 ? DType::kInt64 : DType::kBool, std::vector<DimSpec>(), nullptr};
    const auto type = i < node.inputs.size() ? types.find(node.inputs[i]) : types.end();
    if (type != types.end()) return type->second;
  }
  if (declared.kind == ValueType::Kind::kTensor && declared.dtype != DType::kUndefined) return declared;
  return std::nullopt;
}

}  // namespace

std::optional<Model> with_body_taken_out(const Model& model, std::size_t at, std::size_t attribute, const ValueTypes& types) {
  const Node node = model.graph.nodes[at];
  const Graph& body = node.attributes[attribute].g();
  if (node.op_type == "If") return with_branch(model, at, body);
  Splice splice(model);
  Graph& graph = splice.out.graph;
  for (std::size_t i = 0; i < body.inputs.size(); ++i) {
    const auto type = type_of_body_input(node, body, i, types);
    if (!type) return std::nullopt;
    const std::string name = splice.fresh(body.inputs[i].name);
    splice.renamed[body.inputs[i].name] = name;
    graph.inputs.push_back({name, *type, nullptr});
  }
  splice.rename_defined(body.nodes, body.initializers);
  splice.add_initializers(body.initializers);
  std::vector<Node> nodes;
  std::set<std::string> made;
  for (const Node& n : body.nodes) {
    nodes.push_back(splice.moved(n));
    made.insert(nodes.back().outputs.begin(), nodes.back().outputs.end());
  }
  for (const std::string& o : node.outputs) {
    if (o.empty()) continue;
    std::erase_if(graph.outputs, [&](const ValueInfo& v) { return v.name == o; });
    const auto type = types.find(o);
    if (type == types.end()) return std::nullopt;
    graph.inputs.push_back({o, type->second, nullptr});
  }
  for (const ValueInfo& o : body.outputs)
    if (const std::string name = splice.name_of(o.name); made.erase(name) > 0) graph.outputs.push_back({name, o.type, nullptr});
  splice.put(at, std::move(nodes));
  if (graph.outputs.empty()) return std::nullopt;
  return without_unread(std::move(splice.out));
}

}  // namespace saturate
