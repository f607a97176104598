#include "rules/values/quantizers.h"

#include <algorithm>

namespace saturate {
namespace {

bool is_operator(const OnnxEGraph& g, const ENode& node, std::string_view op_type) {
  const OpKey& key = g.key(node.op);
  return key.domain.empty() && key.op_type == op_type && key.version == 0 && key.unique == 0 && key.role == UnitRole::kNone;
}

}  // namespace

bool quantizes_one(const OnnxEGraph& g, Id id) {
  const EGraph& e = g.egraph();
  id = e.find(id);
  const auto dequantizes_it = [&](NodeId n) {
    const ENode node = e.node(n);
    return is_operator(g, node, "DequantizeLinear") && e.find(node.children[0]) == id;
  };
  Id read = kNone;
  for (const NodeId n : e.class_nodes(id)) {
    const ENode node = e.node(n);
    if (!is_operator(g, node, "QuantizeLinear")) continue;
    const Id value = e.find(node.children[0]);
    if (value == read) continue;
    const auto& made = e.class_nodes(value);
    if (std::any_of(made.begin(), made.end(), dequantizes_it)) continue;
    if (read != kNone) return false;
    read = value;
  }
  return true;
}

}  // namespace saturate
