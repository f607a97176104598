#include "onnx_bridge/model/node_names.h"

#include <set>
#include <utility>

#include "fmt/format.h"

namespace saturate {
namespace {

bool has_twice(const Graph& graph);

bool any_body_has_twice(const Attribute& attribute) {
  if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute.value)) return *body && has_twice(**body);
  const auto* bodies = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&attribute.value);
  bool any = false;
  if (bodies)
    for (const auto& body : *bodies) any = any || has_twice(*body);
  return any;
}

bool has_twice(const Graph& graph) {
  std::set<std::string_view> seen;
  for (const Node& node : graph.nodes) {
    if (!node.name.empty() && !seen.insert(node.name).second) return true;
    for (const Attribute& attribute : node.attributes)
      if (any_body_has_twice(attribute)) return true;
  }
  return false;
}

std::shared_ptr<const Graph> with_unique_names(const std::shared_ptr<const Graph>& body) {
  if (!body || !has_twice(*body)) return body;
  auto out = std::make_shared<Graph>(*body);
  make_node_names_unique(*out);
  return out;
}

}  // namespace

void make_node_names_unique(Graph& graph) {
  if (!has_twice(graph)) return;
  std::set<std::string> taken, seen;
  for (const Node& node : graph.nodes) taken.insert(node.name);
  for (Node& node : graph.nodes) {
    if (!node.name.empty() && !seen.insert(node.name).second) {
      const std::string base = std::exchange(node.name, "");
      for (int number = 2; node.name.empty(); ++number)
        if (std::string name = fmt::format("{}_{}", base, number); taken.insert(name).second) node.name = std::move(name);
    }
    for (Attribute& attribute : node.attributes) {
      if (auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute.value)) *body = with_unique_names(*body);
      if (auto* bodies = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&attribute.value))
        for (auto& body : *bodies) body = with_unique_names(body);
    }
  }
}

}  // namespace saturate
