// Where a recurrence begins and ends. It has no weights: whatever has some, or is neither sum nor product, is outside.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_questions.h"
#include "onnx_bridge/operators/op_traits.h"
#include "rules/recurrence/recurrence.h"

namespace saturate::native {
namespace {

constexpr std::size_t kMostInside = 50'000, kMostBorders = 6, kMostLate = 3, kLeastInside = 4;
constexpr std::size_t kMaskBytes = std::size_t{1} << 22;

enum class Part : std::uint8_t { kNone, kView, kLinear, kProduct };

// kView: the numbers of the first input, some of them or with zeros between. kLinear: other sums. kProduct: of two or more.
Part part_of(const OpKey& key) {
  if (!key.domain.empty() || key.unique != 0 || key.role != UnitRole::kNone) return Part::kNone;
  if (has(Trait::kMovement, key) || one_of(key.op_type, {"Pad", "CumSum", "Cast"})) return Part::kView;
  if (has(Trait::kLinear, key) || updates_of(key)) return Part::kLinear;
  return has(Trait::kBilinear, key) || key.op_type == "Div" ? Part::kProduct : Part::kNone;
}

// Whether it may hand on some of its numbers alone; Expand and Tile repeat all.
bool may_cut(const OpKey& key) {
  return has(Trait::kMovement, key) && !has(Trait::kPermutation, key) && !one_of(key.op_type, {"Expand", "Tile"});
}

bool is_exp(const OpKey& key) { return is_of_standard(key, "Exp"); }

// Tensors of floats, and tuples of them.
bool carries(const OnnxEGraph& g, Id id) {
  const Facts& f = g.facts(id);
  return f.kind == Facts::Kind::kTuple || (f.kind == Facts::Kind::kTensor && is_floating(f.dtype));
}
bool flows(const OnnxEGraph& g, Id id) { return carries(g, id) && !g.facts(id).constant; }

// Whether a constant may stand in a recurrence: one number, or a mask.
bool is_mask(const OnnxEGraph& g, Id id) {
  const auto value = g.value(id, kMaskBytes);
  if (!value) return false;
  const auto first = value->size() > 0 ? element_as_double(*value, 0) : std::optional(0.0);
  bool same = true, mask = true;
  for (std::int64_t i = 0; i < value->size() && (same || mask); ++i) {
    const auto x = element_as_double(*value, i);
    if (!x) return false;
    same = same && *x == *first;
    mask = mask && (*x == 0 || *x == 1 || *x == -1 || std::abs(*x) >= 1e30);
  }
  return same || mask;
}

std::vector<Id> operands(const OnnxEGraph& g, const Maker& m) {
  std::vector<Id> out;
  for (const Id c : m.children)
    if (flows(g, c)) out.push_back(g.egraph().find(c));
  return out;
}

// A class and the views that it is made by.
using Chain = std::vector<Id>;
bool share(const Chain& a, const Chain& b) {
  return std::any_of(a.begin(), a.end(), [&](Id id) { return std::find(b.begin(), b.end(), id) != b.end(); });
}

// Which borders are of a recurrence, and which of what follows it.
class ReadingsOf {
 public:
  // `order`: the values of the region, each behind what it reads of them.
  ReadingsOf(const OnnxEGraph& g, const std::vector<Id>& order)
      : g_(g), e_(g.egraph()), order_(order), inside_(order.begin(), order.end()) {}

  // With all borders, then without some of the late ones, the fewest first.
  void add(const std::vector<std::vector<Chain>>& groups, const std::vector<Border>& borders, Region& region) {
    for (std::size_t b = 0; b < groups.size(); ++b)
      for (const Chain& chain : groups[b])
        for (const Id id : chain) enters_[id] |= Groups{1} << b;
    std::vector<Groups> of_inside;
    for (const Id id : order_) of_inside.push_back(needs(id));
    const std::vector<std::size_t> last = late(borders);
    std::vector<std::uint32_t> subsets(std::size_t{1} << last.size());
    std::iota(subsets.begin(), subsets.end(), 0U);
    std::stable_sort(subsets.begin(), subsets.end(), [](std::uint32_t a, std::uint32_t b) { return std::popcount(a) < std::popcount(b); });
    for (const std::uint32_t subset : subsets) {
      Groups without = 0;
      for (std::size_t i = 0; i < last.size(); ++i)
        if (subset >> i & 1) without |= Groups{1} << last[i];
      Reading reading;
      for (std::size_t b = 0; b < borders.size(); ++b)
        if (!(without >> b & 1)) reading.borders.push_back(borders[b]);
      if (reading.borders.size() > kMostBorders) continue;
      for (std::size_t i = 0; i < order_.size(); ++i)
        if ((of_inside[i] & without) == 0) reading.inside.push_back(order_[i]);
      region.readings.push_back(std::move(reading));
    }
  }

 private:
  using Groups = std::uint32_t;  // a bit for each border

  Maker maker(Id id) const { return maker_of(g_, id).value_or(Maker{}); }

  // The borders that a value needs.
  Groups needs(Id id) {
    std::vector<std::pair<Id, bool>> open{{e_.find(id), false}};
    while (!open.empty()) {
      const auto [at, ready] = open.back();
      open.pop_back();
      if (known_.contains(at) && !ready) continue;
      if (const auto it = enters_.find(at); it != enters_.end()) {
        known_[at] = it->second;
        continue;
      }
      const std::vector<Id> from = operands(g_, maker(at));
      Groups all = 0;
      if (!ready) {
        known_[at] = 0;
        open.emplace_back(at, true);
      }
      for (const Id c : from)
        if (ready)
          all |= known_[c];
        else
          open.emplace_back(c, false);
      if (ready) known_[at] = all;
    }
    return known_.at(e_.find(id));
  }

  // Borders that come in behind all others: what else goes into the operators that read them needs three others and the decay.
  std::vector<std::size_t> late(const std::vector<Border>& borders) {
    std::vector<bool> is_late(borders.size(), true), read(borders.size(), false);
    for (const Id id : order_) {
      Groups direct = 0, others = 0;
      for (const Id c : operands(g_, maker(id))) (inside_.contains(c) ? others : direct) |= needs(c);
      for (std::size_t b = 0; b < borders.size(); ++b) {
        if (!(direct >> b & 1)) continue;
        read[b] = true;
        const Groups rest = others & ~(Groups{1} << b);
        is_late[b] = is_late[b] && std::popcount(rest) >= 4;
      }
    }
    std::vector<std::size_t> out;
    for (std::size_t b = 0; b < borders.size(); ++b)
      if (is_late[b] && read[b] && !borders[b].decays && out.size() < kMostLate) out.push_back(b);
    return out;
  }

  const OnnxEGraph& g_;
  const EGraph& e_;
  const std::vector<Id>& order_;
  const std::set<Id> inside_;
  std::map<Id, Groups> enters_, known_;
};

class Finder {
 public:
  explicit Finder(const OnnxEGraph& g) : g_(g), e_(g.egraph()) {}

  std::optional<Region> around(Id exp) {
    exps_ = {e_.find(exp)};
    do {
      if (!fill()) return std::nullopt;
    } while (add_exps());
    if (inside_.size() < kLeastInside) return std::nullopt;
    Region region;
    region.exps.assign(exps_.begin(), exps_.end());
    if (!find_borders(region)) return std::nullopt;
    return region;
  }

 private:
  const Maker& maker(Id id) {
    const auto [it, added] = makers_.try_emplace(id);
    if (added) it->second = maker_of(g_, id).value_or(Maker{});
    return it->second;
  }

  // What follows from the Exps, and of that what is inside.
  bool fill() {
    std::set<Id> follows(exps_.begin(), exps_.end());
    std::vector<Id> open(exps_.begin(), exps_.end());
    while (!open.empty()) {
      const Id id = open.back();
      open.pop_back();
      for (const NodeId n : e_.class_users(id))
        if (const Id user = e_.find(e_.class_of(n)); carries(g_, user) && follows.insert(user).second) open.push_back(user);
    }
    inside_ = exps_;
    order_.assign(exps_.begin(), exps_.end());
    std::vector<Id> again(exps_.begin(), exps_.end());
    while (!again.empty() && inside_.size() <= kMostInside) {
      const Id id = again.back();
      again.pop_back();
      for (const NodeId n : e_.class_users(id)) {
        const Id user = e_.find(e_.class_of(n));
        if (inside_.contains(user) || !is_inside(user, follows)) continue;
        inside_.insert(user);
        order_.push_back(user);
        again.push_back(user);
      }
    }
    return inside_.size() <= kMostInside;
  }

  bool is_inside(Id id, const std::set<Id>& follows) {
    if (!carries(g_, id)) return false;
    const Maker& m = maker(id);
    if (!m.key || part_of(*m.key) == Part::kNone) return false;
    if (m.key->op_type == "Div" && !g_.facts(m.children[1]).constant) return false;
    return std::all_of(m.children.begin(), m.children.end(), [&](Id c) {
      c = e_.find(c);
      if (!carries(g_, c)) return true;
      return g_.facts(c).constant ? is_mask(g_, c) : inside_.contains(c) || !follows.contains(c);
    });
  }

  std::vector<Id> entries() {
    std::set<Id> found;
    for (const Id id : order_)
      for (const Id c : operands(g_, maker(id)))
        if (!inside_.contains(c) && !is_of_sizes(c)) found.insert(c);
    return {found.begin(), found.end()};
  }

  // Whether nothing but sizes is in it, as in zeros that are as many as there are tokens.
  bool is_of_sizes(Id id) {
    const Maker& m = maker(chain(id, true).back());
    return m.key && m.key->domain.empty() && m.key->unique == 0 && operands(g_, m).empty() &&
           std::all_of(m.children.begin(), m.children.end(), [&](Id c) { return g_.facts(c).constant || g_.facts(c).content; });
  }

  // Exps that come in beside the first.
  bool add_exps() {
    const std::size_t before = exps_.size();
    for (const bool one : {false, true}) {
      spread(one);
      for (const Id leaf : leaves_) {
        const Id end = chain(leaf, true).back();
        const Maker& m = maker(end);
        if (m.key && is_exp(*m.key)) exps_.insert(end);
      }
    }
    return exps_.size() > before;
  }

  // Whether an operator hands on fewer numbers than it gets.
  bool narrows(Id to, Id from) const {
    const Facts &a = g_.facts(to), &b = g_.facts(from);
    if (!a.shape || !b.shape) return true;
    return !g_.dims().equal(g_.dims().product(*a.shape), g_.dims().product(*b.shape));
  }

  // A class and the views that it is made by, to the first that is none. `one`: of one element along an axis, too.
  Chain chain(Id id, bool one) {
    Chain out{id};
    for (;;) {
      const Maker& m = maker(out.back());
      const bool mixes = m.key && (is_sum_of_some(m) || factor(m) != 1);
      if (!m.key || !(part_of(*m.key) == Part::kView || mixes)) return out;
      const auto from = operands(g_, m);
      if (from.size() != 1 || (!mixes && e_.find(m.children[0]) != from[0])) return out;
      if (may_cut(*m.key) && narrows(out.back(), from[0]) && !(one && takes_one(m, out.back(), from[0]))) return out;
      if (std::find(out.begin(), out.end(), from[0]) != out.end()) return out;
      out.push_back(from[0]);
    }
  }

  // By what an operator multiplies what flows; 1 where it does something else.
  double factor(const Maker& m) const {
    if (is_of_standard(*m.key, "Neg")) return -1;
    const bool times = is_of_standard(*m.key, "Mul");
    if (!times && !is_of_standard(*m.key, "Div")) return 1;
    for (std::size_t i = times ? 0 : 1; i < 2; ++i)
      if (const auto number = number_of(g_, m.children[i]); number && *number != 0) return times ? *number : 1 / *number;
    return 1;
  }

  // CumSum as a product with a triangle of ones.
  bool is_sum_of_some(const Maker& m) const {
    if (!is_of_standard(*m.key, "MatMul")) return false;
    return std::any_of(m.children.begin(), m.children.end(), [&](Id c) { return g_.facts(c).constant && is_mask(g_, c); });
  }

  // Slice or Gather of one place along an axis.
  bool takes_one(const Maker& m, Id to, Id from) const {
    const Facts &a = g_.facts(to), &b = g_.facts(from);
    if (!a.shape || !b.shape) return false;
    if (m.key->op_type == "Gather") return a.rank() + 1 == b.rank();
    if (m.key->op_type != "Slice" || a.rank() != b.rank()) return false;
    int changed = 0;
    bool one = true;
    for (std::size_t i = 0; i < a.shape->size(); ++i)
      if (!g_.dims().equal((*a.shape)[i], (*b.shape)[i])) {
        ++changed;
        one = one && g_.dims().value((*a.shape)[i]) == 1;
      }
    return changed == 1 && one;
  }

  // ---- borders: where what enters comes from

  bool is_join(Id id) {
    const Maker& m = maker(id);
    return m.key && (m.key->op_type == "MatMul" || m.key->op_type == "Einsum") && m.key->domain.empty() && operands(g_, m).size() >= 2;
  }

  // A product with more elements than each of its factors.
  bool is_outer_product(Id id) {
    const Maker& m = maker(id);
    if (!m.key || m.key->op_type != "Mul") return false;
    const auto factors = operands(g_, m);
    return factors.size() == 2 && narrows(id, factors[0]) && narrows(id, factors[1]);
  }

  bool meets(const Chain& c, Id but, bool one) {
    for (const Id leaf : leaves_) {
      if (leaf == but) continue;
      if (share(c, chain(leaf, one))) return true;
    }
    return false;
  }

  // Whether what made `id`, the end of a leaf's chain, belongs to the region: a product of what enters elsewhere, too.
  bool leads_on(Id id, Id leaf, bool one, int depth) {
    const Maker& m = maker(id);
    if (!m.key || depth > 4) return false;
    const Part part = part_of(*m.key);
    if (part == Part::kNone || part == Part::kView) return false;
    for (const Id c : m.children)
      if (carries(g_, c) && g_.facts(c).constant && !is_mask(g_, c)) return false;
    if (is_join(id) || is_outer_product(id)) return true;
    if (joins_views(m, one)) return true;
    for (const Id c : operands(g_, m)) {
      const Chain back = chain(c, one);
      const Maker& end = maker(chain(c, true).back());
      if (end.key && is_exp(*end.key)) return true;
      if (meets(back, leaf, one) || leads_on(back.back(), leaf, one, depth + 1)) return true;
    }
    return false;
  }

  // Whether two operands are views of one value, as in the differences of a decay's sums.
  bool joins_views(const Maker& m, bool one) {
    const std::vector<Id> from = operands(g_, m);
    if (from.size() != 2 || from[0] == from[1]) return false;
    return share(chain(from[0], one), chain(from[1], one));
  }

  void spread(bool one) {
    const std::vector<Id> begin = entries();
    leaves_.clear();
    leaves_.insert(begin.begin(), begin.end());
    for (const Id exp : exps_)
      for (const Id c : operands(g_, maker(exp))) leaves_.insert(c);
    for (bool changed = true; changed && leaves_.size() <= kMostInside;) {
      changed = false;
      const std::vector<Id> now(leaves_.begin(), leaves_.end());
      for (const Id leaf : now) {
        const Id end = chain(leaf, one).back();
        if (!leads_on(end, leaf, one, 0)) continue;
        leaves_.erase(leaf);
        for (const Id c : operands(g_, maker(end))) leaves_.insert(c);
        changed = true;
      }
    }
  }

  // The leaves that are views of one value.
  std::vector<std::vector<Chain>> groups(bool one) {
    std::vector<std::vector<Chain>> out;
    for (const Id leaf : leaves_) {
      std::vector<Chain> mine{chain(leaf, one)};
      for (auto it = out.begin(); it != out.end();) {
        const bool shared = std::any_of(it->begin(), it->end(), [&](const Chain& c) { return share(c, mine[0]); });
        if (!shared) {
          ++it;
          continue;
        }
        mine.insert(mine.end(), it->begin(), it->end());
        it = out.erase(it);
      }
      out.push_back(std::move(mine));
    }
    return out;
  }

  bool find_borders(Region& region) {
    for (const bool one : {false, true}) {
      spread(one);
      const auto found = groups(one);
      std::vector<Border> borders;
      for (const auto& chains : found) borders.push_back(border_of(chains));
      const auto empty = [](const Border& b) { return b.places.empty(); };
      if (found.size() > kMostBorders + kMostLate || std::any_of(borders.begin(), borders.end(), empty)) continue;
      mark_decays(borders);
      ReadingsOf(g_, order_).add(found, borders, region);
    }
    return !region.readings.empty();
  }

  // Which borders lead into an Exp.
  void mark_decays(std::vector<Border>& borders) {
    std::vector<Id> open;
    std::set<Id> seen;
    for (const Id exp : exps_)
      for (const Id c : operands(g_, maker(exp))) open.push_back(c);
    while (!open.empty()) {
      const Id id = open.back();
      open.pop_back();
      if (!seen.insert(id).second) continue;
      bool ends = false;
      for (Border& b : borders)
        if (std::any_of(b.places.begin(), b.places.end(), [&](const Place& p) { return p.id == id; })) ends = b.decays = true;
      if (ends) continue;
      for (const Id c : operands(g_, maker(id))) open.push_back(c);
    }
  }

  // Where all leaves of a border can be had. Leaves by several factors, as a sum and its negative, are made inside.
  Border border_of(const std::vector<Chain>& chains) {
    Border out;
    for (const Id id : chains[0]) {
      std::set<double> factors;
      for (const Chain& c : chains) factors.insert(factor_to(c, id).value_or(HUGE_VAL));
      if (!factors.contains(HUGE_VAL)) out.places.push_back({id, factors.size() == 1 ? *factors.begin() : 1});
    }
    std::reverse(out.places.begin(), out.places.end());
    return out;
  }
  std::optional<double> factor_to(const Chain& chain, Id id) {
    double all = 1;
    for (const Id at : chain) {
      if (at == id) return all;
      all *= factor(maker(at));
    }
    return std::nullopt;
  }

  const OnnxEGraph& g_;
  const EGraph& e_;
  std::map<Id, Maker> makers_;
  std::set<Id> exps_, inside_, leaves_;
  std::vector<Id> order_;
};

}  // namespace

std::optional<Maker> maker_of(const OnnxEGraph& g, Id id) {
  const EGraph& e = g.egraph();
  auto nodes = e.class_nodes(id);
  if (nodes.empty()) return std::nullopt;
  ENode node = e.node(nodes.front());
  Maker out{&g.key(node.op), {}, 0};
  if (out.key->domain == "#" && out.key->op_type == kProjOp) {
    out.output = static_cast<int>(out.key->attributes[0].i());
    nodes = e.class_nodes(node.children[0]);
    if (nodes.empty()) return std::nullopt;
    node = e.node(nodes.front());
    out.key = &g.key(node.op);
  }
  out.children.assign(node.children.begin(), node.children.end());
  return out;
}

std::optional<Region> region_around(const OnnxEGraph& g, Id exp) { return Finder(g).around(exp); }

}  // namespace saturate::native
