#include "extract/solve/presolve.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "egraph/stop.h"
#include "extract/solve/bit_rows.h"
#include "extract/solve/greedy.h"

namespace saturate {
namespace {

constexpr std::size_t kMostComparedNodes = 4096;  // nodes of one class that are compared in pairs
constexpr int kMostRounds = 12;

// Classes in an order in which each has a node whose children come before it; classes without a finite term are left out.
std::vector<std::uint32_t> derivation_order(const ExtractionProblem& p, const ParentIndex& parents) {
  std::vector<std::uint32_t> order, missing(p.num_nodes());
  std::vector<char> derived(p.num_classes(), 0);
  auto derive = [&](std::uint32_t n) {
    const std::uint32_t c = parents.class_of(n);
    if (!derived[c] && p.cost[n].is_finite()) derived[c] = 1, order.push_back(c);
  };
  for (std::uint32_t n = 0; n < p.num_nodes(); ++n)
    if ((missing[n] = parents.distinct_children(n)) == 0) derive(n);
  for (std::size_t i = 0; i < order.size(); ++i)
    for (std::uint32_t n : parents.of(order[i]))
      if (--missing[n] == 0) derive(n);
  return order;
}

// Strongly connected components of "a node of c needs k" (R. Tarjan, 1972), iterative.
std::vector<std::uint32_t> components(const ExtractionProblem& p) {
  const std::uint32_t n = p.num_classes();
  std::vector<std::uint32_t> index(n, kUnchosen), low(n, 0), component(n, kUnchosen), path;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> stack;  // class, next of its children
  std::uint32_t next_index = 0, next_component = 0;
  for (std::uint32_t start = 0; start < n; ++start) {
    if (index[start] != kUnchosen) continue;
    stack.emplace_back(start, p.child_begin[p.node_begin[start]]);
    while (!stack.empty()) {
      auto& [c, next] = stack.back();
      if (index[c] == kUnchosen) index[c] = low[c] = next_index++, path.push_back(c);
      if (next < p.child_begin[p.node_begin[c + 1]]) {
        const std::uint32_t k = p.children[next++];
        if (index[k] == kUnchosen)
          stack.emplace_back(k, p.child_begin[p.node_begin[k]]);
        else if (component[k] == kUnchosen)
          low[c] = std::min(low[c], index[k]);
        continue;
      }
      const std::uint32_t done = c;
      stack.pop_back();
      if (!stack.empty()) low[stack.back().first] = std::min(low[stack.back().first], low[done]);
      if (low[done] != index[done]) continue;
      while (component[done] == kUnchosen) component[path.back()] = next_component, path.pop_back();
      ++next_component;
    }
  }
  return component;
}

class Presolver {
 public:
  Presolver(const ExtractionProblem& p, const PresolveOptions& options) : options_(options) {
    out_.problem = p;
    out_.free_node.assign(p.num_classes(), kUnchosen);
    out_.node_origin.resize(p.num_nodes());
    out_.class_origin.resize(p.num_classes());
    std::iota(out_.node_origin.begin(), out_.node_origin.end(), 0);
    std::iota(out_.class_origin.begin(), out_.class_origin.end(), 0);
  }

  Presolved run() {
    normalize();
    for (int round = 0; round < kMostRounds; ++round) {
      heed_stop();
      if (!keep_derivable()) return std::move(out_);
      const bool fewer = drop_dominated();
      if (fewer && !keep_derivable()) return std::move(out_);
      if (!drop_met_needs() && !fewer) break;
    }
    if (!keep_derivable()) return std::move(out_);
    out_.component = components(out_.problem);
    nearest_needs();
    return std::move(out_);
  }

 private:
  ExtractionProblem& p() { return out_.problem; }

  // The problem with the classes and nodes that are kept, and the children for which keep_child(class, child) holds, in order and without
  // repeats.
  template <class KeepChild>
  void rebuild(const std::vector<char>& keep_class, const std::vector<char>& keep_node, KeepChild keep_child) {
    needed_known_ = false;
    const ExtractionProblem old = std::move(out_.problem);
    const auto old_node_origin = std::move(out_.node_origin), old_class_origin = std::move(out_.class_origin);
    out_.problem = {};
    out_.node_origin.clear();
    out_.class_origin.clear();
    std::vector<std::uint32_t> number(old.num_classes(), kUnchosen), kids;
    for (std::uint32_t c = 0; c < old.num_classes(); ++c)
      if (keep_class[c]) number[c] = static_cast<std::uint32_t>(out_.class_origin.size()), out_.class_origin.push_back(old_class_origin[c]);
    for (std::uint32_t c = 0; c < old.num_classes(); ++c) {
      if (!keep_class[c]) continue;
      for (std::uint32_t n = old.node_begin[c]; n < old.node_begin[c + 1]; ++n) {
        if (!keep_node[n]) continue;
        kids.clear();
        for (std::uint32_t k : old.children_of(n))
          if (number[k] != kUnchosen && keep_child(c, k)) kids.push_back(number[k]);
        std::sort(kids.begin(), kids.end());
        kids.erase(std::unique(kids.begin(), kids.end()), kids.end());
        p().add_node(old.cost[n], kids);
        out_.node_origin.push_back(old_node_origin[n]);
      }
      p().end_class();
    }
    for (std::uint32_t r : old.roots)
      if (number[r] != kUnchosen) p().roots.push_back(number[r]);
    std::sort(p().roots.begin(), p().roots.end());
    p().roots.erase(std::unique(p().roots.begin(), p().roots.end()), p().roots.end());
  }

  void normalize() {
    std::vector<char> classes(p().num_classes(), 1), nodes(p().num_nodes(), 1);
    for (std::uint32_t c = 0; c < p().num_classes(); ++c)
      for (std::uint32_t n = p().node_begin[c]; n < p().node_begin[c + 1]; ++n)
        for (std::uint32_t k : p().children_of(n)) nodes[n] = nodes[n] && k != c;
    rebuild(classes, nodes, [](std::uint32_t, std::uint32_t) { return true; });
  }

  // Leaves the nodes that have a finite term and are reached from the roots. False if a root has none.
  bool keep_derivable() {
    ParentIndex parents(p());
    order_ = derivation_order(p(), parents);
    std::vector<char> derivable(p().num_classes(), 0), reached(p().num_classes(), 0), nodes(p().num_nodes(), 0);
    for (std::uint32_t c : order_) derivable[c] = 1;
    std::vector<std::uint32_t> stack;
    for (std::uint32_t r : p().roots) {
      if (!derivable[r]) {
        out_.unreachable_root = out_.class_origin[r];
        return false;
      }
      if (!reached[r]) reached[r] = 1, stack.push_back(r);
    }
    while (!stack.empty()) {
      const std::uint32_t c = stack.back();
      stack.pop_back();
      for (std::uint32_t n = p().node_begin[c]; n < p().node_begin[c + 1]; ++n) {
        const auto kids = p().children_of(n);
        if (!p().cost[n].is_finite() || !std::all_of(kids.begin(), kids.end(), [&](std::uint32_t k) { return derivable[k]; })) continue;
        nodes[n] = 1;
        for (std::uint32_t k : kids)
          if (!reached[k]) reached[k] = 1, stack.push_back(k);
      }
    }
    if (std::all_of(nodes.begin(), nodes.end(), [](char k) { return k; }) &&
        std::all_of(reached.begin(), reached.end(), [](char r) { return r; }))
      return true;
    rebuild(reached, nodes, [](std::uint32_t, std::uint32_t) { return true; });
    order_ = derivation_order(p(), ParentIndex(p()));
    return true;
  }

  bool sets_fit() { return BitRows::bytes(p().num_classes(), p().num_classes()) <= options_.most_bytes; }

  // Row c: the classes that every acyclic choice for c has, c among them. Greatest fixpoint of
  // needed(c) = {c} + the intersection over c's nodes of the union over the node's children of needed(child).
  void compute_needed() {
    if (std::exchange(needed_known_, true)) return;
    const std::uint32_t count = p().num_classes();
    needed_ = BitRows(count, count);
    for (std::uint32_t c = 0; c < count; ++c) std::fill(needed_.row(c).begin(), needed_.row(c).end(), ~std::uint64_t{0});
    const ParentIndex parents(p());
    std::vector<char> dirty(count, 1), met(count, 0);
    std::vector<std::uint64_t> all(needed_.words()), below(needed_.words());
    for (bool again = true; again;) {
      again = false;
      for (std::uint32_t c : order_) {
        if (!dirty[c]) continue;
        dirty[c] = 0;
        bool any = false;
        for (std::uint32_t n = p().node_begin[c]; n < p().node_begin[c + 1]; ++n) {
          const auto kids = p().children_of(n);
          if (!std::all_of(kids.begin(), kids.end(), [&](std::uint32_t k) { return met[k]; }))
            continue;  // its needs are everything, so far
          if (!std::exchange(any, true)) {
            unite(kids, all);
          } else {
            unite(kids, below);
            for (std::size_t w = 0; w < all.size(); ++w) all[w] &= below[w];
          }
          if (kids.empty()) break;
        }
        if (!any) std::fill(all.begin(), all.end(), ~std::uint64_t{0});
        set_bit(all, c);
        const auto row = needed_.row(c);
        if (met[c] && std::equal(row.begin(), row.end(), all.begin())) continue;
        met[c] = 1;
        std::copy(all.begin(), all.end(), row.begin());
        for (std::uint32_t n : parents.of(c)) dirty[parents.class_of(n)] = 1;
        again = true;
      }
    }
  }

  void unite(std::span<const std::uint32_t> kids, std::vector<std::uint64_t>& below) const {
    if (kids.empty()) return std::fill(below.begin(), below.end(), 0);
    const auto first = needed_.row(kids.front());
    std::copy(first.begin(), first.end(), below.begin());
    for (std::uint32_t k : kids.subspan(1)) {
      const auto row = needed_.row(k);
      for (std::size_t w = 0; w < below.size(); ++w) below[w] |= row[w];
    }
  }

  // Nodes that stand on a cycle whatever is chosen, or are dominated, or are too dear, go. Returns whether any did.
  bool drop_dominated() {
    const bool sets = sets_fit();
    if (sets) compute_needed();
    std::vector<Price> least(p().num_classes(), kInfinity);
    for (std::uint32_t c = 0; c < p().num_classes(); ++c)
      for (std::uint32_t n = p().node_begin[c]; n < p().node_begin[c + 1]; ++n) least[c] = std::min(least[c], p().cost[n]);
    std::vector<std::uint64_t> below((p().num_classes() + 63) / 64), always(below.size());
    if (sets) unite(p().roots, always);
    Price always_cost;
    for_each_bit(always, [&](std::uint32_t c) { always_cost += c < least.size() ? least[c] : Price(); });
    std::vector<char> keep(p().num_nodes(), 1);
    bool dropped = false;
    for (std::uint32_t c = 0; c < p().num_classes(); ++c) {
      const std::uint32_t begin = p().node_begin[c], end = p().node_begin[c + 1];
      if (end - begin < 2 || end - begin > kMostComparedNodes) continue;
      for (std::uint32_t a = begin; a < end; ++a) {
        if (sets) {
          unite(p().children_of(a), below);
          if (has_bit(below, c) || too_dear(c, a, below, always, always_cost, least)) keep[a] = 0;
        } else {
          for (std::uint32_t k : p().children_of(a)) set_bit(below, k);
        }
        for (std::uint32_t b = begin; b < end && keep[a]; ++b) {
          if (b == a || !keep[b] || p().cost[b] > p().cost[a]) continue;
          const auto kids = p().children_of(b);
          if (std::all_of(kids.begin(), kids.end(), [&](std::uint32_t k) { return has_bit(below, k); })) keep[a] = 0;
        }
        if (!sets)
          for (std::uint32_t k : p().children_of(a)) below[k / 64] = 0;
        dropped = dropped || !keep[a];
      }
    }
    if (dropped) rebuild(std::vector<char>(p().num_classes(), 1), keep, [](std::uint32_t, std::uint32_t) { return true; });
    return dropped;
  }

  bool too_dear(std::uint32_t c, std::uint32_t n, const std::vector<std::uint64_t>& below, const std::vector<std::uint64_t>& always,
                const Price& always_cost, const std::vector<Price>& least) {
    if (!options_.cost_to_beat.is_finite()) return false;
    Price cost = always_cost + p().cost[n] - (has_bit(always, c) ? least[c] : Price());
    for (std::size_t w = 0; w < below.size(); ++w)
      for (std::uint64_t rest = below[w] & ~always[w]; rest; rest &= rest - 1) {
        const auto k = static_cast<std::uint32_t>(w * 64 + static_cast<std::size_t>(std::countr_zero(rest)));
        if (k != c) cost += least[k];
      }
    // What is taken off leaves its rounding behind.
    const Price& beat = options_.cost_to_beat;
    return cost > Price(beat.refused, beat.cost + 1e-12 * (beat.cost + always_cost.cost + p().cost[n].cost));
  }

  // Classes with a free leaf take it; classes that every choice has become roots; needs of both are dropped where no cycle can pass.
  bool drop_met_needs() {
    const std::uint32_t count = p().num_classes();
    const auto component = components(p());
    std::vector<char> keep_class(count, 1), keep_node(p().num_nodes(), 1), always(count, 0);
    bool changed = false;
    for (std::uint32_t c = 0; c < count; ++c)
      for (std::uint32_t n = p().node_begin[c]; n < p().node_begin[c + 1]; ++n)
        if (p().cost[n] == 0 && p().children_of(n).empty()) {
          out_.free_node[out_.class_origin[c]] = out_.node_origin[n];
          keep_class[c] = 0;
          changed = true;
          break;
        }
    if (sets_fit()) {
      compute_needed();
      std::vector<std::uint64_t> rows(needed_.words());
      unite(p().roots, rows);
      for (std::uint32_t c = 0; c < count; ++c) always[c] = has_bit(rows, c);
    } else {
      for (std::uint32_t r : p().roots) always[r] = 1;
    }
    for (std::uint32_t c = 0; c < count; ++c)
      for (std::uint32_t n = p().node_begin[c]; n < p().node_begin[c + 1]; ++n)
        for (std::uint32_t k : p().children_of(n)) changed = changed || (always[k] && component[k] != component[c]);
    if (!changed) return false;
    for (std::uint32_t c = 0; c < count; ++c)
      if (always[c]) p().roots.push_back(c);
    rebuild(keep_class, keep_node, [&](std::uint32_t c, std::uint32_t k) { return !always[k] || component[k] == component[c]; });
    return true;
  }

  // A class needs what its nearest needs need: the latest in derivation order is a nearest one.
  void nearest_needs() {
    out_.needed.resize(p().num_classes());
    if (!sets_fit()) return;
    order_ = derivation_order(p(), ParentIndex(p()));
    compute_needed();
    std::vector<std::uint32_t> place(p().num_classes()), rest;
    for (std::uint32_t i = 0; i < order_.size(); ++i) place[order_[i]] = i;
    std::vector<std::uint64_t> covered(needed_.words());
    for (std::uint32_t c = 0; c < p().num_classes(); ++c) {
      rest.clear();
      for_each_bit(needed_.row(c), [&](std::uint32_t k) {
        if (k != c) rest.push_back(k);
      });
      std::sort(rest.begin(), rest.end(), [&](std::uint32_t a, std::uint32_t b) { return place[a] > place[b]; });
      std::fill(covered.begin(), covered.end(), 0);
      for (std::uint32_t k : rest) {
        if (has_bit(covered, k)) continue;
        out_.needed[c].push_back(k);
        const auto row = needed_.row(k);
        for (std::size_t w = 0; w < covered.size(); ++w) covered[w] |= row[w];
      }
    }
  }

  const PresolveOptions& options_;
  Presolved out_;
  std::vector<std::uint32_t> order_;
  BitRows needed_{0, 0};
  bool needed_known_ = false;  // needed_ is that of the problem as it is now
};

// A number per class, equal for classes that a chain of needs connects; and how many numbers.
std::pair<std::vector<std::uint32_t>, std::uint32_t> connected_parts(const ExtractionProblem& p) {
  std::vector<std::uint32_t> leader(p.num_classes()), number(p.num_classes(), kUnchosen), part(p.num_classes());
  std::iota(leader.begin(), leader.end(), 0);
  auto find = [&](std::uint32_t c) {
    while (leader[c] != c) c = leader[c] = leader[leader[c]];
    return c;
  };
  for (std::uint32_t c = 0; c < p.num_classes(); ++c)
    for (std::uint32_t n = p.node_begin[c]; n < p.node_begin[c + 1]; ++n)
      for (std::uint32_t k : p.children_of(n)) leader[find(c)] = find(k);
  std::uint32_t count = 0;
  for (std::uint32_t c = 0; c < p.num_classes(); ++c) {
    std::uint32_t& n = number[find(c)];
    if (n == kUnchosen) n = count++;
    part[c] = n;
  }
  return {std::move(part), count};
}

}  // namespace

std::vector<Presolved> split(const Presolved& s) {
  const ExtractionProblem& p = s.problem;
  const auto [part, count] = connected_parts(p);
  std::vector<Presolved> out(count);
  std::vector<std::uint32_t> local(p.num_classes()), kids;
  for (std::uint32_t c = 0; c < p.num_classes(); ++c)
    local[c] = static_cast<std::uint32_t>(out[part[c]].class_origin.size()), out[part[c]].class_origin.push_back(c);
  for (std::uint32_t c = 0; c < p.num_classes(); ++c) {
    Presolved& o = out[part[c]];
    for (std::uint32_t n = p.node_begin[c]; n < p.node_begin[c + 1]; ++n) {
      kids.clear();
      for (std::uint32_t k : p.children_of(n)) kids.push_back(local[k]);
      o.problem.add_node(p.cost[n], kids);
      o.node_origin.push_back(n);
    }
    o.problem.end_class();
    o.component.push_back(s.component[c]);
    o.needed.emplace_back();
    for (std::uint32_t k : s.needed[c])
      if (part[k] == part[c]) o.needed.back().push_back(local[k]);
  }
  for (std::uint32_t r : p.roots) out[part[r]].problem.roots.push_back(local[r]);
  for (Presolved& o : out) o.free_node.assign(p.num_classes(), kUnchosen);
  return out;
}

NodeChoice Presolved::restore(const NodeChoice& choice) const {
  NodeChoice out = free_node;
  for (std::uint32_t c = 0; c < problem.num_classes(); ++c)
    if (choice[c] != kUnchosen) out[class_origin[c]] = node_origin[choice[c]];
  return out;
}

NodeChoice Presolved::restrict_choice(const NodeChoice& original) const {
  NodeChoice out(problem.num_classes(), kUnchosen);
  for (std::uint32_t c = 0; c < problem.num_classes(); ++c)
    for (std::uint32_t n = problem.node_begin[c]; n < problem.node_begin[c + 1]; ++n)
      if (node_origin[n] == original[class_origin[c]]) out[c] = n;
  return out;
}

Presolved presolve(const ExtractionProblem& problem, const PresolveOptions& options) { return Presolver(problem, options).run(); }

}  // namespace saturate
