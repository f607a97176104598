// Structure of untrusted graphs: each name defined once, every use defined, no cycles, no recursion.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "fmt/format.h"
#include "onnx_bridge/file/proto/convert.h"
#include "onnx_bridge/model/node_order.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate::proto {
namespace {

using Names = absl::flat_hash_set<std::string_view>;

std::string node_text(const std::vector<Node>& nodes, std::size_t i) {
  return nodes[i].name.empty() ? fmt::format("node {} ({})", i, nodes[i].op_type)
                               : fmt::format("node {} ({} '{}')", i, nodes[i].op_type, nodes[i].name);
}

template <typename F>
void for_each_graph(const Node& node, const F& visit) {
  for (const Attribute& a : node.attributes) {
    if (const auto* one = std::get_if<std::shared_ptr<const Graph>>(&a.value))
      visit(a, **one);
    else if (const auto* many = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&a.value))
      for (const auto& g : *many) visit(a, *g);
  }
}

void sort(std::vector<Node>& nodes, const Places& places) {
  const std::vector<std::size_t> cycle = sort_nodes(nodes);
  if (cycle.empty()) return;
  std::string text;
  for (std::size_t k = 0; k < cycle.size() && k < 8; ++k) text += (k ? " <- " : "") + node_text(nodes, cycle[k]);
  if (cycle.size() > 8) text += " <- ...";
  places.fail(fmt::format("the graph has a cycle: {} <- {}", text, node_text(nodes, cycle.front())));
}

void check_name(std::string_view name, const char* of, const Places& places) {
  if (name.size() <= kMaxName) return;
  places.fail(fmt::format("the name of {} has {} bytes, at most {} can be: '{}...'", of, name.size(), kMaxName, name.substr(0, 40)));
}

void check_names(const std::vector<ValueInfo>& values, const Places& places) {
  for (const ValueInfo& v : values) {
    check_name(v.name, "a value", places);
    for (const DimSpec& d : v.type.shape.value_or(std::vector<DimSpec>()))
      if (const auto* symbol = std::get_if<std::string>(&d)) check_name(*symbol, "a dim", places);
  }
}

void check_names(const std::vector<Node>& nodes, const Places& places) {
  for (const Node& n : nodes) {
    check_name(n.name, "a node", places);
    for (const std::string* name : {&n.domain, &n.op_type, &n.overload}) check_name(*name, "an operator", places);
    for (const auto* names : {&n.inputs, &n.outputs})
      for (const std::string& name : *names) check_name(name, "a value", places);
    for (const Attribute& a : n.attributes)
      for (const std::string* name : {&a.name, &a.ref}) check_name(*name, "an attribute", places);
  }
}

void check_names(const std::map<std::string, std::int64_t>& opsets, const Places& places) {
  for (const auto& [domain, version] : opsets) check_name(domain, "a domain", places);
}

bool is_constant(const Node& node) { return node.op_type == "Constant" && node.domain.empty() && node.outputs.size() == 1; }

void check_outputs_once(const std::vector<Node>& nodes, Names& defined, const Places& places) {
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const std::string& name : nodes[i].outputs)
      if (!name.empty() && !defined.insert(name).second)
        places.fail(fmt::format("{}: output '{}' is already the name of an input, an initializer or another node's output",
                                node_text(nodes, i), name));
}

// Of Constants that define one name the last holds, as ONNX Runtime reads them ("the model will use the latest encountered initializer").
void keep_last_constants(std::vector<Node>& nodes) {
  Names later;
  std::vector<bool> drop(nodes.size(), false);
  bool any = false;
  for (std::size_t i = nodes.size(); i-- > 0;)
    if (is_constant(nodes[i]) && !later.insert(nodes[i].outputs[0]).second) drop[i] = any = true;
  if (!any) return;
  std::vector<Node> kept;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (!drop[i]) kept.push_back(std::move(nodes[i]));
  nodes = std::move(kept);
}

// Walks scopes from outside in, to name the first use that nothing defines.
class UndefinedFinder {
 public:
  explicit UndefinedFinder(Places& places) : places_(places) {}

  void visit(const Graph& graph) {
    const auto step = places_.enter("graph", graph.name);
    Names& own = scopes_.emplace_back();
    for (const ValueInfo& v : graph.inputs) own.insert(v.name);
    for (const Initializer& i : graph.initializers) own.insert(i.name);
    visit(graph.nodes, own);
    for (const ValueInfo& v : graph.outputs)
      if (!known(v.name)) places_.fail(fmt::format("output '{}' is made by no node", v.name));
    scopes_.pop_back();
  }

  void visit(const Function& function) {
    const auto step = places_.enter("function", function.name);
    Names& own = scopes_.emplace_back();
    own.insert(function.inputs.begin(), function.inputs.end());
    visit(function.nodes, own);
    for (const std::string& name : function.outputs)
      if (!known(name)) places_.fail(fmt::format("output '{}' is made by no node", name));
    scopes_.pop_back();
  }

 private:
  void visit(const std::vector<Node>& nodes, Names& own) {
    for (const Node& n : nodes) own.insert(n.outputs.begin(), n.outputs.end());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const auto step = places_.enter("node", nodes[i].name, static_cast<std::int64_t>(i), nodes[i].op_type);
      for (std::size_t k = 0; k < nodes[i].inputs.size(); ++k)
        if (!nodes[i].inputs[k].empty() && !known(nodes[i].inputs[k]))
          places_.fail(
              fmt::format("input {} '{}' is defined nowhere: no graph input, initializer or node has this name", k, nodes[i].inputs[k]));
      for_each_graph(nodes[i], [&](const Attribute& a, const Graph& g) {
        const auto at = places_.enter("attribute", a.name);
        visit(g);
      });
    }
  }

  bool known(const std::string& name) const {
    return std::any_of(scopes_.begin(), scopes_.end(), [&](const Names& scope) { return scope.contains(name); });
  }

  Places& places_;
  std::vector<Names> scopes_;
};

using FunctionKey = std::tuple<std::string_view, std::string_view, std::string_view>;

class CallChecker {
 public:
  CallChecker(const Model& model, Places& places) : model_(model), places_(places) {
    for (std::size_t i = 0; i < model.functions.size(); ++i) {
      const Function& f = model.functions[i];
      if (!index_.emplace(FunctionKey(f.domain, f.name, f.overload), i).second)
        places.fail(fmt::format("function '{}' of domain '{}'{} is defined twice", f.name, f.domain,
                                f.overload.empty() ? "" : " overload " + f.overload));
    }
    depth_.assign(model.functions.size(), kUnknown);
    expanded_.assign(model.functions.size(), 0);
  }

  void run() {
    if (model_.functions.empty()) return;
    for (std::size_t i = 0; i < model_.functions.size(); ++i) depth(i, 1);
    const std::uint64_t all = expanded_nodes(model_.graph.nodes, 0);
    if (all > kMostExpanded && all > 2 * plain_nodes(model_.graph.nodes))
      places_.fail(fmt::format("the graph is of {} nodes or more once its calls of functions are written out; at most {} are taken",
                               kMostExpanded, kMostExpanded));
  }

 private:
  static constexpr int kUnknown = -1, kOpen = -2;
  static constexpr std::uint64_t kMostExpanded = 500'000, kMostCounted = std::uint64_t{1} << 60;

  // Nodes with all calls written out, as far as they are counted.
  std::uint64_t expanded_nodes(const std::vector<Node>& nodes, std::uint64_t sum) const {
    for (const Node& n : nodes) {
      const auto it = index_.find(FunctionKey(n.domain, n.op_type, n.overload));
      sum = std::min(sum + (it == index_.end() ? 1 : expanded_[it->second]), kMostCounted);
      for_each_graph(n, [&](const Attribute&, const Graph& g) { sum = expanded_nodes(g.nodes, sum); });
    }
    return sum;
  }
  static std::uint64_t plain_nodes(const std::vector<Node>& nodes) {
    std::uint64_t sum = nodes.size();
    for (const Node& n : nodes) for_each_graph(n, [&](const Attribute&, const Graph& g) { sum += plain_nodes(g.nodes); });
    return sum;
  }

  // Calls in the longest chain that starts at function i.
  int depth(std::size_t i, int so_far) {
    const Function& f = model_.functions[i];
    if (depth_[i] == kOpen)
      places_.fail(fmt::format("function '{}' of domain '{}' calls itself: ONNX functions must not be recursive", f.name, f.domain));
    if (so_far > kMaxNesting) places_.fail(fmt::format("functions call each other more than {} deep, at '{}'", kMaxNesting, f.name));
    if (depth_[i] >= 0) return depth_[i];
    depth_[i] = kOpen;
    const int deepest = calls(f.nodes, so_far);
    depth_[i] = deepest + 1;
    expanded_[i] = expanded_nodes(f.nodes, 0);
    if (depth_[i] > kMaxNesting) places_.fail(fmt::format("functions call each other more than {} deep, at '{}'", kMaxNesting, f.name));
    return depth_[i];
  }

  int calls(const std::vector<Node>& nodes, int so_far) {
    int deepest = 0;
    for (const Node& n : nodes) {
      const auto it = index_.find(FunctionKey(n.domain, n.op_type, n.overload));
      if (it != index_.end()) deepest = std::max(deepest, depth(it->second, so_far + 1));
      for_each_graph(n, [&](const Attribute&, const Graph& g) { deepest = std::max(deepest, calls(g.nodes, so_far)); });
    }
    return deepest;
  }

  const Model& model_;
  Places& places_;
  absl::flat_hash_map<FunctionKey, std::size_t> index_;
  std::vector<int> depth_;
  std::vector<std::uint64_t> expanded_;
};

const Node* first_default_domain_node(const std::vector<Node>& nodes) {
  for (const Node& n : nodes) {
    if (n.domain.empty()) return &n;
    const Node* inside = nullptr;
    for_each_graph(n, [&](const Attribute&, const Graph& g) {
      if (!inside) inside = first_default_domain_node(g.nodes);
    });
    if (inside) return inside;
  }
  return nullptr;
}

}  // namespace

void check_and_sort(Graph& graph, const Places& places) {
  check_name(graph.name, "a graph", places);
  for (const auto* values : {&graph.inputs, &graph.outputs, &graph.value_info}) check_names(*values, places);
  for (const Initializer& i : graph.initializers) check_name(i.name, "an initializer", places);
  check_names(graph.nodes, places);
  Names defined, initialized;
  for (const ValueInfo& v : graph.inputs) {
    if (v.name.empty()) places.fail("a graph input has no name");
    if (!defined.insert(v.name).second) places.fail(fmt::format("input '{}' is defined twice", v.name));
  }
  for (const Initializer& i : graph.initializers) {
    if (i.name.empty()) places.fail("an initializer has no name");
    if (!initialized.insert(i.name).second) places.fail(fmt::format("initializer '{}' is defined twice", i.name));
    defined.insert(i.name);  // an initializer may be the default of an input of its name
  }
  keep_last_constants(graph.nodes);
  check_outputs_once(graph.nodes, defined, places);
  for (const ValueInfo& v : graph.outputs)
    if (v.name.empty()) places.fail("a graph output has no name");
  sort(graph.nodes, places);
}

void check_and_sort(Function& function, const Places& places) {
  for (const std::string* name : {&function.domain, &function.name, &function.overload}) check_name(*name, "a function", places);
  for (const auto* names : {&function.inputs, &function.outputs})
    for (const std::string& name : *names) check_name(name, "a value", places);
  check_names(function.opset_imports, places);
  check_names(function.nodes, places);
  Names defined;
  for (const std::string& name : function.inputs)
    if (!defined.insert(name).second) places.fail(fmt::format("input '{}' is defined twice", name));
  check_outputs_once(function.nodes, defined, places);
  sort(function.nodes, places);
}

void check_model(const Model& model, Places& places) {
  if (model.ir_version < 0 || model.ir_version > kMaxVersion)
    places.fail(fmt::format("ir_version is {}, versions are 1 to {}", model.ir_version, kMaxVersion));
  check_names(model.opset_imports, places);
  UndefinedFinder finder(places);
  finder.visit(model.graph);
  for (const Function& f : model.functions) finder.visit(f);
  CallChecker(model, places).run();
}

void assume_opset(Model& model) {
  if (model.opset_imports.contains("")) return;
  bool used = first_default_domain_node(model.graph.nodes) != nullptr;
  for (const Function& f : model.functions) used |= !f.opset_imports.contains("") && first_default_domain_node(f.nodes);
  if (used) model.opset_imports[""] = kNewestOpset;
}

}  // namespace saturate::proto
