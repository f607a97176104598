// Experts and their router, as exporters spell them, as one operator.
#include "rules/experts/experts.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>

#include "onnx_bridge/convert/op_key.h"
#include "rules/native/views.h"

namespace saturate {
namespace {

using namespace experts;
using namespace native;

struct FoundMixture {
  ExpertRegion region;
  Mixture mixture;
  Router router;
};
// What was found in a graph, by the choice. A graph is looked at as it came.
struct FoundMixtures {
  std::mutex mutex;
  std::map<Id, std::optional<FoundMixture>> by_choice;
  FoundBySpelling<Mixture> proven;
};

Spelling spelled(const OnnxEGraph& g, const ExpertRegion& region) {
  Reading reading;
  const auto add = [&](Id id) {
    Border border;
    border.places.push_back(native::Place{id});
    reading.borders.push_back(std::move(border));
  };
  for (const Picked& p : region.picked)
    for (const Id id : p.apart.empty() ? std::vector{p.id} : p.apart) add(id);
  for (const Id id : {region.input, region.weights == kNone ? region.scores : region.weights}) add(id);
  if (region.stands_apart() && region.choice != kNone) add(region.choice);
  reading.inside = region.results;
  Spelling out = spelling_of(g, Region{{}, {reading}});
  // Which border is which belongs to it: experts that stand apart are told from each other by their order.
  for (const Border& b : reading.borders)
    out.text.push_back(static_cast<std::uint64_t>(std::find(out.ids.begin(), out.ids.end(), b.places[0].id) - out.ids.begin()));
  return out;
}

// What is known of one region, said of another of the same spelling.
std::optional<Mixture> moved_to(const OnnxEGraph& g, Mixture m, const Spelling& from, const Spelling& to) {
  bool all = true;
  for (Id* id : {&m.up.picked, &m.up.bias, &m.linear.picked, &m.linear.bias, &m.down.picked, &m.down.bias, &m.result}) {
    if (*id == kNone) continue;
    const auto it = std::find(from.ids.begin(), from.ids.end(), g.egraph().find(*id));
    all = all && it != from.ids.end();
    if (all) *id = to.ids[static_cast<std::size_t>(it - from.ids.begin())];
  }
  return all ? std::optional(std::move(m)) : std::nullopt;
}

std::optional<Mixture> mixture_in(const OnnxEGraph& g, const ExpertRegion& region, FoundMixtures& found) {
  return found.proven.of(
      spelled(g, region), [&] { return mixture_of(g, region); },
      [&](const Mixture& m, const Spelling& from, const Spelling& to) { return moved_to(g, m, from, to); });
}

// Where experts stand apart. Whether they are written in the router's order is asked last: it takes most runs.
std::optional<FoundMixture> found_apart(const OnnxEGraph& g, Id top, FoundMixtures& found) {
  for (const bool in_order : {true, false}) {
    const auto mixture = [&](ExpertRegion& region) {
      return in_order || order_experts(g, region) ? mixture_in(g, region, found) : std::nullopt;
    };
    for (const Id scores : scores_before(g, top))
      if (auto region = experts_apart(g, top, scores))
        if (auto m = mixture(*region)) {
          const bool normalized = m->normalized;
          return FoundMixture{*std::move(region), *std::move(m), {scores, normalized, 1}};
        }
    for (ExpertRegion& region : experts_apart_by_choice(g, top))
      if (is_never_negative(g, region.weights))
        if (auto m = mixture(region)) return FoundMixture{std::move(region), *std::move(m), {kNone, false, 1}};
  }
  return std::nullopt;
}

std::optional<FoundMixture> found_in(const OnnxEGraph& g, Id at, FoundMixtures& found) {
  if (auto apart = found_apart(g, at, found)) return apart;
  auto region = experts_around(g, at);
  if (!region) return std::nullopt;
  auto mixture = mixture_in(g, *region, found);
  if (!mixture) return std::nullopt;
  auto router = router_of(g, *region);
  if (!router && !is_never_negative(g, region->weights)) return std::nullopt;
  if (!router) router = Router{kNone, false, 1};
  return FoundMixture{*std::move(region), *std::move(mixture), *router};
}

// The experts of which these rows are the first that a choice picks, or that stand apart behind this TopK or OneHot; null: there are none.
const FoundMixture* mixture_at(const OnnxEGraph& g, Id at) {
  const auto made = maker_of(g, at);
  const bool apart = made && (is_of_standard(*made->key, "TopK") || is_of_standard(*made->key, "OneHot"));
  const auto choice = apart ? std::optional(g.egraph().find(at)) : choice_of(g, at);
  if (!choice) return nullptr;
  auto& found = g.notes<FoundMixtures>();
  const std::lock_guard lock(found.mutex);
  auto it = found.by_choice.find(*choice);
  if (it == found.by_choice.end()) {
    if (!g.egraph().clean()) return nullptr;
    it = found.by_choice.emplace(*choice, found_in(g, at, found)).first;
  }
  return it->second && (apart || it->second->region.picked.front().id == at) ? &*it->second : nullptr;
}
bool is_mixture(const OnnxEGraph& g, const Match& m) { return mixture_at(g, m.root()) != nullptr; }

class Written {
 public:
  Written(const Views& v, const FoundMixture& f, Unions& unions) : v_(v), f_(f), unions_(unions) {}

  Id made() const {
    const Mixture& m = f_.mixture;
    const Router& r = f_.router;
    const std::array<Dim, 2> rows{f_.region.tokens, v_.g.dims().constant(f_.region.hidden)};
    std::vector<Attribute> attributes{Attribute::of("k", f_.region.chosen), Attribute::of("normalize_routing_weights", std::int64_t{1}),
                                      Attribute::of("activation_type", m.activation)};
    if (m.gate != Gate::kNone) {
      attributes.push_back(Attribute::of("swiglu_fusion", std::int64_t{1}));
      attributes.push_back(Attribute::of("activation_alpha", static_cast<float>(m.alpha)));
      attributes.push_back(Attribute::of("activation_beta", static_cast<float>(m.beta)));
      if (m.limit > 0) attributes.push_back(Attribute::of("swiglu_limit", static_cast<float>(m.limit)));
    }
    const Id absent = v_.g.absent();
    const Id sum = v_.g.add(make_key("com.microsoft", "MoE", std::move(attributes), 1, 2),
                            std::array{reshaped(f_.region.input, rows), r.by_scores() ? scores() : scores_of_weights(), first(false),
                                       m.up.bias == kNone && m.linear.bias == kNone ? absent : first(true), stack(m.down, false),
                                       m.down.bias == kNone ? absent : stack(m.down, true)});
    Id scaled = r.normalized ? sum : times(sum, sum_of_chosen());
    if (r.factor != 1)
      scaled = times(scaled, v_.g.constant(Tensor::of<float>(DType::kFloat, {}, std::array{static_cast<float>(r.factor)})));
    return reshaped(scaled, *v_.shape(m.result));
  }

 private:
  Id times(Id a, Id b) const { return v_.g.add(make_key("", "Mul", {}, 1, std::nullopt), std::array{a, b}); }
  // Of each token the weights of its experts where they are not divided by their sum. Until 1.31 ONNX Runtime's kernel computes wrong
  // numbers without `normalize_routing_weights` where it writes over its input, so that the sum is taken beside it.
  Id sum_of_chosen() const {
    if (!f_.router.by_scores()) return sum_of(weights());
    const std::array<Dim, 2> rows{f_.region.tokens, v_.g.dims().constant(f_.region.experts)};
    const auto ints = [&](std::int64_t n) { return v_.g.constant(Tensor::of<std::int64_t>(DType::kInt64, {1}, std::array{n})); };
    const Id scores = reshaped(f_.router.scores, rows);
    const Id softmax = v_.g.add(make_key("", "Softmax", {Attribute::of("axis", std::int64_t{-1})}, 1, 2), std::array{scores});
    const Id largest =
        v_.g.add(make_key("", "TopK", {Attribute::of("axis", std::int64_t{-1})}, 2, 2), std::array{softmax, ints(f_.region.chosen)});
    return sum_of(v_.g.project(largest, 0));
  }
  Id sum_of(Id weights) const {
    if (f_.region.chosen == 1) return weights;
    // ReduceSum of no tokens has another shape in ONNX Runtime.
    const std::vector<float> ones(static_cast<std::size_t>(f_.region.chosen), 1);
    const Id sums = v_.g.constant(Tensor::of<float>(DType::kFloat, {f_.region.chosen, 1}, ones));
    return v_.g.add(make_key("", "MatMul", {}, 1, std::nullopt), std::array{weights, sums});
  }
  Id number(float x, Shape dims) const { return v_.g.constant(Tensor::of<float>(DType::kFloat, std::move(dims), std::array{x})); }

  // Where the weights are no softmax: scores whose softmax they are, but for their sum. What a token does not go to has almost none of it,
  // and so has an expert whose weight is zero; one that is chosen twice has both weights.
  Id weights() const { return reshaped(f_.region.weights, std::array<Dim, 2>{f_.region.tokens, v_.g.dims().constant(f_.region.chosen)}); }
  Id scores_of_weights() const {
    const std::array<Dim, 2> places{f_.region.tokens, v_.g.dims().constant(f_.region.chosen)};
    const std::array<Dim, 2> all{f_.region.tokens, v_.g.dims().constant(f_.region.experts)};
    const Id spread = v_.g.add(
        make_key("", "ScatterElements", {Attribute::of("axis", std::int64_t{1}), Attribute::of("reduction", std::string("add"))}, 1, 2),
        std::array{v_.expand(number(0, {1, 1}), all), reshaped(f_.region.choice, places), weights()});
    const Id least = number(std::numeric_limits<float>::min(), {});
    const Id held = v_.g.add(make_key("", "Max", {}, 1, std::nullopt), std::array{spread, least});
    return v_.g.add(make_key("", "Log", {}, 1, std::nullopt), std::array{held});
  }
  Id reshaped(Id id, std::span<const Dim> to) const {
    const Dims* from = v_.shape(id);
    return from && v_.equal(*from, to) ? id : v_.reshape(id, to, from ? static_cast<int>(from->size()) : 0);
  }
  Id gathered(Id id, std::span<const std::int64_t> places, std::int64_t axis) const {
    const Id at = v_.g.constant(Tensor::of<std::int64_t>(DType::kInt64, {static_cast<std::int64_t>(places.size())}, places));
    return v_.g.add(make_key("", "Gather", {Attribute::of("axis", axis)}, 1, static_cast<int>(v_.shape(id)->size())), std::array{id, at});
  }
  // Of equal scores TopK takes the first, the operator the last: it gets the experts from the last to the first, where it chooses itself.
  Id from_the_last(Id id, std::int64_t axis) const {
    std::vector<std::int64_t> places(static_cast<std::size_t>(f_.region.experts));
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = f_.region.experts - 1 - static_cast<std::int64_t>(i);
    return gathered(id, places, axis);
  }
  Id scores() const {
    const std::array<Dim, 2> rows{f_.region.tokens, v_.g.dims().constant(f_.region.experts)};
    const Id moved = from_the_last(f_.router.scores, static_cast<std::int64_t>(v_.shape(f_.router.scores)->size()) - 1);
    unions_.emplace_back(moved, product_from_the_last(f_.router.scores, 3));
    return reshaped(moved, rows);
  }
  // The same, with the weights of the router's product in that order where they are constants.
  Id product_from_the_last(Id id, int depth) const {
    const Dims* shape = v_.shape(id);
    const auto made = maker_of(v_.g, id);
    const std::int64_t last = static_cast<std::int64_t>(shape->size()) - 1;
    if (v_.g.facts(id).constant && shape->size() == 1) return from_the_last(id, 0);
    if (made && depth > 0 && made->children.size() >= 2 && made->output == 0) {
      const OpKey key = *made->key;  // nodes that are made below may move it
      std::vector<Id> children(made->children);
      const auto is_vector = [&](Id c) {
        return v_.g.facts(c).constant && v_.shape(c) && v_.shape(c)->size() == 1 && v_.equal(v_.shape(c)->back(), shape->back());
      };
      const Facts& weights = v_.g.facts(children[1]);
      const bool product = weights.constant && weights.shape && weights.shape->size() == 2;
      if (product && is_of_standard(key, "MatMul")) {
        children[1] = from_the_last(children[1], 1);
        return v_.g.add(key, children);
      }
      if (product && is_of_standard(key, "Gemm") && (children.size() < 3 || is_vector(children[2]))) {
        children[1] = from_the_last(children[1], int_attribute(key, "transB", 0) != 0 ? 0 : 1);
        if (children.size() > 2) children[2] = from_the_last(children[2], 0);
        return v_.g.add(key, children);
      }
      if (is_of_standard(key, "Add") && children.size() == 2 && (is_vector(children[0]) || is_vector(children[1]))) {
        for (Id& c : children) c = product_from_the_last(c, depth - 1);
        return v_.g.add(key, children);
      }
    }
    return from_the_last(id, last);
  }

  // The weights of a layer, or its biases, of all experts.
  Id stack(const Layer& l, bool bias) const {
    const Id all = stack_of(bias ? l.bias : l.picked), id = f_.router.by_scores() ? from_the_last(all, 0) : all;
    return !bias && l.transposed ? v_.transpose(id, {0, 2, 1}) : id;
  }
  Id stack_of(Id picked) const {
    const Picked& p = *std::find_if(f_.region.picked.begin(), f_.region.picked.end(), [&](const Picked& q) { return q.id == picked; });
    if (p.apart.empty()) return p.stack;
    std::vector<std::int64_t> dims{1};
    dims.insert(dims.end(), p.of_one.begin(), p.of_one.end());
    std::vector<Id> parts;
    for (const Id id : p.apart) parts.push_back(v_.reshape_by(id, dims, static_cast<int>(p.of_one.size())));
    return v_.concat(parts, 0);
  }

  // What the tokens meet first: rows of gates and of what they multiply in turns.
  Id first(bool bias) const {
    const Mixture& m = f_.mixture;
    Id all = stack(m.up, bias);
    if (m.gate == Gate::kNone) return all;
    if (m.gate == Gate::kApart) all = v_.concat(std::array{all, stack(m.linear, bias)}, 1);
    const std::int64_t wide = *v_.g.dims().value((*v_.shape(all))[1]);
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < wide / 2; ++i) {
      std::array<std::int64_t, 2> pair{i, wide / 2 + i};
      if (m.gate == Gate::kInterleaved) pair = {2 * i, 2 * i + 1};
      if (m.linear_first) std::swap(pair[0], pair[1]);
      places.insert(places.end(), pair.begin(), pair.end());
    }
    return gathered(all, places, 1);
  }

  const Views& v_;
  const FoundMixture& f_;
  Unions& unions_;
};

void make_operator(const Views& v, const Match& m, Unions& unions) {
  const FoundMixture* f = mixture_at(v.g, m.root());
  if (!f) return;
  const Id made = Written(v, *f, unions).made();
  unions.emplace_back(f->mixture.result, made);
}

}  // namespace

std::vector<NativeRule> native_expert_rules() {
  ViewRule rule{"spelled_out_experts",
                "What experts make of the tokens that a router gives them, summed by its weights, is MoE: what follows from a choice and "
                "from weights gives the same on drawn numbers, and the router's weights are a softmax of its scores, or never negative",
                Effect::kReassociates,
                {},
                make_operator,
                true};
  rule.patterns = [](OnnxEGraph& g) {
    return std::vector{over(g, "Gather", 2), over(g, "GatherND", 2), over(g, "TopK", 2, "", 2), over(g, "OneHot", 3)};
  };
  rule.where = is_mixture;
  auto rules = to_native({std::move(rule)});
  rules[0].makes = {"com.microsoft", "MoE"};
  rules[0].assumes = {"finite_experts"};
  return rules;
}

}  // namespace saturate
