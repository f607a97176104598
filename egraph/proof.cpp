#include "egraph/proof.h"

#include <algorithm>
#include <utility>

namespace saturate {

void Proof::added(const PackedENode& rec, const Id* pool_children) {
  PackedENode copy = rec;
  if (rec.pooled()) {
    copy.c[0] = static_cast<Id>(pool.size());
    for (std::uint32_t i = 0; i < rec.c[1]; ++i) pool.push_back(pool_children[rec.c[0] + i]);
  }
  if (origins.empty() || origins.back().reason != current) {
    origins.push_back({static_cast<NodeId>(recs.size()), current, static_cast<std::uint32_t>(words.size())});
  }
  recs.push_back(copy);
  up_edge.push_back(kNone);
}

void Proof::link(NodeId a, NodeId b, std::uint32_t reason) {
  // The one that is nearer to its root goes below the other: the shorter way has no more steps than the smaller tree has e-nodes, so all
  // turning together takes n log n steps at most.
  for (NodeId x = a, y = b;;) {
    if ((x = up(x)) == kNone) break;
    if ((y = up(y)) == kNone) {
      std::swap(a, b);
      break;
    }
  }
  // Turn the way from `a` to its root round, so that `a` is the root; then hang it under `b`.
  std::uint32_t via = static_cast<std::uint32_t>(edges.size());
  for (NodeId child = a; child != kNone;) {
    const NodeId next = up(child);
    via = std::exchange(up_edge[child], via);
    child = next;
  }
  edges.push_back({a, b, reason});
}

std::uint32_t Proof::record(std::uint32_t rule, std::span<const std::uint32_t> bound, std::size_t made) {
  const auto place = static_cast<std::uint32_t>(words.size());
  words.ensure(1 + bound.size() + made);
  words.append(rule_base + rule);
  for (const std::uint32_t word : bound) words.append(word);
  for (std::size_t i = 0; i < made; ++i) words.append(kNone);
  return place;
}

std::uint32_t Proof::record_met(std::uint32_t rule, std::span<const NodeId> matched, std::span<const Id> classes) {
  std::vector<std::uint32_t> bound(matched.begin(), matched.end());
  met.clear();
  follows_met = true;
  for (std::size_t i = 0; i < bound.size(); ++i) {
    if (bound[i] == kNone) bound[i] = classes[i];
    note_met(bound[i], classes[i]);
  }
  return record(rule, bound, 1);
}

void Proof::keep_met(std::uint32_t reason, std::size_t slots) {
  follows_met = false;
  words[reason + 1 + slots] = static_cast<std::uint32_t>(met.size());
  words.ensure(2 * met.size());
  for (const auto& [node, id] : met) words.append(node), words.append(id);
}

void Proof::forget_idle(std::uint32_t base, std::span<const bool> used, std::uint32_t edge) {
  const auto width = static_cast<std::uint32_t>((words.size() - base) / used.size());
  std::vector<std::uint32_t> place(used.size());
  std::uint32_t to = base;
  for (std::size_t b = 0; b < used.size(); ++b) {
    place[b] = to;
    if (!used[b]) continue;
    if (to != base + b * width) std::copy_n(words.begin() + base + b * width, width, words.begin() + to);
    to += width;
  }
  if (to == words.size()) return;
  words.resize(to);
  if (!origins.empty() && origins.back().reason == base) origins.back().end = to;
  for (std::size_t e = edge; e < edges.size(); ++e) edges[e].reason = place[(edges[e].reason - base) / width];
}

std::uint32_t Proof::origin(NodeId node) const {
  const Origin* next =
      std::upper_bound(origins.begin(), origins.end(), node, [](NodeId n, const Origin& origin) { return n < origin.first; });
  const Origin& origin = next[-1];
  if (origin.reason >= kByAnalysis) return origin.reason;
  const Rule& rule = rules[words[origin.reason]];
  const std::size_t slots = rule.left.nodes.size(), width = 1 + slots + rule.operators();
  // Of several applications that needed it, the one that made it stands first; in a batch, operators are done one after the other.
  for (std::size_t i = 1 + slots; i < width; ++i) {
    for (std::size_t at = origin.reason; at < origin.end; at += width) {
      if (words[at + i] == node) return static_cast<std::uint32_t>(at);
    }
  }
  return origin.reason;  // made by an applier
}

}  // namespace saturate
