// How a router chooses: its weights as a function of scores, found by running it on drawn ones; and what is never negative.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_traits.h"
#include "rules/experts/experts.h"

namespace saturate::experts {
using namespace native;
namespace {

constexpr double kRouterTolerance = 1e-9;
constexpr std::size_t kMostInRouter = 200;

// Which operands of what made a class must not be negative so that it is not; nullopt: that would not do.
std::optional<std::vector<Id>> must_not_be_negative(const Maker& made) {
  const OpKey& key = *made.key;
  if (key.unique != 0 || made.children.empty()) return std::nullopt;
  if (has(Trait::kPositive, key) || is_of_standard(key, "Abs")) return std::vector<Id>();
  const bool sums = has(Trait::kReduction, key) && !key.op_type.starts_with("ReduceLog");
  const bool takes = is_of_standard(key, "TopK") && made.output == 0;
  if (has(Trait::kMovement, key) || sums || takes || is_of_standard(key, "Cast")) return std::vector{made.children[0]};
  const bool joins = has(Trait::kElementwise, key) && has(Trait::kCommutative, key) && has(Trait::kAssociative, key);
  if (joins || has(Trait::kSelection, key) || is_of_standard(key, "Div")) return made.children;
  return std::nullopt;
}

bool holds_no_negative(const Tensor& t) {
  if (t.dtype() != DType::kFloat) return false;
  const auto all = t.span<float>();
  return std::all_of(all.begin(), all.end(), [](float x) { return x >= 0; });
}

class RouterFinder {
 public:
  RouterFinder(const OnnxEGraph& g, const ExpertRegion& region) : g_(g), e_(g.egraph()), region_(region) {}

  std::optional<Router> find() {
    const auto choice = maker_of(g_, region_.choice);
    if (!choice || !is_of_standard(*choice->key, "TopK") || choice->output != 1) return std::nullopt;
    Id at = e_.find(choice->children[0]);
    for (int steps = 0; steps < 4; ++steps) {
      if (auto found = of_scores(at)) return found;
      const auto made = maker_of(g_, at);
      if (!made || made->children.empty() || made->output != 0 || !made->key->domain.empty()) return std::nullopt;
      at = e_.find(made->children[0]);
    }
    return std::nullopt;
  }

 private:
  std::optional<Router> of_scores(Id scores) const {
    const Facts& f = g_.facts(scores);
    if (f.kind != Facts::Kind::kTensor || f.dtype != DType::kFloat || f.constant || !f.shape || f.shape->size() < 2 ||
        g_.dims().value(f.shape->back()) != region_.experts ||
        !g_.dims().equal(g_.dims().product(std::span(*f.shape).first(f.shape->size() - 1)), region_.tokens))
      return std::nullopt;
    for (const bool normalized : {true, false}) {
      Router r{scores, normalized, 0};
      std::size_t runs = 0;
      bool equal = true;
      for (const auto& sizes : sizes_to_draw(g_, region_.tokens)) {
        Run run;
        run.sizes = sizes;
        const auto same = equal_in(r, run, runs);
        if (!same) continue;
        equal = equal && *same;
        ++runs;
      }
      if (equal && runs >= 2) return r;
    }
    return std::nullopt;
  }

  // Whether weights are the router's in a run on drawn scores; nullopt: it cannot be run.
  std::optional<bool> equal_in(Router& r, Run& run, std::size_t round) const {
    Shape dims;
    for (const Dim d : *g_.facts(r.scores).shape) dims.push_back(g_.dims().evaluate(d, run.sizes).value_or(-1));
    if (std::any_of(dims.begin(), dims.end(), [](std::int64_t n) { return n < 1; }) || !checked_elements(dims)) return std::nullopt;
    Draw draw(77 + round);
    Tensor scores(DType::kDouble, dims);
    double* to = scores.mutable_as<double>();
    for (std::int64_t i = 0; i < scores.size(); ++i) to[i] = draw.between(-3, 3);
    const std::vector<double> drawn(scores.span<double>().begin(), scores.span<double>().end());
    run.given[e_.find(r.scores)] = std::move(scores);
    if (!run_region(g_, {region_.choice, region_.weights}, run)) return std::nullopt;
    const auto choice = run.values.find(e_.find(region_.choice)), weights = run.values.find(e_.find(region_.weights));
    if (choice == run.values.end() || weights == run.values.end() || weights->second.dtype() != DType::kDouble ||
        choice->second.dtype() != DType::kInt64 || choice->second.size() != weights->second.size())
      return std::nullopt;
    const std::size_t tokens = drawn.size() / static_cast<std::size_t>(region_.experts);
    bool equal = static_cast<std::int64_t>(tokens) * region_.chosen == weights->second.size();
    for (std::size_t t = 0; t < tokens && equal; ++t)
      equal = is_choice(std::span(drawn).subspan(t * static_cast<std::size_t>(region_.experts), static_cast<std::size_t>(region_.experts)),
                        choice->second.data<std::int64_t>() + static_cast<std::int64_t>(t) * region_.chosen,
                        weights->second.data<double>() + static_cast<std::int64_t>(t) * region_.chosen, r);
    return equal;
  }

  // Whether a token's choice is that of its largest scores, and its weights their softmax, times a factor that is the same for all.
  bool is_choice(std::span<const double> scores, const std::int64_t* choice, const double* weights, Router& r) const {
    auto [order, all] = choice_among(scores, region_.chosen);
    std::vector<std::int64_t> taken(choice, choice + region_.chosen);
    double sum = 0;
    for (const std::int64_t i : order) sum += all[static_cast<std::size_t>(i)];
    std::sort(order.begin(), order.end()), std::sort(taken.begin(), taken.end());
    if (order != taken) return false;
    for (std::int64_t k = 0; k < region_.chosen; ++k) {
      const double wanted = all[static_cast<std::size_t>(choice[k])] / (r.normalized ? sum : 1);
      if (r.factor == 0) r.factor = std::abs(weights[k] / wanted - 1) <= kRouterTolerance ? 1 : weights[k] / wanted;
      if (!(std::abs(weights[k] - r.factor * wanted) <= kRouterTolerance * std::abs(weights[k]))) return false;
    }
    return true;
  }

  const OnnxEGraph& g_;
  const EGraph& e_;
  const ExpertRegion& region_;
};

}  // namespace

Choice choice_among(std::span<const double> scores, std::int64_t chosen) {
  Choice out;
  out.softmax.assign(scores.begin(), scores.end());
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& x : out.softmax) sum += x = std::exp(x - most);
  for (double& x : out.softmax) x /= sum;
  out.experts.resize(scores.size());
  std::iota(out.experts.begin(), out.experts.end(), 0);
  std::stable_sort(out.experts.begin(), out.experts.end(), [&](std::int64_t a, std::int64_t b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  out.experts.resize(static_cast<std::size_t>(chosen));
  return out;
}

bool is_never_negative(const OnnxEGraph& g, Id id) {
  std::vector<Id> open{g.egraph().find(id)};
  std::set<Id> seen{open[0]};
  while (!open.empty()) {
    const Id at = open.back();
    open.pop_back();
    const Facts& f = g.facts(at);
    if (f.kind == Facts::Kind::kAbsent || (f.kind == Facts::Kind::kTensor && f.dtype == DType::kBool)) continue;
    if (const auto value = g.value(at)) {
      if (!holds_no_negative(*value)) return false;
      continue;
    }
    if (f.kind != Facts::Kind::kTensor || !is_floating(f.dtype)) return false;
    const auto made = maker_of(g, at);
    const auto needed = made ? must_not_be_negative(*made) : std::nullopt;
    if (!needed || seen.size() > kMostInRouter) return false;
    for (const Id c : *needed)
      if (seen.insert(g.egraph().find(c)).second) open.push_back(g.egraph().find(c));
  }
  return true;
}

std::optional<Router> router_of(const OnnxEGraph& g, const ExpertRegion& region) { return RouterFinder(g, region).find(); }

}  // namespace saturate::experts
