// An extraction problem free of ONNX: classes, the nodes that may stand for each, what a node costs and which classes it needs. Extraction
// chooses a node for every class that is needed from the roots, without a cycle. The sum of prices is to be the least, each chosen class
// counted once (DAG cost).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "extract/price/price.h"

namespace saturate {

inline constexpr std::uint32_t kUnchosen = ~std::uint32_t{0};

// Nodes of class c are [node_begin[c], node_begin[c + 1]); classes that node n needs, repeats included, are [child_begin[n], child_begin[n
// + 1]).
struct ExtractionProblem {
  std::vector<std::uint32_t> node_begin{0};
  std::vector<Price> cost;  // by node; not negative
  std::vector<std::uint32_t> child_begin{0};
  std::vector<std::uint32_t> children;
  std::vector<std::uint32_t> roots;  // classes; repeats are allowed

  std::uint32_t num_classes() const { return static_cast<std::uint32_t>(node_begin.size() - 1); }
  std::uint32_t num_nodes() const { return static_cast<std::uint32_t>(cost.size()); }
  [[gnu::always_inline]] std::span<const std::uint32_t> children_of(std::uint32_t node) const {
    return {children.data() + child_begin[node], children.data() + child_begin[node + 1]};
  }
  // Building: nodes of the class that end_class() will close.
  void add_node(Price node_cost, std::span<const std::uint32_t> node_children);
  void end_class() { node_begin.push_back(num_nodes()); }
  std::vector<std::uint32_t> class_of_node() const;
};

// A node for each class that is needed; kUnchosen for the others.
using NodeChoice = std::vector<std::uint32_t>;

// What a choice is worth, computed from the problem and the choice alone. `wrong` is empty for a choice that is complete and acyclic.
struct ChoiceValue {
  std::string wrong;
  Price dag;                // each needed class once, however many roots and nodes need it
  Price tree;               // each use, roots repeated; infinity where the sum overflows
  std::size_t classes = 0;  // needed classes
};
ChoiceValue evaluate_choice(const ExtractionProblem& problem, const NodeChoice& choice);
// The choice without the classes that are not needed.
NodeChoice needed_only(const ExtractionProblem& problem, const NodeChoice& choice);

// The first fault of a problem: an id out of range, a cost that is negative or not a number. Empty if there is none.
std::string check_problem(const ExtractionProblem& problem);

}  // namespace saturate
