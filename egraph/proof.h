// Why classes are equal: every e-node as it was made, and a forest whose edges are the unions. The way between two e-nodes of one tree never
// changes once it exists, and all its edges are older than what was concluded from it: so proofs need no more than the needed edges by age.
// After Nieuwenhuis & Oliveras, "Proof-producing congruence closure", RTA 2005.
#pragma once

#include <string>
#include <vector>

#include "egraph/arena.h"
#include "egraph/rec.h"
#include "egraph/rewrite.h"

namespace saturate {

class Proof {
 public:
  static constexpr std::uint32_t kGiven = 0xffffffffu, kCongruence = 0xfffffffeu, kByAnalysis = 0xfffffffdu;

  struct Rule {
    std::string name;
    Pattern left;  // structure only, predicates left out
    std::optional<Template> right;
  };
  struct Edge {
    NodeId a, b;
    std::uint32_t reason;  // place in `words`, or one of the above
  };

  // The e-node as it is made; its children are e-nodes too (an id names the e-node that founded its class).
  void added(const Rec& rec, const Id* pool_children);
  // `class_a`, `class_b`: their classes before, `winner`: the one that remains.
  void link(NodeId a, NodeId b, std::uint32_t reason, Id class_a, Id class_b, Id winner);
  // An application: `match` has the classes of `slots` slots, then their e-nodes. Room for `made` e-nodes of the template is left at its end.
  std::uint32_t record(std::uint32_t rule, const std::uint32_t* match, std::size_t slots, std::size_t made);
  // Applications of one rule stand in `words` from `base` on, each `width` words; forgets those that made neither an e-node (from `node` on)
  // nor a union (from `edge` on).
  void forget_idle(std::uint32_t base, std::uint32_t width, NodeId node, std::uint32_t edge);
  void forget(std::uint32_t reason) { words.resize(reason); }

  std::span<const Id> children(NodeId node) const { return recs[node].children(pool.data()); }
  std::size_t bytes() const {
    return recs.bytes() + pool.bytes() + up.bytes() + up_edge.bytes() + tree_size.bytes() + origin.bytes() + edges.bytes() + words.bytes();
  }

  std::vector<Rule> rules;
  std::uint32_t rule_base = 0;        // of the present run, in `rules`
  Arena<Rec> recs;
  Arena<Id> pool;
  Arena<NodeId> up;                   // towards the root of the tree, kNone at the root
  Arena<std::uint32_t> up_edge;
  Arena<std::uint32_t> tree_size;     // of a canonical class
  Arena<std::uint32_t> origin;        // the application that made the e-node, kGiven or kByAnalysis
  Arena<Edge> edges;                  // by age
  Arena<std::uint32_t> words;         // applications: rule, what each slot is bound to (an e-node, or a class by its founder), e-nodes of the template
  std::uint32_t current = kGiven;     // reason for what is added or merged now
};

}  // namespace saturate
