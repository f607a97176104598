#include "onnx_bridge/graph/graph_view.h"

#include <algorithm>

#include "onnx_bridge/model/subgraphs.h"

namespace saturate {

const Node* producer_of(const Graph& graph, std::string_view value) {
  if (value.empty()) return nullptr;
  for (const Node& node : graph.nodes)
    if (std::find(node.outputs.begin(), node.outputs.end(), value) != node.outputs.end()) return &node;
  return nullptr;
}

GraphView::GraphView(const Graph& graph) : graph_(&graph) {
  for (const Node& node : graph.nodes) {
    for (const std::string& made : node.outputs)
      if (!made.empty()) producers_.try_emplace(made, &node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (!node.inputs[i].empty()) uses_[node.inputs[i]].push_back({&node, i});
    for_each_body(node, [&](const Graph& body) {
      for (std::string& name : captured_names(body)) read_by_body_.insert(std::move(name));
    });
  }
  for (const ValueInfo& output : graph.outputs) outputs_.insert(output.name);
}

const Node* GraphView::producer(std::string_view value) const {
  const auto it = producers_.find(value);
  return it == producers_.end() ? nullptr : it->second;
}

std::span<const GraphView::Use> GraphView::uses(std::string_view value) const {
  const auto it = uses_.find(value);
  return it == uses_.end() ? std::span<const Use>() : it->second;
}

}  // namespace saturate
