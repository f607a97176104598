// Why classes are equal: every e-node as it was made, and a forest whose edges are the unions. The way between two e-nodes of one tree
// never changes once it exists, and all its edges are older than what was concluded from it: so proofs need no more than the needed edges
// by age. After Nieuwenhuis & Oliveras, "Proof-producing congruence closure", RTA 2005.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "egraph/packed_enode.h"
#include "egraph/reserved_array.h"
#include "egraph/rewrite.h"

namespace saturate {

class Proof {
 public:
  static constexpr std::uint32_t kGiven = 0xffffffffu, kCongruence = 0xfffffffeu, kByAnalysis = 0xfffffffdu;

  struct Rule {
    std::string name;
    Pattern left;  // structure only, predicates left out
    std::optional<Template> right;
    std::size_t operators() const {  // of the template
      return right ? static_cast<std::size_t>(
                         std::count_if(right->nodes.begin(), right->nodes.end(), [](const Template::Node& n) { return n.op != kNone; }))
                   : 0;
    }
  };
  struct Edge {
    NodeId a, b;
    std::uint32_t reason;  // place in `words`, or one of the above
  };

  // E-nodes from `first` on were made for the applications in words[reason..end) (all of one rule, and as wide as that says), or kGiven,
  // kByAnalysis.
  struct Origin {
    NodeId first;
    std::uint32_t reason, end;
  };

  // The e-node as it is made; its children are e-nodes too (an id names the e-node that founded its class).
  void added(const PackedENode& rec, const Id* pool_children);
  // A new edge between e-nodes of two trees.
  void link(NodeId a, NodeId b, std::uint32_t reason);
  // The next e-node on the way to the root of the tree, kNone at the root: the other end of the edge.
  NodeId up(NodeId n) const {
    if (up_edge[n] == kNone) return kNone;
    const Edge& edge = edges[up_edge[n]];
    return edge.a == n ? edge.b : edge.a;
  }
  // An application: `bound` has for each slot the e-node where it is an operator, else the class. Room for the e-nodes that the operators
  // of the template make is left at its end.
  std::uint32_t record(std::uint32_t rule, std::span<const std::uint32_t> bound, std::size_t made);
  // `used.size()` applications of one rule stand at the end of `words`, from `base` on; forgets those that have made neither an e-node nor
  // a union (edges from `edge` on).
  void forget_idle(std::uint32_t base, std::span<const bool> used, std::uint32_t edge);
  void forget(std::uint32_t reason) { words.resize(reason); }
  // An application of an Applier, which is given classes and gets classes where it adds e-nodes that there are already. What it unites
  // rests on each such class being that of the e-node meant: pairs of both, which are kept behind the slots, their number first.
  std::uint32_t record_met(std::uint32_t rule, std::span<const NodeId> matched, std::span<const Id> classes);
  void keep_met(std::uint32_t reason, std::size_t slots);
  void note_met(NodeId node, Id id) {
    if (follows_met && node != id) met.emplace_back(node, id);
  }
  // The application that made the e-node, kGiven or kByAnalysis.
  std::uint32_t origin(NodeId node) const;

  std::span<const Id> children(NodeId node) const { return recs[node].children(pool.data()); }
  std::size_t bytes() const { return recs.bytes() + pool.bytes() + up_edge.bytes() + origins.bytes() + edges.bytes() + words.bytes(); }

  std::vector<Rule> rules;
  std::uint32_t rule_base = 0;  // of the present run, in `rules`
  ReservedArray<PackedENode> recs;
  ReservedArray<Id> pool;
  ReservedArray<std::uint32_t> up_edge;  // towards the root of the tree, kNone at the root
  ReservedArray<Origin> origins;         // ascending
  ReservedArray<Edge> edges;             // by age
  ReservedArray<std::uint32_t> words;    // applications: rule, what each slot is bound to, e-nodes of the template's operators
  std::uint32_t current = kGiven;        // reason for what is added or merged now
  bool follows_met = false;              // while an Applier works
  std::vector<std::pair<NodeId, Id>> met;
};

}  // namespace saturate
