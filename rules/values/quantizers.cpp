#include "rules/values/quantizers.h"

#include <algorithm>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {

bool quantizes_one(const OnnxEGraph& g, Id id) {
  const EGraph& e = g.egraph();
  id = e.find(id);
  const auto dequantizes_it = [&](NodeId n) {
    const ENode node = e.node(n);
    return is_operator(g.key(node.op), "DequantizeLinear") && e.find(node.children[0]) == id;
  };
  Id read = kNone;
  for (const NodeId n : e.class_nodes(id)) {
    const ENode node = e.node(n);
    if (!is_operator(g.key(node.op), "QuantizeLinear")) continue;
    const Id value = e.find(node.children[0]);
    if (value == read) continue;
    const auto& made = e.class_nodes(value);
    if (std::any_of(made.begin(), made.end(), dequantizes_it)) continue;
    if (read != kNone) return false;
    read = value;
  }
  return true;
}

bool hands_on_input(const OnnxEGraph& g, Id id) {
  constexpr std::size_t kMost = 32;  // values that are looked at
  const EGraph& e = g.egraph();
  std::vector<Id> from{e.find(id)};
  for (std::size_t i = 0; i < from.size() && i < kMost; ++i)
    for (const NodeId n : e.class_nodes(from[i])) {
      const ENode node = e.node(n);
      const OpKey& key = g.key(node.op);
      if (key.domain == "#" && key.op_type == kInputOp) return true;
      const Id moved = has(Trait::kMovement, key) && !node.children.empty() ? e.find(node.children[0]) : kNone;
      if (moved != kNone && std::find(from.begin(), from.end(), moved) == from.end()) from.push_back(moved);
    }
  return false;
}

}  // namespace saturate
