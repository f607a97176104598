// A choice that is changed by moves with exact differences of the DAG cost: reference counts tell what a move frees, and what a move needs
// and nobody has is completed by the cheapest addition to the present choice. Every state is complete and acyclic.
#pragma once

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "egraph/stop.h"
#include "extract/solve/greedy.h"
#include "extract/solve/problem.h"

namespace saturate {

class LocalSearch {
 public:
  // `start` is complete and acyclic, without nodes of infinite cost.
  LocalSearch(const ExtractionProblem& problem, NodeChoice start);

  const Price& cost() const { return cost_; }
  bool selected(std::uint32_t c) const { return uses_[c] > 0; }
  NodeChoice choice() const;                      // of the selected classes
  std::uint64_t steps() const { return steps_; }  // from class to class, so far

  // One pass over all selected classes, children first, then over groups of them. Returns whether anything got cheaper, and false once half
  // of the time is over that the caller's sign leaves: the rest is for what follows.
  bool sweep();
  // Moves `strength` random classes to random other nodes, whatever that costs. sweep() repairs.
  void kick(std::mt19937_64& random, int strength);

 private:
  using Move = std::pair<std::uint32_t, std::uint32_t>;  // class, node

  Price acquire(std::uint32_t root);
  Price release(std::uint32_t root);
  Price switch_to(std::uint32_t c, std::uint32_t node);
  Price switch_with_siblings(std::uint32_t c, std::uint32_t node, std::vector<Move>& undo);
  void take_back(std::vector<Move>& undo);
  bool can_complete(std::uint32_t node) const;
  // `first_moved`: the first place of those that were moved onto later ones and are not settled.
  bool makes_cycle(std::uint32_t c, std::uint32_t node, std::uint32_t first_moved = kUnchosen);
  bool try_alternatives(std::uint32_t c);
  bool try_groups();
  bool try_group(const std::vector<Move>& group);
  void complete();
  void rank();
  void settle(std::vector<Move> moved);
  bool is_over() const;
  double least_gain() const { return kLeastGain * std::max(1.0, cost_.cost); }
  bool gains(const Price& change) const { return change < Price(-least_gain()); }

  static constexpr double kLeastGain = 1e-12;  // relative: below it a gain is rounding
  const ExtractionProblem& p_;
  ParentIndex parents_;
  NodeChoice choice_;  // of unselected classes too: what would complete them; kUnchosen if nothing can
  std::vector<std::uint32_t> uses_;
  std::vector<std::uint32_t> place_;  // of selected classes in a topological order, children first
  std::vector<std::uint32_t> order_;
  bool is_order_old_ = false;  // settle() has changed places
  bool meets_later_ = false;   // the last call of makes_cycle() met a class placed after the one it was asked about
  std::vector<std::uint32_t> stamps_;
  std::vector<std::uint32_t> stack_;  // of the walk that goes on
  std::uint32_t stamp_ = 0;
  Price cost_;
  std::uint64_t steps_ = 0;     // from class to class
  double until_ = kNoDeadline;  // of steady_seconds()
};

}  // namespace saturate
