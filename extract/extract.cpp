#include "extract/extract.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>

#include "absl/container/flat_hash_set.h"
#include "fmt/format.h"
#include "onnx_bridge/canonical.h"

namespace saturate {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kNotPlaced = ~std::size_t{0};

struct Candidate {
  NodeId node = kNone;  // kNone: the class's value, folded
  double cost = 0;
  std::vector<Id> children;  // canonical, without duplicates
};

// The classes that can be reached from the roots, each with what may stand for it.
struct Problem {
  std::vector<std::vector<Candidate>> candidates;  // by canonical class id
  std::vector<Id> classes;                         // reachable ones
  std::vector<Id> roots;
};

std::optional<std::size_t> constant_bytes(const OnnxEGraph& g, const Facts& f) {
  if (f.kind != Facts::Kind::kTensor || !f.shape) return std::nullopt;
  Shape shape;
  for (Dim d : *f.shape) {
    const auto v = g.dims().value(d);
    if (!v) return std::nullopt;
    shape.push_back(*v);
  }
  return checked_bytes(f.dtype, shape);
}

class ProblemBuilder {
 public:
  ProblemBuilder(const OnnxEGraph& g, const Lowered& lowered, const Target* target, const CostModel& cost, const ExtractOptions& options)
      : g_(g), e_(g.egraph()), lowered_(lowered), target_(target), cost_(cost), options_(options) {
    for (const Source& s : lowered.sources)
      if (s.op != kNone) originals_.insert(node_signature(e_, s.op, s.children));
  }

  Problem build() {
    Problem p;
    p.candidates.resize(e_.num_ids());
    for (Id r : lowered_.roots) p.roots.push_back(e_.find(r));
    std::vector<Id> stack = p.roots;
    std::vector<bool> seen(e_.num_ids());
    for (Id r : stack) seen[r] = true;
    while (!stack.empty()) {
      const Id id = stack.back();
      stack.pop_back();
      p.classes.push_back(id);
      p.candidates[id] = candidates(id);
      for (const Candidate& c : p.candidates[id])
        for (Id child : c.children)
          if (!seen[child]) {
            seen[child] = true;
            stack.push_back(child);
          }
    }
    std::sort(p.classes.begin(), p.classes.end());
    return p;
  }

 private:
  std::vector<Candidate> candidates(Id id) const {
    std::vector<Candidate> out;
    bool has_constant = false;
    for (NodeId n : e_.class_nodes(id)) {
      const ENode node = e_.node(n);
      const OpKey& key = g_.key(node.op);
      has_constant = has_constant || key.op_type == kConstantOp;
      const double cost = node_cost(id, node, key);
      if (cost == kInfinity) continue;
      Candidate c{n, cost, {}};
      for (Id child : node.children)
        if (const Id k = e_.find(child); std::find(c.children.begin(), c.children.end(), k) == c.children.end()) c.children.push_back(k);
      if (std::find(c.children.begin(), c.children.end(), id) == c.children.end()) out.push_back(std::move(c));
    }
    const Facts& f = g_.facts(id);
    if (!has_constant && f.constant && f.kind == Facts::Kind::kTensor && !options_.not_foldable.contains(id))
      if (const auto bytes = constant_bytes(g_, f)) out.push_back({kNone, cost_.constant_cost(*bytes) + kFoldPreference, {}});
    return out;
  }

  double node_cost(Id id, const ENode& node, const OpKey& key) const {
    if (key.domain == "#") {
      if (key.op_type == kLiteralOp) return kInfinity;
      return key.op_type == kConstantOp ? cost_.constant_cost(g_.constant_tensor(node.op).bytes().size()) : 0;
    }
    const bool original = is_original(node);
    if (!original && !allowed(node, key)) return kInfinity;
    return cost_.cost(g_, node, id) + (original ? 0 : kMadePreference);
  }

  bool is_original(const ENode& node) const { return originals_.contains(node_signature(e_, node.op, node.children)); }

  bool allowed(const ENode& node, const OpKey& key) const {
    if (key.version != 0 || key.unique != 0) return false;
    if (!target_) return false;
    static const Facts none;
    const Facts& first = node.children.empty() ? none : g_.facts(node.children[0]);
    if (!target_->allows(key, first, options_.opset_limit)) return false;
    if (!key.domain.empty()) return true;
    Node probe;
    probe.op_type = key.op_type;
    probe.domain = key.domain;
    probe.attributes = key.attributes;
    probe.outputs.assign(static_cast<std::size_t>(key.outputs), "y");
    std::vector<const Facts*> facts;
    for (Id c : node.children) {
      facts.push_back(&g_.facts(c));
      probe.inputs.push_back(facts.back()->kind == Facts::Kind::kAbsent ? "" : fmt::format("x{}", facts.size()));
    }
    const auto lowest = lowest_opset(probe, facts);
    return lowest && *lowest <= options_.opset_limit;
  }

  // At equal cost the model's own nodes stay, and computed constants are written only where that saves something.
  static constexpr double kMadePreference = 1e-9, kFoldPreference = 1e-10;
  const OnnxEGraph& g_;
  const EGraph& e_;
  const Lowered& lowered_;
  const Target* target_;
  const CostModel& cost_;
  const ExtractOptions& options_;
  absl::flat_hash_set<std::vector<Id>> originals_;
};

// A selection that is changed by moves with exact DAG-cost differences: reference counts tell what a move frees.
class LocalSearch {
 public:
  LocalSearch(Problem problem, std::vector<int> choice) : p_(std::move(problem)), choice_(std::move(choice)), uses_(p_.candidates.size(), 0) {
    for (Id r : p_.roots) cost_ += acquire(r);
    rank();
  }

  double cost() const { return cost_; }
  const std::vector<int>& choice() const { return choice_; }
  bool selected(Id id) const { return uses_[id] > 0; }
  const Problem& problem() const { return p_; }

  // One sweep over all selected classes, inputs first, then over groups of them. Returns whether anything got cheaper.
  bool sweep() {
    complete();
    bool improved = false;
    std::vector<Id> order = order_;
    for (Id id : order)
      if (selected(id) && try_alternatives(id)) improved = true;
    complete();
    return try_groups() || improved;
  }

 private:
  // References a class; what is newly selected is paid for. Iterative: chains may be long.
  double acquire(Id root) {
    double added = 0;
    std::vector<Id> stack{root};
    while (!stack.empty()) {
      const Id id = stack.back();
      stack.pop_back();
      if (uses_[id]++ > 0) continue;
      const Candidate& c = p_.candidates[id][choice_[id]];
      added += c.cost;
      for (Id child : c.children) stack.push_back(child);
    }
    return added;
  }

  double release(Id root) {
    double freed = 0;
    std::vector<Id> stack{root};
    while (!stack.empty()) {
      const Id id = stack.back();
      stack.pop_back();
      if (--uses_[id] > 0) continue;
      const Candidate& c = p_.candidates[id][choice_[id]];
      freed += c.cost;
      for (Id child : c.children) stack.push_back(child);
    }
    return freed;
  }

  // Switches a selected class to another candidate; returns the change of the DAG cost.
  double switch_to(Id id, int candidate) {
    const Candidate& now = p_.candidates[id][choice_[id]];
    const Candidate& next = p_.candidates[id][candidate];
    double change = next.cost - now.cost;
    for (Id child : next.children) change += acquire(child);
    for (Id child : now.children) change -= release(child);
    choice_[id] = candidate;
    return change;
  }

  bool can_complete(const Candidate& c) const {
    return std::all_of(c.children.begin(), c.children.end(), [this](Id k) { return choice_[k] >= 0; });
  }

  // Whether `id` under candidate `c` would depend on itself. Classes placed before `id` cannot, as long as the places are up to date.
  bool makes_cycle(Id id, const Candidate& c, bool places_hold = true) {
    if (++stamp_ == 0) std::fill(stamps_.begin(), stamps_.end(), 0), stamp_ = 1;
    stamps_.resize(p_.candidates.size(), 0);
    std::vector<Id> stack(c.children.begin(), c.children.end());
    while (!stack.empty()) {
      const Id k = stack.back();
      stack.pop_back();
      if (k == id) return true;
      if (stamps_[k] == stamp_) continue;
      stamps_[k] = stamp_;
      if (places_hold && place_[k] != kNotPlaced && place_[id] != kNotPlaced && place_[k] < place_[id]) continue;
      const auto& children = p_.candidates[k][choice_[k]].children;
      stack.insert(stack.end(), children.begin(), children.end());
    }
    return false;
  }

  bool try_alternatives(Id id) {
    int best = -1;
    double best_change = -kLeastGain;
    const int now = choice_[id];
    for (int i = 0; i < static_cast<int>(p_.candidates[id].size()); ++i) {
      const Candidate& c = p_.candidates[id][i];
      if (i == now || !can_complete(c) || makes_cycle(id, c)) continue;
      const double change = change_with_siblings(id, i, false);
      if (change < best_change) {
        best_change = change;
        best = i;
      }
    }
    if (best < 0) return false;
    cost_ += change_with_siblings(id, best, true);
    rank();
    return true;
  }

  // A projection of a tuple pays fully only when the other values of that tuple are taken from it too.
  double change_with_siblings(Id id, int candidate, bool keep) {
    std::vector<std::pair<Id, int>> done{{id, choice_[id]}};
    double change = switch_to(id, candidate);
    const Candidate& c = p_.candidates[id][candidate];
    if (c.children.size() == 1 && c.cost < kLeastGain)
      for (const auto& [sibling, index] : siblings(c.children[0])) {
        if (sibling == id || !selected(sibling) || choice_[sibling] == index) continue;
        if (makes_cycle(sibling, p_.candidates[sibling][index])) continue;
        const int old = choice_[sibling];
        const double more = switch_to(sibling, index);
        if (more > 0) {
          switch_to(sibling, old);
          continue;
        }
        change += more;
        done.emplace_back(sibling, old);
      }
    if (!keep)
      for (auto it = done.rbegin(); it != done.rend(); ++it) switch_to(it->first, it->second);
    return change;
  }

  // What one alternative alone does not pay for, several that share it may: cosines brought to one shape for every rotary embedding.
  bool try_groups() {
    std::map<Id, std::vector<std::pair<Id, int>>> users;  // of classes that are not selected, by alternatives of those that are
    for (Id id : order_)
      for (int i = 0; i < static_cast<int>(p_.candidates[id].size()); ++i) {
        const Candidate& c = p_.candidates[id][i];
        if (i == choice_[id] || !can_complete(c)) continue;
        for (Id child : c.children)
          if (!selected(child)) users[child].emplace_back(id, i);
      }
    bool improved = false;
    for (const auto& [shared, group] : users)
      if (group.size() > 1 && !selected(shared) && try_group(group)) improved = true;
    return improved;
  }

  bool try_group(const std::vector<std::pair<Id, int>>& group) {
    std::vector<std::pair<Id, int>> done;
    double change = 0;
    for (const auto& [id, candidate] : group) {
      const Candidate& c = p_.candidates[id][candidate];
      if (!selected(id) || choice_[id] == candidate || !can_complete(c) || makes_cycle(id, c, false)) continue;
      done.emplace_back(id, choice_[id]);
      change += switch_to(id, candidate);
    }
    if (change < -kLeastGain) {
      cost_ += change;
      rank();
      return true;
    }
    for (auto it = done.rbegin(); it != done.rend(); ++it) switch_to(it->first, it->second);
    return false;
  }

  const std::vector<std::pair<Id, int>>& siblings(Id tuple) {
    if (siblings_.empty()) {
      siblings_.resize(p_.candidates.size());
      for (Id id : p_.classes)
        for (int i = 0; i < static_cast<int>(p_.candidates[id].size()); ++i) {
          const Candidate& c = p_.candidates[id][i];
          if (c.node != kNone && c.children.size() == 1 && c.cost < kLeastGain) siblings_[c.children[0]].emplace_back(id, i);
        }
    }
    return siblings_[tuple];
  }

  // For every unselected class the choice that adds least to the present selection (Knuth's generalization of Dijkstra's algorithm,
  // "A generalization of Dijkstra's algorithm", 1977). Choices made in order of cost are acyclic among themselves.
  void complete() {
    const std::size_t n = p_.candidates.size();
    std::vector<double> marginal(n, kInfinity);
    std::vector<std::vector<std::pair<Id, int>>> parents(n);
    using Entry = std::pair<double, Id>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    std::vector<std::vector<std::size_t>> missing(n);
    std::vector<bool> settled(n);
    auto offer = [&](Id id, int i) {
      double total = p_.candidates[id][i].cost;
      for (Id child : p_.candidates[id][i].children) total += marginal[child];
      if (total >= marginal[id]) return;
      marginal[id] = total;
      if (uses_[id] == 0) choice_[id] = i;
      queue.emplace(total, id);
    };
    for (Id id : p_.classes) {
      missing[id].resize(p_.candidates[id].size());
      for (int i = 0; i < static_cast<int>(p_.candidates[id].size()); ++i) {
        missing[id][i] = p_.candidates[id][i].children.size();
        for (Id child : p_.candidates[id][i].children) parents[child].emplace_back(id, i);
      }
      if (uses_[id] == 0) choice_[id] = -1;
    }
    for (Id id : p_.classes) {
      if (uses_[id] > 0) {
        marginal[id] = 0;
        queue.emplace(0, id);
      } else {
        for (int i = 0; i < static_cast<int>(p_.candidates[id].size()); ++i)
          if (missing[id][i] == 0) offer(id, i);
      }
    }
    while (!queue.empty()) {
      const Id id = queue.top().second;
      queue.pop();
      if (settled[id]) continue;
      settled[id] = true;
      for (const auto& [parent, i] : parents[id])
        if (--missing[parent][i] == 0 && uses_[parent] == 0 && !settled[parent]) offer(parent, i);
    }
  }

  // Places of the selected classes in a topological order, children first.
  void rank() {
    place_.assign(p_.candidates.size(), kNotPlaced);
    order_.clear();
    std::vector<std::pair<Id, std::size_t>> stack;
    for (Id root : p_.roots) {
      if (place_[root] == kNotPlaced) stack.emplace_back(root, 0);
      while (!stack.empty()) {
        auto& [id, next] = stack.back();
        if (place_[id] != kNotPlaced) {
          stack.pop_back();
          continue;
        }
        const auto& children = p_.candidates[id][choice_[id]].children;
        while (next < children.size() && place_[children[next]] != kNotPlaced) ++next;
        if (next < children.size()) {
          const Id child = children[next++];
          stack.emplace_back(child, 0);
          continue;
        }
        place_[id] = order_.size();
        order_.push_back(id);
        stack.pop_back();
      }
    }
  }

  static constexpr double kLeastGain = 1e-11;
  Problem p_;
  std::vector<int> choice_;
  std::vector<std::uint32_t> uses_;
  std::vector<std::size_t> place_;
  std::vector<Id> order_;
  std::vector<std::uint32_t> stamps_;
  std::uint32_t stamp_ = 0;
  std::vector<std::vector<std::pair<Id, int>>> siblings_;
  double cost_ = 0;
};

// The e-node of each class that the model itself has: a leaf, or the first of its nodes.
absl::StatusOr<std::vector<int>> original_choice(const OnnxEGraph& g, const Lowered& lowered, const Problem& p) {
  const EGraph& e = g.egraph();
  std::vector<int> choice(p.candidates.size(), -1);
  auto pick = [&](Id id, OpId op, const std::vector<Id>* children) {
    for (int i = 0; i < static_cast<int>(p.candidates[id].size()); ++i) {
      const NodeId n = p.candidates[id][i].node;
      if (n == kNone || e.node(n).op != op) continue;
      if (children && node_signature(e, op, e.node(n).children) != node_signature(e, op, *children)) continue;
      choice[id] = i;
      return;
    }
  };
  for (Id id : p.classes)
    for (int i = 0; i < static_cast<int>(p.candidates[id].size()) && choice[id] < 0; ++i) {
      const NodeId n = p.candidates[id][i].node;
      if (n != kNone && e.node(n).children.empty() && g.key(e.node(n).op).domain == "#") choice[id] = i;
    }
  for (const Source& s : lowered.sources) {
    if (s.op == kNone) continue;
    const bool tuple = g.key(s.op).outputs != 1;
    Id tuple_class = kNone;
    for (std::size_t o = 0; o < s.outputs.size(); ++o) {
      if (s.outputs[o] == kNone) continue;
      const Id id = e.find(s.outputs[o]);
      if (!tuple) {
        if (choice[id] < 0) pick(id, s.op, &s.children);
        continue;
      }
      if (tuple_class == kNone) tuple_class = e.lookup(s.op, s.children);
      if (tuple_class == kNone) return absl::InternalError("a node of the model has no e-node");
      if (choice[id] >= 0) continue;
      for (int i = 0; i < static_cast<int>(p.candidates[id].size()); ++i) {
        const NodeId n = p.candidates[id][i].node;
        if (n == kNone) continue;
        const OpKey& key = g.key(e.node(n).op);
        if (key.op_type == kProjOp && key.attributes[0].i() == static_cast<std::int64_t>(o) && e.find(e.node(n).children[0]) == e.find(tuple_class)) choice[id] = i;
      }
    }
    if (tuple_class != kNone && choice[e.find(tuple_class)] < 0) pick(e.find(tuple_class), s.op, &s.children);
  }
  return choice;
}

Selection to_selection(const LocalSearch& search) {
  Selection s;
  const Problem& p = search.problem();
  s.by_class.resize(p.candidates.size());
  for (Id id : p.classes) {
    if (!search.selected(id)) continue;
    const Candidate& c = p.candidates[id][search.choice()[id]];
    s.by_class[id] = {c.node, c.node == kNone};
  }
  s.cost = search.cost();
  return s;
}

absl::StatusOr<LocalSearch> start(const OnnxEGraph& g, const Lowered& lowered, Problem problem) {
  auto choice = original_choice(g, lowered, problem);
  if (!choice.ok()) return choice.status();
  std::vector<Id> stack = problem.roots;
  std::vector<bool> seen(problem.candidates.size());
  while (!stack.empty()) {
    const Id id = stack.back();
    stack.pop_back();
    if (seen[id]) continue;
    seen[id] = true;
    if ((*choice)[id] < 0) return absl::InternalError(fmt::format("class {} of the model has no e-node of its own", id));
    for (Id child : problem.candidates[id][(*choice)[id]].children) stack.push_back(child);
  }
  return LocalSearch(std::move(problem), std::move(*choice));
}

}  // namespace

absl::StatusOr<Selection> original_selection(const OnnxEGraph& g, const Lowered& lowered, const CostModel& cost) {
  ExtractOptions options;
  auto search = start(g, lowered, ProblemBuilder(g, lowered, nullptr, cost, options).build());
  if (!search.ok()) return search.status();
  return to_selection(*search);
}

absl::StatusOr<Selection> extract(const OnnxEGraph& g, const Lowered& lowered, const Target& target, const CostModel& cost, const ExtractOptions& options) {
  auto search = start(g, lowered, ProblemBuilder(g, lowered, &target, cost, options).build());
  if (!search.ok()) return search.status();
  const double before = search->cost();
  for (int round = 0; round < options.improvement_rounds && search->sweep(); ++round) {
  }
  Selection result = to_selection(*search);
  if (std::string wrong = check_selection(g.egraph(), lowered.roots, result); !wrong.empty()) return absl::InternalError("extraction: " + wrong);
  if (result.cost > before * (1 + 1e-9) + 1e-9) return absl::InternalError("extraction: the result costs more than the model it came from");
  return result;
}

std::string check_selection(const EGraph& e, const std::vector<Id>& roots, const Selection& selection) {
  enum : char { kNew, kOpen, kDone };
  std::vector<char> state(selection.by_class.size(), kNew);
  std::vector<std::pair<Id, std::size_t>> stack;
  for (Id r : roots) stack.emplace_back(e.find(r), 0);
  while (!stack.empty()) {
    auto& [id, next] = stack.back();
    const Choice* choice = selection.find(id);
    if (!choice || (choice->node == kNone && !choice->folded)) return fmt::format("class {} is needed and not selected", id);
    if (choice->node != kNone && e.find(e.class_of(choice->node)) != id) return fmt::format("class {} is given an e-node of another class", id);
    if (state[id] == kDone) {
      stack.pop_back();
      continue;
    }
    state[id] = kOpen;
    const auto children = choice->folded ? std::span<const Id>() : e.node(choice->node).children;
    if (next == children.size()) {
      state[id] = kDone;
      stack.pop_back();
      continue;
    }
    const Id child = e.find(children[next++]);
    if (child < state.size() && state[child] == kOpen) return fmt::format("class {} depends on itself", child);
    stack.emplace_back(child, 0);
  }
  return "";
}

}  // namespace saturate
