// Makes an extraction problem smaller without losing its least cost. What goes:
// - nodes that can't be in an acyclic term, or cost infinitely much, and what the roots don't reach;
// - nodes that another node of their class beats: it costs no more, and needs only classes that the dominated one needs as well, directly
// or
//   in whatever way its own needs are met. The classes on every such way are found like dominators in a flow graph, as a greatest fixpoint;
// - with a known cost to beat: nodes that no cheaper choice can have;
// - needs that are met anyway: of classes that every choice has, where no cycle can pass, and of classes that have a free leaf.
#pragma once

#include <vector>

#include "extract/solve/problem.h"

namespace saturate {

struct Presolved {
  ExtractionProblem problem;               // its roots are all classes that every choice has
  std::vector<std::uint32_t> node_origin;  // by node of `problem`: the original's
  std::vector<std::uint32_t> class_origin;
  std::vector<std::uint32_t> free_node;            // by original class: the leaf that costs nothing, or kUnchosen
  std::vector<std::uint32_t> component;            // by class of `problem`: strongly connected component; equal numbers may be on one cycle
  std::vector<std::vector<std::uint32_t>> needed;  // by class of `problem`: classes that it needs whatever is chosen, nearest only
  std::uint32_t unreachable_root = kUnchosen;      // an original root class without a finite term: there is no choice at all

  NodeChoice restore(const NodeChoice& choice) const;            // to a choice for the original
  NodeChoice restrict_choice(const NodeChoice& original) const;  // nodes that went are kUnchosen
};

struct PresolveOptions {
  Price cost_to_beat = kInfinity;                  // nodes that only choices costing more than this can have go
  std::size_t most_bytes = std::size_t{64} << 20;  // for the sets of needed classes; a larger problem is presolved without them
};
// The parts of a presolved problem that share no class; their classes and nodes have their origins in presolved.problem.
std::vector<Presolved> split(const Presolved& presolved);

Presolved presolve(const ExtractionProblem& problem, const PresolveOptions& options = {});

}  // namespace saturate
