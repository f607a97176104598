#include "egraph/proof.h"

#include <utility>

namespace saturate {

void Proof::added(const Rec& rec, const Id* pool_children) {
  Rec copy = rec;
  if (rec.pooled()) {
    copy.c[0] = static_cast<Id>(pool.size());
    for (std::uint32_t i = 0; i < rec.c[1]; ++i) pool.push_back(pool_children[rec.c[0] + i]);
  }
  recs.push_back(copy);
  up.push_back(kNone);
  up_edge.push_back(kNone);
  tree_size.push_back(1);
  origin.push_back(current);
}

void Proof::link(NodeId a, NodeId b, std::uint32_t reason, Id class_a, Id class_b, Id winner) {
  const auto edge = static_cast<std::uint32_t>(edges.size());
  edges.push_back({a, b, reason});
  const std::uint32_t size_a = tree_size[class_a], size_b = tree_size[class_b];
  tree_size[winner] = size_a + size_b;
  if (size_a > size_b) std::swap(a, b);
  // Turn the way from `a` to its root round, so that `a` is the root; then hang it under `b`.
  NodeId child = a, parent = b;
  std::uint32_t via = edge;
  while (child != kNone) {
    const NodeId next = std::exchange(up[child], parent);
    const std::uint32_t next_via = std::exchange(up_edge[child], via);
    parent = child;
    child = next;
    via = next_via;
  }
}

std::uint32_t Proof::record(std::uint32_t rule, const std::uint32_t* match, std::size_t slots, std::span<const NodeId> made) {
  const auto place = static_cast<std::uint32_t>(words.size());
  words.push_back(rule_base + rule);
  words.push_back(static_cast<std::uint32_t>(slots));
  for (std::size_t i = 0; i < 2 * slots; ++i) words.push_back(match[i]);
  words.push_back(static_cast<std::uint32_t>(made.size()));
  for (const NodeId node : made) words.push_back(node);
  return place;
}

}  // namespace saturate
