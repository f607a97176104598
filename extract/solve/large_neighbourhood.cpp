#include "extract/solve/large_neighbourhood.h"

#include <algorithm>
#include <chrono>

#include "extract/solve/greedy.h"
#include "extract/solve/ilp.h"

namespace saturate {
namespace {

constexpr std::size_t kMostRows = 3000;  // of a neighbourhood's program
constexpr double kMostSeconds = 1.0;     // for one neighbourhood

class NeighbourhoodSearch {
 public:
  NeighbourhoodSearch(const Presolved& s, const NodeChoice& choice, std::uint64_t seed)
      : p_(s.problem), parents_(s.problem), random_(seed), choice_(needed_only(p_, choice)), cost_(evaluate_choice(p_, choice_).dag) {}

  NodeChoice run(double seconds) {
    const auto start = std::chrono::steady_clock::now();
    auto left = [&] { return seconds - std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
    std::size_t size = 40;
    while (left() > 0.05) {
      const Step step = improve(pick(size), std::min(kMostSeconds, left()));
      if (step == Step::kTooLarge)
        size = std::max<std::size_t>(10, size * 3 / 4);
      else if (step == Step::kNothing)
        size = std::min<std::size_t>(size + size / 8 + 1, p_.num_classes());
    }
    return std::move(choice_);
  }

 private:
  enum class Step { kBetter, kNothing, kTooLarge };

  // Classes near a random needed one: its children, its users, and theirs.
  std::vector<char> pick(std::size_t size) {
    std::vector<char> free(p_.num_classes(), 0);
    std::vector<std::uint32_t> needed;
    for (std::uint32_t c = 0; c < p_.num_classes(); ++c)
      if (choice_[c] != kUnchosen && p_.node_begin[c + 1] - p_.node_begin[c] > 1) needed.push_back(c);
    if (needed.empty()) return free;
    std::vector<std::uint32_t> open{needed[random_() % needed.size()]};
    std::size_t count = 0;
    while (count < size) {
      if (open.empty()) open.push_back(needed[random_() % needed.size()]);
      const std::size_t at = random_() % open.size();
      const std::uint32_t c = open[at];
      open[at] = open.back();
      open.pop_back();
      if (free[c]) {
        if (++count > size) break;  // so that it ends where all is free
        continue;
      }
      free[c] = 1;
      ++count;
      for (std::uint32_t n = p_.node_begin[c]; n < p_.node_begin[c + 1]; ++n)
        for (std::uint32_t k : p_.children_of(n))
          if (!free[k]) open.push_back(k);
      for (std::uint32_t n : parents_.of(c))
        if (const std::uint32_t user = parents_.class_of(n); !free[user] && choice_[user] != kUnchosen) open.push_back(user);
    }
    return free;
  }

  // Free classes have all their nodes, needed ones their present node, others theirs if near enough.
  Step improve(const std::vector<char>& free, double seconds) {
    ExtractionProblem part;
    std::vector<std::uint32_t> origin;
    for (std::uint32_t c = 0; c < p_.num_classes(); ++c) {
      const bool fixed = choice_[c] != kUnchosen && !free[c];
      for (std::uint32_t n = p_.node_begin[c]; n < p_.node_begin[c + 1]; ++n) {
        if (fixed && n != choice_[c]) continue;
        part.add_node(p_.cost[n], p_.children_of(n));
        origin.push_back(n);
      }
      part.end_class();
    }
    part.roots = p_.roots;
    const Presolved small = presolve(part, {.cost_to_beat = cost_});
    if (small.unreachable_root != kUnchosen) return Step::kNothing;
    NodeChoice warm = best_greedy(small.problem);
    if (small.problem.num_nodes() > small.problem.num_classes()) {
      if (ilp_rows(small) > kMostRows) return Step::kTooLarge;
      warm = solve_ilp(small, warm, seconds).choice;
    }
    const NodeChoice local = small.restore(warm);
    NodeChoice next(p_.num_classes(), kUnchosen);
    for (std::uint32_t c = 0; c < p_.num_classes(); ++c)
      if (local[c] != kUnchosen) next[c] = origin[local[c]];
    const ChoiceValue value = evaluate_choice(p_, next);
    if (!value.wrong.empty() || value.dag > cost_) return Step::kNothing;
    const bool better = clearly_less(value.dag, cost_, 1e-12);
    choice_ = needed_only(p_, next);
    cost_ = value.dag;
    return better ? Step::kBetter : Step::kNothing;
  }

  static NodeChoice best_greedy(const ExtractionProblem& p) {
    const ParentIndex parents(p);
    NodeChoice tree = bottom_up(p, parents);
    if (!greedy_dag_fits(p)) return needed_only(p, tree);
    NodeChoice dag = greedy_dag(p, parents);
    return needed_only(p, evaluate_choice(p, dag).dag < evaluate_choice(p, tree).dag ? dag : tree);
  }

  const ExtractionProblem& p_;
  ParentIndex parents_;
  std::mt19937_64 random_;
  NodeChoice choice_;
  Price cost_;
};

}  // namespace

NodeChoice large_neighbourhood_search(const Presolved& presolved, const NodeChoice& choice, double seconds, std::uint64_t seed) {
  return NeighbourhoodSearch(presolved, choice, seed).run(seconds);
}

}  // namespace saturate
