// Experts that have operators of their own, one after the other: over all tokens, masked, or over those that a choice gives them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "onnx_bridge/convert/op_key.h"
#include "rules/experts/experts.h"
#include "rules/native/kit.h"

namespace saturate::experts {
using namespace native;
namespace {

constexpr std::size_t kMostBehindTop = 20'000, kMostBeside = 100, kMostExperts = 256;
constexpr std::int64_t kMostApart = std::int64_t{1} << 25;

// A product of a matrix of weights with what comes from tokens.
struct Product {
  Id id = kNone, weights = kNone, data = kNone, bias = kNone;
};

class ApartFinder {
 public:
  explicit ApartFinder(const OnnxEGraph& g) : g_(g), e_(g.egraph()) {}

  // Regions for each place where scores may be had, the nearest to the choice first.
  std::optional<ExpertRegion> find(Id top, Id scores) {
    region_.scores = scores;
    if (!take_sizes(top, scores) || !find_input(scores)) return std::nullopt;
    find_behind(top);
    return nearest_layers() ? std::optional(std::move(region_)) : std::nullopt;
  }

  // Regions for each place where weights may be had, the nearest to the experts first.
  std::vector<ExpertRegion> find_by_choice(Id at) {
    if (!take_choice(at) || !find_router_input(region_.choice)) return {};
    find_behind(region_.choice == e_.find(maker_of(g_, at)->children[0]) ? region_.choice : at);
    std::vector<ExpertRegion> out;
    const ExpertRegion all = region_;
    for (const Id weights : weights_around()) {
      region_ = all, region_.weights = weights;
      if (nearest_layers()) out.push_back(std::move(region_));
    }
    return out;
  }

 private:
  // The choice that a TopK makes, or that a OneHot spreads which no TopK has made.
  bool take_choice(Id at) {
    const auto made = maker_of(g_, at);
    if (!made) return false;
    if (is_of_standard(*made->key, "TopK")) {
      if (!take_sizes(at, made->children[0])) return false;
      for (const NodeId n : e_.class_users(at))
        if (const Id user = e_.find(e_.class_of(n)); g_.facts(user).kind == Facts::Kind::kTensor && g_.facts(user).dtype == DType::kInt64)
          region_.choice = user;
      return region_.choice != kNone;
    }
    region_.choice = e_.find(made->children[0]);
    const auto from = maker_of(g_, back_through_views(g_, region_.choice, false).back());
    const Facts& f = g_.facts(region_.choice);
    const auto experts = g_.value(made->children[1]);
    if (!from || is_of_standard(*from->key, "TopK") || !experts || experts->size() != 1 || experts->dtype() != DType::kInt64 ||
        f.dtype != DType::kInt64 || !f.shape || f.shape->size() < 2)
      return false;
    region_.tokens = g_.dims().product(std::span(*f.shape).first(f.shape->size() - 1));
    region_.chosen = g_.dims().value(f.shape->back()).value_or(0), region_.experts = experts->data<std::int64_t>()[0];
    return has_sizes();
  }
  bool has_sizes() const {
    return region_.experts >= 2 && region_.experts <= static_cast<std::int64_t>(kMostExperts) && region_.chosen >= 1 &&
           region_.chosen <= region_.experts;
  }
  bool may_be_weights(Id id) const {
    const auto rows = rows_of(id);
    return rows && g_.dims().value(g_.facts(id).shape->back()) == region_.chosen && g_.dims().equal(*rows, region_.tokens);
  }
  // What may be weights, behind the choice or beside what follows from it; the nearest to the experts first.
  std::vector<Id> weights_around() const {
    std::vector<Id> out;
    const auto add = [&](Id id) {
      if (may_be_weights(id) && std::find(out.begin(), out.end(), id) == out.end()) out.push_back(id);
    };
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      add(*it);
      if (const auto made = maker_of(g_, *it))
        for (const Id c : made->children)
          if (!is_known(c) && !behind_.contains(e_.find(c)))
            for (const Id view : back_through_views(g_, c, false)) add(view);
    }
    return out;
  }
  bool take_sizes(Id top, Id scores) {
    const auto made = maker_of(g_, top);
    const auto chosen = g_.value(made->children[1]);
    const auto rows = rows_of(scores);
    if (!chosen || chosen->size() != 1 || chosen->dtype() != DType::kInt64 || !rows) return false;
    region_.tokens = *rows, region_.chosen = chosen->data<std::int64_t>()[0];
    region_.experts = g_.dims().value(g_.facts(scores).shape->back()).value_or(0);
    return has_sizes();
  }
  // The sum that is furthest behind the choice, and its layers; what lies behind it is no result.
  bool nearest_layers() {
    for (auto it = region_.results.rbegin(); it != region_.results.rend(); ++it) {
      region_.picked.clear(), region_.inside.clear();
      if (!find_layers(*it)) continue;
      region_.results.erase(it.base(), region_.results.end());
      return true;
    }
    return false;
  }
  bool is_known(Id id) const { return g_.facts(id).constant || g_.facts(id).content || g_.facts(id).kind == Facts::Kind::kAbsent; }
  bool is_float(Id id) const { return g_.facts(id).kind == Facts::Kind::kTensor && is_floating(g_.facts(id).dtype); }
  std::optional<Dim> rows_of(Id id) const {
    const Facts& f = g_.facts(id);
    if (!is_float(id) || !f.shape || f.shape->size() < 2 || !g_.dims().value(f.shape->back())) return std::nullopt;
    return g_.dims().product(std::span(*f.shape).first(f.shape->size() - 1));
  }

  std::optional<Product> product_at(Id id) const {
    const auto made = maker_of(g_, id);
    if (!made || !(is_of_standard(*made->key, "MatMul") || is_of_standard(*made->key, "Gemm"))) return std::nullopt;
    Product out{e_.find(id), e_.find(made->children[1]), e_.find(made->children[0]), kNone};
    const Facts& f = g_.facts(out.weights);
    if (!f.constant || !f.shape || f.shape->size() != 2 || f.dtype != DType::kFloat || is_known(out.data)) return std::nullopt;
    if (made->children.size() > 2 && g_.facts(made->children[2]).constant) out.bias = e_.find(made->children[2]);
    return out;
  }

  // Tokens are what the router's product reads, or what that is a view of.
  bool find_input(Id at) {
    for (int steps = 0; steps < 4; ++steps) {
      if (const auto product = product_at(at)) {
        inputs_ = back_through_views(g_, product->data, false);
        for (auto it = inputs_.rbegin(); it != inputs_.rend(); ++it)
          if (const auto rows = rows_of(*it); rows && g_.dims().equal(*rows, region_.tokens)) {
            region_.input = *it;
            region_.hidden = *g_.dims().value(g_.facts(*it).shape->back());
            return region_.hidden != region_.experts;
          }
        return false;
      }
      const auto made = maker_of(g_, at);
      if (!made || made->children.empty() || made->output != 0) return false;
      const auto from = std::find_if(made->children.begin(), made->children.end(), [&](Id c) { return !is_known(c); });
      if (from == made->children.end()) return false;
      at = e_.find(*from);
    }
    return false;
  }
  // The same of the nearest product that gives scores of all experts.
  bool find_router_input(Id from) {
    std::vector<Id> order{e_.find(from)};
    std::set<Id> seen{order[0]};
    for (std::size_t i = 0; i < order.size() && i < kMostBeside; ++i) {
      const Facts& f = g_.facts(order[i]);
      if (product_at(order[i]) && f.shape && g_.dims().value(f.shape->back()) == region_.experts) return find_input(order[i]);
      if (const auto made = maker_of(g_, order[i]))
        for (const Id c : made->children)
          if (!is_known(c) && seen.insert(e_.find(c)).second) order.push_back(e_.find(c));
    }
    return false;
  }
  bool is_input(Id id) const { return std::find(inputs_.begin(), inputs_.end(), id) != inputs_.end(); }

  // Whether a value that does not follow from the choice is made of tokens, scores and constants alone.
  bool is_beside(Id id) {
    id = e_.find(id);
    if (beside_.contains(id)) return true;
    std::vector<Id> open{id};
    std::set<Id> seen{id};
    while (!open.empty()) {
      const Id at = open.back();
      open.pop_back();
      if (is_known(at) || is_input(at) || at == region_.scores || behind_.contains(at)) continue;
      const auto made = maker_of(g_, at);
      if (!made || made->key->domain == "#" || made->key->unique != 0 || seen.size() > kMostBeside) return false;
      for (const Id c : made->children)
        if (seen.insert(e_.find(c)).second) open.push_back(e_.find(c));
    }
    beside_.insert(id);
    return true;
  }

  void find_behind(Id top) {
    order_ = {e_.find(top)};
    behind_.insert(order_[0]);
    for (std::size_t i = 0; i < order_.size() && order_.size() < kMostBehindTop; ++i)
      for (const NodeId n : e_.class_users(order_[i])) {
        const Id user = e_.find(e_.class_of(n));
        if (behind_.contains(user) || !may_follow(user)) continue;
        behind_.insert(user);
        order_.push_back(user);
        const auto rows = rows_of(user);
        if (rows && g_.dims().value(g_.facts(user).shape->back()) == region_.hidden && g_.dims().equal(*rows, region_.tokens))
          region_.results.push_back(user);
      }
  }
  bool may_follow(Id id) {
    const auto made = maker_of(g_, id);
    if (!made || made->key->unique != 0 || g_.facts(id).kind == Facts::Kind::kOther) return false;
    return std::all_of(made->children.begin(), made->children.end(), [&](Id c) { return behind_.contains(e_.find(c)) || is_beside(c); });
  }

  // ---- layers

  // The nearest products that a value is made of.
  std::vector<Id> products_in(Id id) {
    std::vector<Id> open{e_.find(id)}, out;
    std::set<Id> seen{open[0]};
    while (!open.empty()) {
      const Id at = open.back();
      open.pop_back();
      if (is_known(at) || is_input(at) || at == region_.scores || at == region_.weights || at == region_.choice) continue;
      region_.inside.push_back(at);
      if (product_at(at)) {
        out.push_back(at);
        continue;
      }
      if (const auto made = maker_of(g_, at))
        for (const Id c : made->children)
          if (seen.insert(e_.find(c)).second) open.push_back(e_.find(c));
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  Product with_bias(Id id) const {
    Product out = *product_at(id);
    for (const NodeId n : e_.class_users(id)) {
      const auto made = maker_of(g_, e_.class_of(n));
      if (!made || !is_of_standard(*made->key, "Add") || out.bias != kNone) continue;
      for (const Id c : made->children)
        if (const Facts& f = g_.facts(c); f.constant && f.shape && f.shape->size() == 1 && is_floating(f.dtype)) out.bias = e_.find(c);
    }
    return out;
  }

  bool find_layers(Id result) {
    std::map<Id, std::vector<Id>> firsts;
    for (const Id second : products_in(result)) firsts[second] = products_in(product_at(second)->data);
    std::erase_if(firsts, [](const auto& f) { return f.second.empty(); });
    if (static_cast<std::int64_t>(firsts.size()) != region_.experts) return false;
    const std::size_t count = firsts.begin()->second.size();
    std::vector<std::vector<Product>> layers(count + 1);
    for (const auto& [second, first] : firsts) {
      if (first.size() != count || count > 2) return false;
      for (std::size_t i = 0; i < count; ++i) layers[i].push_back(with_bias(first[i]));
      layers[count].push_back(with_bias(second));
    }
    for (const auto& layer : layers)
      if (!add_layer(layer)) return false;
    std::int64_t elements = 0;
    for (const Picked& p : region_.picked)
      elements += std::accumulate(p.of_one.begin(), p.of_one.end(), region_.experts, std::multiplies<>());
    return elements <= kMostApart;
  }

  bool add_layer(const std::vector<Product>& layer) {
    for (const bool bias : {false, true}) {
      Picked p;
      for (const Product& product : layer) {
        const Id id = bias ? product.bias : product.weights;
        if ((id == kNone) != ((bias ? layer[0].bias : layer[0].weights) == kNone)) return false;
        if (id != kNone) p.apart.push_back(id);
      }
      if (p.apart.empty()) continue;
      p.id = p.apart[0];
      for (const Id id : p.apart) {
        std::vector<std::int64_t> dims;
        for (const Dim d : *g_.facts(id).shape) dims.push_back(g_.dims().value(d).value_or(0));
        if (!p.of_one.empty() && dims != p.of_one) return false;
        p.of_one = dims;
      }
      // Two experts of the same weights are one class, which cannot be given two numbers.
      if (std::set<Id>(p.apart.begin(), p.apart.end()).size() != p.apart.size()) return false;
      region_.picked.push_back(std::move(p));
    }
    return true;
  }

  const OnnxEGraph& g_;
  const EGraph& e_;
  ExpertRegion region_;
  std::vector<Id> inputs_;
  std::vector<Id> order_;  // what follows from the choice, the nearest first
  std::set<Id> behind_;
  std::set<Id> beside_;  // others may be so later, when more is known to follow from the choice
};

// Which expert is which: tokens that go to one alone tell whose weights they meet, when these change.
class Order {
 public:
  Order(const OnnxEGraph& g, ExpertRegion& region) : g_(g), region_(region) {}

  bool order() {
    const auto all = sizes_to_draw(g_, region_.tokens);
    const auto sizes =
        std::find_if(all.begin(), all.end(), [&](const auto& s) { return g_.dims().evaluate(region_.tokens, s).value_or(0) > 0; });
    if (sizes == all.end()) return false;
    const std::int64_t tokens = *g_.dims().evaluate(region_.tokens, *sizes);
    std::vector<std::size_t> place(static_cast<std::size_t>(region_.experts), 0);  // by expert: among what was found
    const int bits = std::bit_width(static_cast<unsigned>(region_.experts - 1));
    for (std::int64_t first = 0; first < region_.experts; first += tokens) {
      std::vector<std::vector<double>> outputs;
      for (int bit = -1; bit < bits; ++bit) {
        auto out = result_of(*sizes, first, bit);
        if (out.empty()) return false;
        outputs.push_back(std::move(out));
      }
      for (std::int64_t t = 0; t < tokens && first + t < region_.experts; ++t)
        for (int bit = 0; bit < bits; ++bit)
          if (!same_row(outputs[0], outputs[static_cast<std::size_t>(bit) + 1], t))
            place[static_cast<std::size_t>(first + t)] |= std::size_t{1} << bit;
    }
    return put_in_order(place);
  }

 private:
  bool same_row(const std::vector<double>& a, const std::vector<double>& b, std::int64_t row) const {
    const auto begin = static_cast<std::ptrdiff_t>(row * region_.hidden), end = begin + static_cast<std::ptrdiff_t>(region_.hidden);
    return std::equal(a.begin() + begin, a.begin() + end, b.begin() + begin,
                      [](double x, double y) { return std::abs(x - y) <= 1e-9 * (1 + std::abs(x)); });
  }

  bool put_in_order(const std::vector<std::size_t>& place) {
    if (std::set<std::size_t>(place.begin(), place.end()).size() != place.size() ||
        *std::max_element(place.begin(), place.end()) >= place.size())
      return false;
    if (std::is_sorted(place.begin(), place.end())) return false;
    for (Picked& p : region_.picked) {
      std::vector<Id> by_expert;
      for (const std::size_t i : place) by_expert.push_back(p.apart[i]);
      p.apart = std::move(by_expert);
      p.id = p.apart[0];
    }
    return true;
  }

  // A possible result where token t goes to expert `first` + t, and the experts whose number has this bit have other weights.
  std::vector<double> result_of(const std::map<std::string, std::int64_t>& sizes, std::int64_t first, int bit) const {
    Run run;
    run.sizes = sizes;
    Draw draw(5);
    const auto add = [&](Id id, auto number) {
      Shape dims;
      for (const Dim d : *g_.facts(id).shape) dims.push_back(g_.dims().evaluate(d, sizes).value_or(0));
      if (!checked_elements(dims)) return false;
      Tensor t(DType::kDouble, dims);
      double* to = t.mutable_as<double>();
      for (std::int64_t i = 0; i < t.size(); ++i) to[i] = number(i);
      run.given[id] = std::move(t);
      return true;
    };
    bool all = add(region_.input, [&](std::int64_t) { return draw.between(-1, 1); });
    const auto expert_of = [&](std::int64_t token) { return std::min(first + token, region_.experts - 1); };
    if (region_.scores != kNone)
      all = all && add(region_.scores,
                       [&](std::int64_t i) { return i % region_.experts == expert_of(i / region_.experts) ? 60.0 : draw.between(-1, 1); });
    else
      all = all && add(region_.weights, [&](std::int64_t i) { return i % region_.chosen == 0 ? 1.0 : 0.0; }) &&
            choose(run, [&](std::int64_t token, std::int64_t k) { return (expert_of(token) + k) % region_.experts; });
    for (const Picked& p : region_.picked)
      for (std::size_t i = 0; i < p.apart.size(); ++i) {
        const double by = bit >= 0 && (i >> bit & 1) != 0 ? 1.25 : 1;
        if (all = all && add(p.apart[i], [](std::int64_t) { return 0.0; }); all)
          draw_over(run.given[p.apart[i]], by * 2 / std::sqrt(static_cast<double>(p.of_one.back())), p.apart[i]);
      }
    const Id last = region_.results.back();
    if (!all || !run_region(g_, {last}, run)) return {};
    const auto it = run.values.find(last);
    if (it == run.values.end() || it->second.dtype() != DType::kDouble) return {};
    return {it->second.span<double>().begin(), it->second.span<double>().end()};
  }

  bool choose(Run& run, const std::function<std::int64_t(std::int64_t, std::int64_t)>& expert) const {
    Shape dims;
    for (const Dim d : *g_.facts(region_.choice).shape) dims.push_back(g_.dims().evaluate(d, run.sizes).value_or(0));
    if (!checked_elements(dims)) return false;
    Tensor t(DType::kInt64, dims);
    for (std::int64_t i = 0; i < t.size(); ++i) t.mutable_as<std::int64_t>()[i] = expert(i / region_.chosen, i % region_.chosen);
    run.given[region_.choice] = std::move(t);
    return true;
  }

  const OnnxEGraph& g_;
  ExpertRegion& region_;
};

}  // namespace

std::vector<ExpertRegion> experts_apart_by_choice(const OnnxEGraph& g, Id top) { return ApartFinder(g).find_by_choice(top); }

bool order_experts(const OnnxEGraph& g, ExpertRegion& region) { return Order(g, region).order(); }

std::vector<Id> scores_before(const OnnxEGraph& g, Id top) {
  const auto made = maker_of(g, top);
  if (!made || !is_of_standard(*made->key, "TopK") || made->children.size() < 2) return {};
  std::vector<Id> out;
  Id at = g.egraph().find(made->children[0]);
  for (;;) {
    for (const Id id : back_through_views(g, at, false)) out.push_back(id);
    const auto behind = maker_of(g, out.back());
    if (!behind || behind->children.empty() || !is_of_standard(*behind->key, "Softmax") || out.size() > 8) break;
    at = g.egraph().find(behind->children[0]);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::optional<ExpertRegion> experts_apart(const OnnxEGraph& g, Id top, Id scores) { return ApartFinder(g).find(top, scores); }

}  // namespace saturate::experts
