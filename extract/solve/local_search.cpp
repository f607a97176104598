#include "extract/solve/local_search.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

#include "egraph/stop.h"

namespace saturate {
namespace {

constexpr double kShareOfTime = 0.5;  // of what the caller's sign leaves
// Steps from class to class, for each node of the problem. Models take 160 at most; in a chain of which each move frees and takes all that
// lies below, it is the chain's length. There the search ends with what it has.
constexpr std::uint64_t kMostStepsANode = 1000;

}  // namespace

LocalSearch::LocalSearch(const ExtractionProblem& problem, NodeChoice start)
    : p_(problem), parents_(problem), choice_(std::move(start)), uses_(problem.num_classes(), 0), stamps_(problem.num_classes(), 0) {
  for (std::uint32_t r : p_.roots) cost_ += acquire(r);
  rank();
  until_ = steady_seconds() + kShareOfTime * seconds_to_stop();
}

bool LocalSearch::is_over() const {
  heed_stop();
  return steps_ > kMostStepsANode * p_.num_nodes() || (until_ < kNoDeadline && steady_seconds() > until_);
}

NodeChoice LocalSearch::choice() const {
  NodeChoice out(choice_.size(), kUnchosen);
  for (std::uint32_t c = 0; c < out.size(); ++c)
    if (uses_[c] > 0) out[c] = choice_[c];
  return out;
}

bool LocalSearch::sweep() {
  complete();
  bool improved = false;
  if (is_order_old_) rank();
  const std::vector<std::uint32_t> order = order_;
  for (std::uint32_t c : order) {
    if (is_over()) return false;
    if (selected(c) && try_alternatives(c)) improved = true;
  }
  complete();
  return try_groups() || improved;
}

void LocalSearch::kick(std::mt19937_64& random, int strength) {
  complete();
  if (is_order_old_) rank();
  for (int i = 0; i < strength && !order_.empty(); ++i) {
    const std::uint32_t c = order_[random() % order_.size()];
    const std::uint32_t nodes = p_.node_begin[c + 1] - p_.node_begin[c];
    const std::uint32_t n = p_.node_begin[c] + static_cast<std::uint32_t>(random() % nodes);
    if (!selected(c) || n == choice_[c] || !p_.cost[n].is_finite() || !can_complete(n) || makes_cycle(c, n)) continue;
    cost_ += switch_to(c, n);
    rank();
  }
}

// References a class; what is newly selected is paid for. Iterative: chains may be long.
Price LocalSearch::acquire(std::uint32_t root) {
  Price added;
  for (stack_.assign(1, root); !stack_.empty();) {
    const std::uint32_t c = stack_.back();
    stack_.pop_back();
    ++steps_;
    if (uses_[c]++ > 0) continue;
    added += p_.cost[choice_[c]];
    for (std::uint32_t k : p_.children_of(choice_[c])) stack_.push_back(k);
  }
  return added;
}

Price LocalSearch::release(std::uint32_t root) {
  Price freed;
  for (stack_.assign(1, root); !stack_.empty();) {
    const std::uint32_t c = stack_.back();
    stack_.pop_back();
    ++steps_;
    if (--uses_[c] > 0) continue;
    freed += p_.cost[choice_[c]];
    for (std::uint32_t k : p_.children_of(choice_[c])) stack_.push_back(k);
  }
  return freed;
}

// Moves a selected class to another node; returns the change of the DAG cost.
Price LocalSearch::switch_to(std::uint32_t c, std::uint32_t node) {
  Price change = p_.cost[node] - p_.cost[choice_[c]];
  for (std::uint32_t k : p_.children_of(node)) change += acquire(k);
  for (std::uint32_t k : p_.children_of(choice_[c])) change -= release(k);
  choice_[c] = node;
  return change;
}

void LocalSearch::take_back(std::vector<Move>& undo) {
  for (; !undo.empty(); undo.pop_back()) switch_to(undo.back().first, undo.back().second);
}

bool LocalSearch::can_complete(std::uint32_t node) const {
  const auto children = p_.children_of(node);
  return std::all_of(children.begin(), children.end(), [this](std::uint32_t k) { return choice_[k] != kUnchosen; });
}

// Whether `c` under `node` would depend on itself. What lies under a class placed before `c` is placed no later than that class, as long as
// no class lies there that was moved onto later ones since places were given: so neither can a class placed before all of these.
bool LocalSearch::makes_cycle(std::uint32_t c, std::uint32_t node, std::uint32_t first_moved) {
  const std::uint32_t safe = place_[c] == kUnchosen ? 0 : std::min(place_[c], first_moved);
  meets_later_ = false;
  if (++stamp_ == 0) std::fill(stamps_.begin(), stamps_.end(), 0), stamp_ = 1;
  const auto first = p_.children_of(node);
  for (stack_.assign(first.begin(), first.end()); !stack_.empty();) {
    const std::uint32_t k = stack_.back();
    stack_.pop_back();
    if (k == c) return true;
    ++steps_;
    if (stamps_[k] == stamp_) continue;
    stamps_[k] = stamp_;
    if (place_[k] < safe) continue;
    meets_later_ = meets_later_ || (place_[k] != kUnchosen && place_[k] > place_[c]);
    for (std::uint32_t child : p_.children_of(choice_[k])) stack_.push_back(child);
  }
  return false;
}

bool LocalSearch::try_alternatives(std::uint32_t c) {
  const std::uint32_t now = choice_[c];
  std::uint32_t best = kUnchosen;
  Price best_change = -least_gain();
  std::vector<Move> undo;
  for (std::uint32_t n = p_.node_begin[c]; n < p_.node_begin[c + 1]; ++n) {
    if (n == now || !p_.cost[n].is_finite() || !can_complete(n) || makes_cycle(c, n)) continue;
    const Price change = switch_with_siblings(c, n, undo);
    take_back(undo);
    if (change < best_change) best_change = change, best = n;
  }
  if (best == kUnchosen) return false;
  cost_ += switch_with_siblings(c, best, undo);
  settle(undo);
  return true;
}

// A free node with one child, as a projection of a tuple, pays fully only when the other classes that have such a node of that child take
// it too.
Price LocalSearch::switch_with_siblings(std::uint32_t c, std::uint32_t node, std::vector<Move>& undo) {
  undo.emplace_back(c, choice_[c]);
  Price change = switch_to(c, node);
  const auto children = p_.children_of(node);
  if (children.size() != 1 || p_.cost[node] > least_gain()) return change;
  std::uint32_t first_moved = place_[c];
  for (std::uint32_t n : parents_.of(children[0])) {
    const std::uint32_t sibling = parents_.class_of(n);
    if (sibling == c || !selected(sibling) || choice_[sibling] == n || p_.children_of(n).size() != 1 || p_.cost[n] > least_gain()) continue;
    if (makes_cycle(sibling, n, first_moved)) continue;
    const std::uint32_t later = meets_later_ ? place_[sibling] : kUnchosen;
    const std::uint32_t old = choice_[sibling];
    const Price more = switch_to(sibling, n);
    if (more > 0) {
      switch_to(sibling, old);
      continue;
    }
    change += more;
    undo.emplace_back(sibling, old);
    first_moved = std::min(first_moved, later);
  }
  return change;
}

// What one alternative alone doesn't pay for, several that share it may: cosines brought to one shape for every rotary embedding.
bool LocalSearch::try_groups() {
  std::vector<Move> users;  // of one unselected class: alternatives of selected ones
  bool improved = false;
  for (std::uint32_t shared = 0; shared < p_.num_classes(); ++shared) {
    if (is_over()) return false;
    if (selected(shared) || choice_[shared] == kUnchosen) continue;
    users.clear();
    for (std::uint32_t n : parents_.of(shared)) {
      const std::uint32_t c = parents_.class_of(n);
      if (selected(c) && n != choice_[c] && p_.cost[n].is_finite() && can_complete(n)) users.emplace_back(c, n);
    }
    if (users.size() > 1 && try_group(users)) improved = true;
  }
  return improved;
}

bool LocalSearch::try_group(const std::vector<Move>& group) {
  std::vector<Move> undo;
  Price change;
  std::uint32_t first_moved = kUnchosen;
  for (const auto& [c, node] : group) {
    if (!selected(c) || choice_[c] == node || !can_complete(node) || makes_cycle(c, node, first_moved)) continue;
    undo.emplace_back(c, choice_[c]);
    change += switch_to(c, node);
    if (meets_later_) first_moved = std::min(first_moved, place_[c]);
  }
  if (gains(change)) {
    cost_ += change;
    settle(undo);
    return true;
  }
  take_back(undo);
  return false;
}

// For every unselected class the node that adds least to the present choice (Knuth 1977). Nodes chosen in order of cost are acyclic among
// themselves.
void LocalSearch::complete() {
  std::vector<Price> marginal(p_.num_classes(), kInfinity);
  std::vector<std::uint32_t> missing(p_.num_nodes());
  std::vector<char> settled(p_.num_classes(), 0);
  using Entry = std::pair<Price, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  auto offer = [&](std::uint32_t n) {
    const std::uint32_t c = parents_.class_of(n);
    Price total = p_.cost[n];
    for (std::uint32_t k : p_.children_of(n)) total += marginal[k];
    if (total >= marginal[c]) return;
    marginal[c] = total;
    choice_[c] = n;
    queue.emplace(total, c);
  };
  for (std::uint32_t n = 0; n < p_.num_nodes(); ++n) missing[n] = parents_.distinct_children(n);
  for (std::uint32_t c = 0; c < p_.num_classes(); ++c) {
    if (selected(c)) {
      marginal[c] = {};
      queue.emplace(Price(), c);
      continue;
    }
    choice_[c] = kUnchosen;
    for (std::uint32_t n = p_.node_begin[c]; n < p_.node_begin[c + 1]; ++n)
      if (missing[n] == 0) offer(n);
  }
  while (!queue.empty()) {
    heed_stop();
    const std::uint32_t c = queue.top().second;
    queue.pop();
    if (settled[c]) continue;
    settled[c] = 1;
    for (std::uint32_t n : parents_.of(c))
      if (--missing[n] == 0 && !selected(parents_.class_of(n)) && !settled[parents_.class_of(n)]) offer(n);
  }
}

// As rank(), where few classes changed: what is newly selected under one of them, or was placed after it, has its place. No child is placed
// after its parent, which is all that makes_cycle() asks. Where many would have to move, all are ranked anew; thousands of changes would
// else take the square of that.
void LocalSearch::settle(std::vector<Move> moved) {
  constexpr int kMostToMove = 256;
  int to_move = 0;
  for (const auto& [c, before] : moved) {
    const auto gone = p_.children_of(before);
    for (stack_.assign(gone.begin(), gone.end()); !stack_.empty();) {
      const std::uint32_t k = stack_.back();
      stack_.pop_back();
      if (selected(k) || place_[k] == kUnchosen) continue;
      place_[k] = kUnchosen;
      for (const std::uint32_t child : p_.children_of(choice_[k])) stack_.push_back(child);
    }
  }
  is_order_old_ = true;
  std::sort(moved.begin(), moved.end(), [this](const Move& a, const Move& b) { return place_[a.first] < place_[b.first]; });
  for (const auto& [c, before] : moved) {
    if (!selected(c)) continue;
    if (place_[c] == kUnchosen) return rank();
    const auto first = p_.children_of(choice_[c]);
    for (stack_.assign(first.begin(), first.end()); !stack_.empty();) {
      const std::uint32_t k = stack_.back();
      stack_.pop_back();
      if (place_[k] <= place_[c]) continue;
      if (place_[k] != kUnchosen && ++to_move > kMostToMove) return rank();
      place_[k] = place_[c];
      for (const std::uint32_t child : p_.children_of(choice_[k])) stack_.push_back(child);
    }
  }
}

void LocalSearch::rank() {
  is_order_old_ = false;
  place_.assign(p_.num_classes(), kUnchosen);
  order_.clear();
  std::vector<std::pair<std::uint32_t, std::uint32_t>> stack;
  for (std::uint32_t root : p_.roots) {
    stack.emplace_back(root, 0);
    while (!stack.empty()) {
      auto& [c, next] = stack.back();
      if (place_[c] != kUnchosen) {
        stack.pop_back();
        continue;
      }
      const auto children = p_.children_of(choice_[c]);
      while (next < children.size() && place_[children[next]] != kUnchosen) ++next;
      if (next < children.size()) {
        const std::uint32_t child = children[next++];
        stack.emplace_back(child, 0);
        continue;
      }
      place_[c] = static_cast<std::uint32_t>(order_.size());
      order_.push_back(c);
      stack.pop_back();
    }
  }
}

}  // namespace saturate
