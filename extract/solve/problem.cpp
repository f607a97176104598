#include "extract/solve/problem.h"

#include <cmath>
#include <utility>

#include "fmt/format.h"

namespace saturate {

void ExtractionProblem::add_node(Price node_cost, std::span<const std::uint32_t> node_children) {
  cost.push_back(node_cost);
  children.insert(children.end(), node_children.begin(), node_children.end());
  child_begin.push_back(static_cast<std::uint32_t>(children.size()));
}

std::vector<std::uint32_t> ExtractionProblem::class_of_node() const {
  std::vector<std::uint32_t> out(num_nodes());
  for (std::uint32_t c = 0; c < num_classes(); ++c)
    for (std::uint32_t n = node_begin[c]; n < node_begin[c + 1]; ++n) out[n] = c;
  return out;
}

std::string check_problem(const ExtractionProblem& p) {
  if (p.node_begin.back() != p.num_nodes() || p.child_begin.size() != p.cost.size() + 1 || p.child_begin.back() != p.children.size())
    return "the arrays of the problem do not fit together";
  for (std::uint32_t n = 0; n < p.num_nodes(); ++n) {
    for (const double x : {p.cost[n].refused, p.cost[n].cost})
      if (std::isnan(x) || x < 0) return fmt::format("node {} has the cost {}; wanted a number >= 0", n, x);
    for (std::uint32_t c : p.children_of(n))
      if (c >= p.num_classes()) return fmt::format("node {} needs class {}, which does not exist", n, c);
  }
  for (std::uint32_t r : p.roots)
    if (r >= p.num_classes()) return fmt::format("root {} does not exist", r);
  return "";
}

ChoiceValue evaluate_choice(const ExtractionProblem& p, const NodeChoice& choice) {
  ChoiceValue value;
  if (choice.size() != p.num_classes()) {
    value.wrong = "the choice is for another number of classes";
    return value;
  }
  enum : char { kNew, kOpen, kDone };
  std::vector<char> state(p.num_classes(), kNew);
  std::vector<Price> tree(p.num_classes());
  std::vector<std::pair<std::uint32_t, std::uint32_t>> stack;  // class, how many of its node's children are done
  for (std::uint32_t root : p.roots) {
    stack.assign(1, {root, 0});
    while (!stack.empty()) {
      auto& [c, next] = stack.back();
      if (state[c] == kDone) {
        stack.pop_back();
        continue;
      }
      const std::uint32_t n = choice[c];
      if (n == kUnchosen || n < p.node_begin[c] || n >= p.node_begin[c + 1]) {
        value.wrong = n == kUnchosen ? fmt::format("class {} is needed and has no node", c)
                                     : fmt::format("class {} is given a node of another class", c);
        return value;
      }
      if (next == 0) {
        state[c] = kOpen;
        value.dag += p.cost[n];
        tree[c] = p.cost[n];
        ++value.classes;
      }
      const auto children = p.children_of(n);
      if (next > 0) tree[c] += tree[children[next - 1]];
      if (next == children.size()) {
        state[c] = kDone;
        stack.pop_back();
        continue;
      }
      const std::uint32_t child = children[next++];
      if (state[child] == kOpen) {
        value.wrong = fmt::format("class {} depends on itself", child);
        return value;
      }
      stack.emplace_back(child, 0);
    }
    value.tree += tree[root];
  }
  return value;
}

NodeChoice needed_only(const ExtractionProblem& p, const NodeChoice& choice) {
  NodeChoice out(choice.size(), kUnchosen);
  std::vector<std::uint32_t> stack = p.roots;
  while (!stack.empty()) {
    const std::uint32_t c = stack.back();
    stack.pop_back();
    if (out[c] != kUnchosen) continue;
    out[c] = choice[c];
    const auto children = p.children_of(choice[c]);
    stack.insert(stack.end(), children.begin(), children.end());
  }
  return out;
}

}  // namespace saturate
