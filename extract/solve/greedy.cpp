#include "extract/solve/greedy.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

#include "egraph/stop.h"
#include "extract/solve/bit_rows.h"

namespace saturate {
namespace {

constexpr std::size_t kMostDagBytes = std::size_t{256} << 20;

using Entry = std::pair<Price, std::uint32_t>;
using MinQueue = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;

// Sums over trees overflow.
Price bounded(const Price& p) {
  constexpr double kMost = std::numeric_limits<double>::max();
  return {std::min(p.refused, kMost), std::min(p.cost, kMost)};
}

// Settles classes in order of cost. offered(node) gives the cost of a node whose children are all settled; settle(class) is told of each.
template <class Offered, class Settle>
NodeChoice settle_in_order(const ExtractionProblem& p, const ParentIndex& parents, Offered offered, Settle settle) {
  NodeChoice choice(p.num_classes(), kUnchosen);
  std::vector<Price> best(p.num_classes(), kInfinity);
  std::vector<std::uint32_t> missing(p.num_nodes());
  std::vector<char> settled(p.num_classes(), 0);
  MinQueue queue;
  auto offer = [&](std::uint32_t n) {
    const std::uint32_t c = parents.class_of(n);
    if (!p.cost[n].is_finite()) return;
    const Price cost = bounded(offered(n));
    if (cost >= best[c]) return;
    best[c] = cost;
    choice[c] = n;
    queue.emplace(cost, c);
  };
  for (std::uint32_t n = 0; n < p.num_nodes(); ++n)
    if ((missing[n] = parents.distinct_children(n)) == 0) offer(n);
  while (!queue.empty()) {
    heed_stop();
    const std::uint32_t c = queue.top().second;
    queue.pop();
    if (settled[c]) continue;
    settled[c] = 1;
    settle(c, choice[c], best[c]);
    for (std::uint32_t n : parents.of(c))
      if (--missing[n] == 0 && !settled[parents.class_of(n)]) offer(n);
  }
  return choice;
}

}  // namespace

ParentIndex::ParentIndex(const ExtractionProblem& p)
    : begin_(p.num_classes() + 1, 0), distinct_(p.num_nodes(), 0), class_(p.class_of_node()) {
  std::vector<std::uint32_t> last(p.num_classes(), kUnchosen);
  for (std::uint32_t n = 0; n < p.num_nodes(); ++n)
    for (std::uint32_t c : p.children_of(n))
      if (last[c] != n) last[c] = n, ++begin_[c + 1], ++distinct_[n];
  for (std::uint32_t c = 0; c < p.num_classes(); ++c) begin_[c + 1] += begin_[c];
  nodes_.resize(begin_.back());
  std::vector<std::uint32_t> next(begin_.begin(), begin_.end() - 1);
  std::fill(last.begin(), last.end(), kUnchosen);
  for (std::uint32_t n = 0; n < p.num_nodes(); ++n)
    for (std::uint32_t c : p.children_of(n))
      if (last[c] != n) last[c] = n, nodes_[next[c]++] = n;
}

NodeChoice bottom_up(const ExtractionProblem& p, const ParentIndex& parents, std::span<const Price> node_cost) {
  const std::span<const Price> cost = node_cost.empty() ? std::span<const Price>(p.cost) : node_cost;
  std::vector<Price> tree(p.num_classes());
  return settle_in_order(
      p, parents,
      [&](std::uint32_t n) {
        Price sum = cost[n];
        for (std::uint32_t c : p.children_of(n)) sum += tree[c];
        return sum;
      },
      [&](std::uint32_t c, std::uint32_t, const Price& total) { tree[c] = total; });
}

bool greedy_dag_fits(const ExtractionProblem& p) { return BitRows::bytes(p.num_classes(), p.num_classes()) <= kMostDagBytes; }

NodeChoice greedy_dag(const ExtractionProblem& p, const ParentIndex& parents) {
  BitRows below(p.num_classes(), p.num_classes());
  std::vector<Price> settled_cost(p.num_classes()), total(p.num_classes());
  std::vector<std::uint64_t> set(below.words());
  auto unite = [&](std::uint32_t n) {  // the classes below a node into `set`; returns the sum of their costs
    const auto children = p.children_of(n);
    if (children.empty()) {
      std::fill(set.begin(), set.end(), 0);
      return Price();
    }
    const std::uint32_t first =
        *std::max_element(children.begin(), children.end(), [&](std::uint32_t a, std::uint32_t b) { return total[a] < total[b]; });
    std::copy_n(below.row(first).begin(), below.words(), set.begin());
    Price sum = total[first];
    for (std::uint32_t c : children) {
      if (has_bit(set, c)) continue;
      const auto row = below.row(c);
      for (std::size_t w = 0; w < row.size(); ++w)
        for (std::uint64_t fresh = row[w] & ~set[w]; fresh; fresh &= fresh - 1) {
          sum += settled_cost[w * 64 + static_cast<std::size_t>(std::countr_zero(fresh))];
          set[w] |= fresh & (~fresh + 1);
        }
    }
    return sum;
  };
  return settle_in_order(
      p, parents, [&](std::uint32_t n) { return p.cost[n] + unite(n); },
      [&](std::uint32_t c, std::uint32_t n, const Price& sum) {
        unite(n);
        std::copy(set.begin(), set.end(), below.row(c).begin());
        set_bit(below.row(c), c);
        settled_cost[c] = p.cost[n];
        total[c] = sum;
      });
}

NodeChoice amortized(const ExtractionProblem& p, const ParentIndex& parents, NodeChoice start, int rounds) {
  Price best = evaluate_choice(p, start).dag;
  NodeChoice current = start;
  std::vector<double> uses(p.num_classes()), share(p.num_classes(), 1);
  std::vector<Price> passed(p.num_classes());
  for (int round = 0; round < rounds; ++round) {
    std::fill(uses.begin(), uses.end(), 0);
    std::vector<std::uint32_t> stack;
    auto use = [&](std::uint32_t c) {
      if (uses[c]++ == 0) stack.push_back(c);
    };
    for (std::uint32_t r : p.roots) use(r);
    while (!stack.empty()) {
      const std::uint32_t c = stack.back();
      stack.pop_back();
      for (std::uint32_t k : p.children_of(current[c])) use(k);
    }
    for (std::uint32_t c = 0; c < p.num_classes(); ++c) share[c] = 0.5 * (share[c] + (uses[c] > 0 ? 1 / uses[c] : 1));
    std::fill(passed.begin(), passed.end(), Price());
    NodeChoice next = settle_in_order(
        p, parents,
        [&](std::uint32_t n) {
          Price sum = p.cost[n];
          for (std::uint32_t c : p.children_of(n)) sum += passed[c];
          return sum;
        },
        [&](std::uint32_t c, std::uint32_t, const Price& total) { passed[c] = total * share[c]; });
    const Price value = evaluate_choice(p, next).dag;
    if (value < best) best = value, start = next;
    current = std::move(next);
  }
  return start;
}

}  // namespace saturate
