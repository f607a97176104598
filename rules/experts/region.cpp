// Where a mixture of experts begins and ends: between what a choice picks of stacked weights and a sum that has as many rows as tokens.
#include <algorithm>
#include <map>
#include <set>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_traits.h"
#include "rules/experts/experts.h"
#include "rules/native/kit.h"

namespace saturate::experts {
using namespace native;
namespace {

constexpr std::size_t kMostBehind = 300, kMostPicked = 6, kMostUsers = 64;
constexpr std::size_t kMostBytes = 1 << 14;  // of a constant that is no weight

bool is_tensor_of(const OnnxEGraph& g, Id id, bool floats) {
  const Facts& f = g.facts(id);
  return f.kind == Facts::Kind::kTensor && (floats ? is_floating(f.dtype) : f.dtype == DType::kInt64 || f.dtype == DType::kInt32);
}
bool is_known(const OnnxEGraph& g, Id id) { return g.facts(id).constant || g.facts(id).content; }

// Whether an operator hands on the numbers of its first input, in their order, or moves and repeats some.
bool may_be_view(const OpKey& key) { return key.domain.empty() && key.unique == 0; }
bool is_view(const OpKey& key) { return may_be_view(key) && (has(Trait::kView, key.op_type) || is_of_standard(key, "Cast")); }
bool repeats(const OpKey& key) { return may_be_view(key) && has(Trait::kMovement, key.op_type); }

class PickFinder {
 public:
  PickFinder(const OnnxEGraph& g, Id choice) : g_(g), e_(g.egraph()) { region_.choice = choice; }

  std::optional<ExpertRegion> find() {
    const Facts& f = g_.facts(region_.choice);
    if (!f.shape || f.shape->size() < 2) return std::nullopt;
    const auto chosen = g_.dims().value(f.shape->back());
    if (!chosen || *chosen < 1) return std::nullopt;
    region_.chosen = *chosen;
    region_.tokens = g_.dims().product(std::span(*f.shape).first(f.shape->size() - 1));
    if (!find_picked()) return std::nullopt;
    find_behind();
    for (const Id id : order_)
      if (may_be_result(id)) take(id);
    if (region_.results.empty()) return std::nullopt;
    return std::move(region_);
  }

 private:
  // The Gathers by this choice, through its views.
  bool find_picked() {
    std::vector<Id> open{region_.choice};
    std::set<Id> seen{region_.choice};
    for (std::size_t i = 0; i < open.size() && open.size() < kMostUsers; ++i)
      for (const NodeId n : e_.class_users(open[i])) {
        const Id user = e_.find(e_.class_of(n));
        if (!seen.insert(user).second) continue;
        if (choice_of(g_, user) == region_.choice) {
          add_picked(user);
        } else if (is_tensor_of(g_, user, false)) {
          open.push_back(user);
        }
      }
    std::sort(region_.picked.begin(), region_.picked.end(), [](const Picked& a, const Picked& b) { return a.id < b.id; });
    return region_.picked.size() >= 2 && region_.picked.size() <= kMostPicked;
  }

  void add_picked(Id id) {
    const Id stack = e_.find(maker_of(g_, id)->children[0]);
    Picked p;
    p.id = id, p.stack = stack;
    for (const Dim d : *g_.facts(stack).shape) p.of_one.push_back(g_.dims().value(d).value_or(0));
    region_.experts = p.of_one.front();
    p.of_one.erase(p.of_one.begin());
    region_.picked.push_back(std::move(p));
  }
  bool is_picked(Id id) const {
    return std::any_of(region_.picked.begin(), region_.picked.end(), [&](const Picked& p) { return p.id == id; });
  }

  // What follows from what was picked, the nearest first.
  void find_behind() {
    for (const Picked& p : region_.picked) behind_.insert(p.id), order_.push_back(p.id);
    for (std::size_t i = 0; i < order_.size() && order_.size() < kMostBehind; ++i)
      for (const NodeId n : e_.class_users(order_[i]))
        if (const Id user = e_.find(e_.class_of(n)); carries(user) && behind_.insert(user).second) order_.push_back(user);
  }
  bool carries(Id id) const { return g_.facts(id).kind == Facts::Kind::kTuple || is_tensor_of(g_, id, true); }

  bool has_rows(const Facts& f) const {
    return f.shape && f.shape->size() >= 2 && g_.dims().value(f.shape->back()).value_or(0) > 0 &&
           g_.dims().equal(g_.dims().product(std::span(*f.shape).first(f.shape->size() - 1)), region_.tokens);
  }
  bool may_be_result(Id id) const { return !is_picked(id) && is_tensor_of(g_, id, true) && has_rows(g_.facts(id)); }

  // Takes a class as a possible result where all that it is made of are picked rows, tokens and weights.
  void take(Id result) {
    std::set<Id> seen{result};
    std::vector<Id> open{result}, entries;
    bool picks = false;
    while (!open.empty()) {
      const Id id = open.back();
      open.pop_back();
      if (is_picked(id)) {
        picks = true;
        continue;
      }
      const auto made = maker_of(g_, id);
      if (!made || made->key->domain == "#" || made->key->unique != 0) return;
      for (Id c : made->children) {
        c = e_.find(c);
        if (g_.facts(c).kind == Facts::Kind::kAbsent || !seen.insert(c).second || is_known(g_, c)) continue;
        if (behind_.contains(c)) {
          open.push_back(c);
        } else if (is_tensor_of(g_, c, true)) {
          entries.push_back(c);
        }
      }
    }
    if (!picks || !has_no_weights(seen)) return;
    const std::int64_t hidden = *g_.dims().value(g_.facts(result).shape->back());
    if (hidden == region_.chosen || (region_.hidden != 0 && hidden != region_.hidden)) return;
    Id input = region_.input, weights = region_.weights;
    for (const Id entry : entries)
      if (!place(entry, hidden, input, weights)) return;
    if (input == kNone || weights == kNone) return;
    region_.hidden = hidden, region_.input = input, region_.weights = weights;
    region_.results.push_back(result);
    for (const Id id : seen)
      if (behind_.contains(id)) region_.inside.push_back(id);
  }

  bool has_no_weights(const std::set<Id>& all) const {
    return std::none_of(all.begin(), all.end(),
                        [&](Id id) { return is_known(g_, id) && is_tensor_of(g_, id, true) && !g_.value(id, kMostBytes); });
  }

  // Where tokens or weights, which enter the region in some view, can be had: the nearest place.
  bool place(Id entry, std::int64_t hidden, Id& input, Id& weights) const {
    const auto chain = back_through_views(g_, entry, true);
    const auto holds = [&](Id id) { return std::find(chain.begin(), chain.end(), id) != chain.end(); };
    if ((input != kNone && holds(input)) || (weights != kNone && holds(weights))) return true;
    for (const Id id : chain) {
      const Facts& f = g_.facts(id);
      if (!has_rows(f)) continue;
      const std::int64_t last = *g_.dims().value(f.shape->back());
      if (last != hidden && (last != region_.chosen || f.shape->size() != 2)) continue;
      Id& slot = last == hidden ? input : weights;
      if (slot != kNone) return false;
      slot = id;
      return true;
    }
    return false;
  }

  const OnnxEGraph& g_;
  const EGraph& e_;
  ExpertRegion region_;
  std::set<Id> behind_;
  std::vector<Id> order_;
};

}  // namespace

std::vector<Id> back_through_views(const OnnxEGraph& g, Id id, bool with_repeats) {
  std::vector<Id> out{g.egraph().find(id)};
  for (;;) {
    const auto made = maker_of(g, out.back());
    if (!made || made->output != 0 || made->children.empty() || !(is_view(*made->key) || (with_repeats && repeats(*made->key)))) return out;
    const Id from = g.egraph().find(made->children[0]);
    if (is_known(g, from) || std::find(out.begin(), out.end(), from) != out.end()) return out;
    out.push_back(from);
  }
}

std::optional<Id> choice_of(const OnnxEGraph& g, Id gather) {
  const auto made = maker_of(g, gather);
  if (!made || !made->key->domain.empty() || made->children.size() < 2) return std::nullopt;
  const bool nd = made->key->op_type == "GatherND";
  if (!nd && made->key->op_type != "Gather") return std::nullopt;
  const Facts &stack = g.facts(made->children[0]), &indices = g.facts(made->children[1]);
  if (!stack.constant || stack.dtype != DType::kFloat || !stack.shape || stack.shape->size() < 2 || stack.shape->size() > 3)
    return std::nullopt;
  if (is_known(g, made->children[1]) || !indices.shape || indices.shape->empty()) return std::nullopt;
  if (nd ? int_attribute(*made->key, "batch_dims", 0) != 0 || g.dims().value(indices.shape->back()) != 1
         : int_attribute(*made->key, "axis", 0) != 0)
    return std::nullopt;
  return back_through_views(g, made->children[1], false).back();
}

std::optional<ExpertRegion> experts_around(const OnnxEGraph& g, Id gather) {
  const auto choice = choice_of(g, gather);
  return choice ? PickFinder(g, *choice).find() : std::nullopt;
}

}  // namespace saturate::experts
