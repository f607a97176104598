// Greedy extraction in one pass: classes are settled in order of cost (D. Knuth, "A generalization of Dijkstra's algorithm", 1977), so a
// settled class only needs settled ones and the choice is acyclic by construction. kUnchosen marks classes from which no finite term can be
// built.
#pragma once

#include <span>
#include <vector>

#include "extract/solve/problem.h"

namespace saturate {

// Class -> the nodes that need it, each once.
class ParentIndex {
 public:
  explicit ParentIndex(const ExtractionProblem& problem);
  std::span<const std::uint32_t> of(std::uint32_t c) const { return {nodes_.data() + begin_[c], nodes_.data() + begin_[c + 1]}; }
  std::uint32_t distinct_children(std::uint32_t node) const { return distinct_[node]; }
  std::uint32_t class_of(std::uint32_t node) const { return class_[node]; }

 private:
  std::vector<std::uint32_t> begin_, nodes_, distinct_, class_;
};

// The least tree cost, exactly, where a node costs node_cost[n] (all of them the problem's own where it is empty).
NodeChoice bottom_up(const ExtractionProblem& problem, const ParentIndex& parents, std::span<const Price> node_cost = {});

// Like bottom_up, but a class is ranked by the cost of the set of classes below it, each once. Needs classes^2 / 8 bytes.
NodeChoice greedy_dag(const ExtractionProblem& problem, const ParentIndex& parents);
bool greedy_dag_fits(const ExtractionProblem& problem);

// bottom_up several times: a class that the choice of the last round uses k times passes on about 1/k of its cost to each user.
NodeChoice amortized(const ExtractionProblem& problem, const ParentIndex& parents, NodeChoice start, int rounds);

}  // namespace saturate
