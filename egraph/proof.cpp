#include "egraph/proof.h"

#include <algorithm>
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

std::uint32_t Proof::record(std::uint32_t rule, const std::uint32_t* match, std::size_t slots, std::size_t made) {
  const auto place = static_cast<std::uint32_t>(words.size());
  words.push_back(rule_base + rule);
  for (std::size_t i = 0; i < slots; ++i) words.push_back(match[slots + i] == kNone ? match[i] : match[slots + i]);
  for (std::size_t i = 0; i < made; ++i) words.push_back(kNone);
  return place;
}

void Proof::forget_idle(std::uint32_t base, std::uint32_t width, NodeId node, std::uint32_t edge) {
  const std::size_t count = (words.size() - base) / width;
  std::vector<std::uint32_t> place(count, kNone);
  const auto in_batch = [&](std::uint32_t reason) { return reason >= base && reason < base + count * width; };
  for (std::size_t n = node; n < origin.size(); ++n) {
    if (in_batch(origin[n])) place[(origin[n] - base) / width] = 0;
  }
  for (std::size_t e = edge; e < edges.size(); ++e) {
    if (in_batch(edges[e].reason)) place[(edges[e].reason - base) / width] = 0;
  }
  std::uint32_t to = base;
  for (std::size_t b = 0; b < count; ++b) {
    if (place[b] == kNone) continue;
    place[b] = to;
    std::copy_n(words.begin() + base + b * width, width, words.begin() + to);
    to += width;
  }
  words.resize(to);
  for (std::size_t n = node; n < origin.size(); ++n) {
    if (in_batch(origin[n])) origin[n] = place[(origin[n] - base) / width];
  }
  for (std::size_t e = edge; e < edges.size(); ++e) {
    if (in_batch(edges[e].reason)) edges[e].reason = place[(edges[e].reason - base) / width];
  }
}

}  // namespace saturate
