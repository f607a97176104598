#include "onnx_bridge/graph/names.h"

#include <algorithm>

#include "fmt/format.h"
#include "onnx_bridge/model/subgraphs.h"

namespace saturate {
namespace {

using Body = std::shared_ptr<const Graph>;

template <typename Change>
void change_bodies(Node& node, Change change) {
  for (Attribute& a : node.attributes) {
    if (auto* one = std::get_if<Body>(&a.value))
      *one = change(*one);
    else if (auto* many = std::get_if<std::vector<Body>>(&a.value))
      std::transform(many->begin(), many->end(), many->begin(), change);
  }
}

// The body with the names that it takes from outside changed.
Body renamed_body(const Body& body, Renaming renaming, FreshNames& fresh) {
  const auto own = defined_names(*body);
  std::erase_if(renaming, [&](const auto& change) { return own.contains(change.first); });
  const auto captured = captured_names(*body);
  if (std::none_of(captured.begin(), captured.end(), [&](const std::string& name) { return renaming.contains(name); })) return body;
  Renaming moved;
  for (const auto& [from, to] : renaming)
    if (own.contains(to)) moved[to] = fresh(to);
  renaming.merge(moved);
  auto copy = std::make_shared<Graph>(*body);
  rename_values(*copy, renaming, fresh);
  return copy;
}

}  // namespace

std::string FreshNames::operator()(const std::string& base) {
  for (int k = 0;; ++k)
    if (std::string name = k == 0 ? base : fmt::format("{}_{}", base, k); taken_.insert(name).second) return name;
}

std::unordered_set<std::string> defined_names(const Graph& graph) {
  std::unordered_set<std::string> names;
  for (const ValueInfo& v : graph.inputs) names.insert(v.name);
  for (const Initializer& i : graph.initializers) names.insert(i.name);
  for (const Node& n : graph.nodes) names.insert(n.outputs.begin(), n.outputs.end());
  names.erase("");
  return names;
}

void rename_values(Graph& graph, const Renaming& renaming, FreshNames& fresh) {
  const auto change = [&](std::string& name) {
    if (const auto it = renaming.find(name); it != renaming.end()) name = it->second;
  };
  for (auto* infos : {&graph.inputs, &graph.outputs, &graph.value_info})
    for (ValueInfo& info : *infos) change(info.name);
  for (Initializer& i : graph.initializers) change(i.name);
  for (Node& node : graph.nodes) {
    std::for_each(node.inputs.begin(), node.inputs.end(), change);
    std::for_each(node.outputs.begin(), node.outputs.end(), change);
    change_bodies(node, [&](const Body& body) { return renamed_body(body, renaming, fresh); });
  }
}

void for_each_graph(Graph& graph, const std::function<void(Graph& graph)>& change) {
  change(graph);
  for (Node& node : graph.nodes)
    change_bodies(node, [&](const Body& body) -> Body {
      auto copy = std::make_shared<Graph>(*body);
      for_each_graph(*copy, change);
      return copy;
    });
}

bool reads(const Node& node, const std::string& value) {
  if (std::find(node.inputs.begin(), node.inputs.end(), value) != node.inputs.end()) return true;
  bool found = false;
  for_each_body(node, [&](const Graph& body) {
    const auto captured = captured_names(body);
    found |= std::find(captured.begin(), captured.end(), value) != captured.end();
  });
  return found;
}

}  // namespace saturate
