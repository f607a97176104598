#include "onnx_bridge/nan_guard.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace saturate {
namespace {

bool is(const OnnxEGraph& g, NodeId node, std::string_view op_type) {
  const OpKey& key = g.key(g.egraph().node(node).op);
  return key.domain.empty() && key.op_type == op_type;
}

// Whether the class holds an operator of which the child `index` is of class `wanted`.
bool holds(const OnnxEGraph& g, Id id, std::string_view op_type, std::size_t index, Id wanted) {
  const EGraph& e = g.egraph();
  const std::vector<NodeId> nodes = e.class_nodes(id);
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](NodeId n) {
    const auto children = e.node(n).children;
    return is(g, n, op_type) && index < children.size() && e.find(children[index]) == e.find(wanted);
  });
}

bool guards_itself(const OnnxEGraph& g, Id id) {
  const EGraph& e = g.egraph();
  for (NodeId n : e.class_nodes(id)) {
    if (!is(g, n, "Where")) continue;
    const auto children = e.node(n).children;
    if (children.size() == 3 && e.find(children[2]) == e.find(id) && holds(g, children[0], "IsNaN", 0, id)) return true;
  }
  return false;
}

}  // namespace

bool lost_nan_guard(const OnnxEGraph& g, Id id) {
  if (guards_itself(g, id)) return true;
  const EGraph& e = g.egraph();
  const std::vector<NodeId> nodes = e.class_nodes(id);
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeId n) {
    return is(g, n, "Cast") && !e.node(n).children.empty() && guards_itself(g, e.node(n).children[0]);
  });
}

void guard_last_node(Graph& graph, DType dtype, const std::function<std::string(const std::string&)>& fresh_name) {
  const std::string guarded = graph.nodes.back().outputs[0];
  const std::string open = fresh_name("Softmax"), nan = fresh_name("IsNaN"), zero = fresh_name("zero");
  graph.nodes.back().outputs[0] = open;
  Tensor number(dtype, {});
  std::memset(number.mutable_data(), 0, number.bytes().size());
  graph.initializers.push_back({zero, std::move(number), nullptr});
  const auto add = [&](const char* op_type, std::vector<std::string> inputs, const std::string& output) {
    Node node;
    node.name = output + "/" + op_type;
    node.op_type = op_type;
    node.inputs = std::move(inputs);
    node.outputs = {output};
    graph.nodes.push_back(std::move(node));
  };
  add("IsNaN", {open}, nan);
  add("Where", {nan, zero, open}, guarded);
}

}  // namespace saturate
