#include "onnx_bridge/file/written.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "fmt/format.h"
#include "onnx_bridge/model/node_order.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/attribute_values.h"

namespace saturate {
namespace {

using Names = absl::flat_hash_set<std::string_view>;

std::string node_text(const Node& node, std::size_t index) {
  return node.name.empty() ? fmt::format("node {} ({})", index, node.op_type) : fmt::format("node '{}' ({})", node.name, node.op_type);
}

// Looks at each node once, from outside in and in the order of the file.
class Reading {
 public:
  explicit Reading(const Model& model) {
    visit(model.graph);
    for (const Function& f : model.functions) visit(f);
  }

  bool needs_mending() const { return repeats_node_name_ || shadows_ || unknown_; }
  const std::optional<WritingFault>& fault() const { return fault_; }
  const std::optional<WritingFault>& unknown() const { return unknown_; }

 private:
  void visit(const Graph& graph) {
    Names& own = scopes_.emplace_back();
    for (const ValueInfo& v : graph.inputs) define(v.name, own, "an input");
    Names initializers;
    for (const Initializer& i : graph.initializers) define(i.name, initializers, "an initializer");
    own.insert(initializers.begin(), initializers.end());
    visit(graph.nodes);
    for (const ValueInfo& v : graph.outputs) expect(v.name, [&] { return fmt::format("output '{}' is made by no node", v.name); });
    scopes_.pop_back();
  }

  void visit(const Function& function) {
    Names& own = scopes_.emplace_back();
    for (const std::string& name : function.inputs) define(name, own, "an input of a function");
    visit(function.nodes);
    for (const std::string& name : function.outputs)
      expect(name, [&] { return fmt::format("output '{}' of function {} is made by no node", name, function.name); });
    scopes_.pop_back();
  }

  void visit(const std::vector<Node>& nodes) {
    const std::size_t depth = scopes_.size() - 1;
    Names node_names;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Node& node = nodes[i];
      repeats_node_name_ |= !node.name.empty() && !node_names.insert(node.name).second;
      for (const std::string& name : node.inputs)
        expect(name, [&] { return fmt::format("'{}', which {} reads, is made by nothing before it", name, node_text(node, i)); });
      for_each_body(node, [&](const Graph& body) { visit(body); });
      for (const std::string& name : node.outputs) {
        if (name.empty()) continue;
        for (std::size_t k = 0; k < depth; ++k) shadows_ |= scopes_[k].contains(name);
        define(name, scopes_[depth], node_text(node, i));
      }
    }
  }

  void define(const std::string& name, Names& scope, const std::string& by) {
    if (!scope.insert(name).second && !fault_) fault_ = {fmt::format("value '{}' is made twice, by {} as well", name, by), name};
  }

  template <typename Say>
  void expect(const std::string& name, Say say) {
    if (name.empty() || unknown_) return;
    if (std::none_of(scopes_.begin(), scopes_.end(), [&](const Names& scope) { return scope.contains(name); })) unknown_ = {say(), name};
  }

  std::vector<Names> scopes_;
  bool repeats_node_name_ = false, shadows_ = false;
  std::optional<WritingFault> fault_, unknown_;
};

class Mending {
 public:
  explicit Mending(Model& model) : model_(model) {
    collect_names(model.graph, taken_);
    for (const Function& f : model.functions) {
      Graph nodes;
      nodes.nodes = f.nodes;
      collect_names(nodes, taken_);
      taken_.insert(f.inputs.begin(), f.inputs.end());
    }
  }

  void run() {
    mend(model_.graph, {});
    for (Function& f : model_.functions) mend(f.nodes, {f.inputs.begin(), f.inputs.end()});
  }

 private:
  using Visible = std::unordered_set<std::string>;

  void mend(Graph& graph, Visible visible) {
    move_apart(graph, visible);
    for (const ValueInfo& v : graph.inputs) visible.insert(v.name);
    for (const Initializer& i : graph.initializers) visible.insert(i.name);
    mend(graph.nodes, std::move(visible));
  }

  void mend(std::vector<Node>& nodes, Visible visible) {
    sort_nodes(nodes);
    name_apart(nodes);
    for (Node& node : nodes) {
      for (Attribute& a : node.attributes) {
        if (auto* one = std::get_if<Body>(&a.value))
          *one = mended(**one, visible);
        else if (auto* many = std::get_if<std::vector<Body>>(&a.value))
          for (Body& body : *many) body = mended(*body, visible);
      }
      visible.insert(node.outputs.begin(), node.outputs.end());
    }
  }

  using Body = std::shared_ptr<const Graph>;
  Body mended(const Graph& body, const Visible& visible) {
    auto out = std::make_shared<Graph>(body);
    mend(*out, visible);
    return out;
  }

  // The first node of a name keeps it.
  static void name_apart(std::vector<Node>& nodes) {
    std::unordered_set<std::string> have, all;
    for (const Node& node : nodes) all.insert(node.name);
    for (Node& node : nodes) {
      if (node.name.empty() || have.insert(node.name).second) continue;
      for (int k = 1;; ++k)
        if (std::string name = fmt::format("{}_{}", node.name, k); all.insert(name).second) {
          node.name = name;
          break;
        }
    }
  }

  // What nodes of a body make gets other names than what is visible around it.
  void move_apart(Graph& body, const Visible& around) {
    std::map<std::string, std::string> renamed;
    for (const Node& node : body.nodes)
      for (const std::string& name : node.outputs)
        if (!name.empty() && around.contains(name)) renamed.emplace(name, "");
    if (renamed.empty()) return;
    for (auto& [name, to] : renamed)
      for (int k = 0; to.empty(); ++k)
        if (std::string fresh = fmt::format("{}_inside_{}", name, k); taken_.insert(fresh).second) to = fresh;
    const auto rename = [&](std::string& name) {
      if (const auto it = renamed.find(name); it != renamed.end()) name = it->second;
    };
    for (auto* infos : {&body.outputs, &body.value_info})
      for (ValueInfo& v : *infos) rename(v.name);
    for (Node& node : body.nodes) {
      std::for_each(node.inputs.begin(), node.inputs.end(), rename);
      std::for_each(node.outputs.begin(), node.outputs.end(), rename);
      for (Attribute& a : node.attributes) {
        if (auto* one = std::get_if<Body>(&a.value))
          *one = rename_captures(**one, renamed);
        else if (auto* many = std::get_if<std::vector<Body>>(&a.value))
          for (Body& inner : *many) inner = rename_captures(*inner, renamed);
      }
    }
  }

  Model& model_;
  std::unordered_set<std::string> taken_;
};

// Visits the nodes of graph, bodies and functions with their opset.
template <typename Visit>
void for_each_node(const std::vector<Node>& nodes, std::int64_t opset, const Visit& visit) {
  for (const Node& node : nodes) {
    visit(node, opset);
    for_each_body(node, [&](const Graph& body) { for_each_node(body.nodes, opset, visit); });
  }
}
template <typename Visit>
void for_each_node(const Model& model, const Visit& visit) {
  for_each_node(model.graph.nodes, model.opset(""), visit);
  for (const Function& f : model.functions) {
    const auto own = f.opset_imports.find("");
    for_each_node(f.nodes, own == f.opset_imports.end() ? model.opset("") : own->second, visit);
  }
}

using StrangeValue = std::tuple<std::string, std::string, std::string>;  // operator, attribute, value

}  // namespace

std::optional<WritingFault> value_fault(const Model& model, const Model& before) {
  std::set<StrangeValue> had;
  for_each_node(before, [&](const Node& node, std::int64_t opset) {
    if (const Attribute* a = unknown_value(node, opset, ValueUse::kRead)) had.emplace(node.op_type, a->name, a->s());
  });
  std::optional<WritingFault> fault;
  for_each_node(model, [&](const Node& node, std::int64_t opset) {
    const Attribute* a = fault ? nullptr : unknown_value(node, opset, ValueUse::kRead);
    if (a && !had.contains({node.op_type, a->name, a->s()}))
      fault = {fmt::format("{} of {} '{}' is '{}', which opset {} does not know", a->name, node.op_type, node.name, a->s(), opset),
               first_output(node)};
  });
  return fault;
}

std::optional<WritingFault> writing_fault(const Model& model) {
  const Reading reading(model);
  if (reading.fault() || !reading.needs_mending()) return reading.fault();
  Model mended = model;
  Mending(mended).run();
  const Reading again(mended);
  return again.fault() ? again.fault() : again.unknown();
}

absl::StatusOr<std::optional<Model>> ready_to_write(const Model& model) {
  const auto internal = [](const WritingFault& fault) {
    return absl::InternalError(
        fmt::format("internal error: {}, and no runtime takes such a model; please report it with the command", fault.what));
  };
  const Reading reading(model);
  if (reading.fault()) return internal(*reading.fault());
  if (!reading.needs_mending()) return std::nullopt;
  std::optional<Model> mended = model;
  Mending(*mended).run();
  const Reading again(*mended);
  if (again.fault()) return internal(*again.fault());
  if (again.unknown()) return internal(*again.unknown());
  return mended;
}

}  // namespace saturate
