// Which mixture of experts a region computes: its layers are given roles by their shapes, and what is left open is decided, and all of it
// proven, by running the region and the sum on the same drawn numbers.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <span>

#include "onnx_bridge/convert/op_key.h"
#include "rules/experts/experts.h"

namespace saturate::experts {
using namespace native;
namespace {

constexpr double kTolerance = 1e-9;

double activated(std::string_view name, double x) {
  if (name == "relu") return std::max(x, 0.0);
  if (name == "silu") return x / (1 + std::exp(-x));
  if (name == "gelu") return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return x;
}

double gated(const Mixture& m, double gate, double linear) {
  if (m.limit > 0) gate = std::min(gate, m.limit), linear = std::clamp(linear, -m.limit, m.limit);
  return gate / (1 + std::exp(-m.alpha * gate)) * (linear + m.beta);
}

bool close(double a, double b, double most) { return std::abs(a - b) <= kTolerance * most; }

class Prover {
 public:
  Prover(const OnnxEGraph& g, const ExpertRegion& region, std::string* why) : g_(g), region_(region), why_(why) {}

  std::optional<Mixture> prove() {
    numbers_ = numbers_within(g_, region_);
    drawn_ = runs_of(g_, region_, numbers_);
    const bool several = std::any_of(drawn_.begin(), drawn_.end(), [](const Drawn& d) { return d.tokens > 1; });
    if (drawn_.size() < 2 || !(several || g_.dims().value(region_.tokens) == 1)) return lacks("it cannot be run on drawn numbers");
    std::vector<const Picked*> matrices, biases;
    for (const Picked& p : region_.picked) (p.of_one.size() == 2 ? matrices : biases).push_back(&p);
    if (matrices.size() != 2 && matrices.size() != 3) return lacks("its experts have not two or three products");
    for (const bool normalized : {true, false}) {
      if (region_.scores == kNone && normalized) continue;
      weigh(normalized);
      std::sort(matrices.begin(), matrices.end());
      do {
        if (auto found = with_matrices(matrices, biases)) {
          found->normalized = normalized;
          return found;
        }
      } while (std::next_permutation(matrices.begin(), matrices.end()));
    }
    return lacks("on drawn numbers it computes something else than experts that MoE knows");
  }

 private:
  std::nullopt_t lacks(std::string_view what) const {
    if (why_) *why_ = what;
    return std::nullopt;
  }

  // ---- roles

  // The weights of pairs: drawn, or as the router makes them of scores.
  void weigh(bool normalized) {
    for (Drawn& d : drawn_) {
      d.weights.clear(), d.experts.clear();
      if (region_.scores == kNone) {
        const auto drawn = d.run.given.at(region_.weights).span<double>();
        d.weights.assign(drawn.begin(), drawn.end());
        if (region_.stands_apart()) {
          const auto choice = d.run.given.at(region_.choice).span<std::int64_t>();
          d.experts.assign(choice.begin(), choice.end());
        }
        continue;
      }
      const auto scores = d.run.given.at(region_.scores).span<double>();
      const auto experts = static_cast<std::size_t>(region_.experts);
      for (std::size_t t = 0; t < scores.size() / experts; ++t) {
        const Choice c = choice_among(scores.subspan(t * experts, experts), region_.chosen);
        double sum = normalized ? 0 : 1;
        for (const std::int64_t e : c.experts) sum += normalized ? c.softmax[static_cast<std::size_t>(e)] : 0;
        for (const std::int64_t e : c.experts) d.weights.push_back(c.softmax[static_cast<std::size_t>(e)] / sum), d.experts.push_back(e);
      }
    }
  }

  static std::int64_t rows_of(const Picked& p, bool transposed) { return p.of_one[transposed ? 1 : 0]; }
  static std::int64_t columns_of(const Picked& p, bool transposed) { return p.of_one[transposed ? 0 : 1]; }

  // The last matrix leads back, the first one or two are what the tokens meet.
  std::optional<Mixture> with_matrices(const std::vector<const Picked*>& matrices, const std::vector<const Picked*>& biases) {
    const std::size_t first = matrices.size() - 1;
    for (std::uint32_t turned = 0; turned < (1U << matrices.size()); ++turned) {
      const auto is_turned = [&](std::size_t i) { return (turned >> i & 1) != 0; };
      const std::int64_t inter = columns_of(*matrices[first], is_turned(first));
      if (rows_of(*matrices[first], is_turned(first)) != region_.hidden) continue;
      bool fits = true;
      std::int64_t wide = 0;
      for (std::size_t i = 0; i < first; ++i) {
        fits = fits && columns_of(*matrices[i], is_turned(i)) == region_.hidden;
        wide += rows_of(*matrices[i], is_turned(i));
        fits = fits && (first == 1 || rows_of(*matrices[i], is_turned(i)) == inter);
      }
      if (!fits || (wide != inter && wide != 2 * inter)) continue;
      Mixture m;
      m.up = {matrices[0]->id, kNone, is_turned(0)};
      if (first == 2) m.linear = {matrices[1]->id, kNone, is_turned(1)};
      m.down = {matrices[first]->id, kNone, is_turned(first)};
      if (auto found = with_biases(std::move(m), biases, 0, wide == 2 * inter)) return found;
    }
    return std::nullopt;
  }

  std::optional<Mixture> with_biases(Mixture m, const std::vector<const Picked*>& biases, std::size_t at, bool is_gated) {
    if (at == biases.size()) {
      const bool one_of_two = m.linear.picked != kNone && (m.up.bias == kNone) != (m.linear.bias == kNone);
      return one_of_two ? std::nullopt : with_gates(m, is_gated);
    }
    for (Layer Mixture::*layer : {&Mixture::up, &Mixture::linear, &Mixture::down}) {
      Layer& l = m.*layer;
      if (l.picked == kNone || l.bias != kNone || biases[at]->of_one[0] != rows_of(picked(l.picked), l.transposed)) continue;
      l.bias = biases[at]->id;
      if (auto found = with_biases(m, biases, at + 1, is_gated)) return found;
      l.bias = kNone;
    }
    return std::nullopt;
  }
  const Picked& picked(Id id) const {
    return *std::find_if(region_.picked.begin(), region_.picked.end(), [&](const Picked& p) { return p.id == id; });
  }

  std::optional<Mixture> with_gates(Mixture m, bool is_gated) {
    for (const Drawn& d : drawn_)
      products_[&d] = {layer_of(d, m.up), m.linear.picked == kNone ? std::vector<double>() : layer_of(d, m.linear)};
    if (!is_gated) {
      for (const char* name : {"silu", "relu", "gelu", "identity"}) {
        m.activation = name;
        if (is_it(m)) return m;
      }
      return std::nullopt;
    }
    std::vector<Gate> gates{Gate::kHalves, Gate::kInterleaved};
    if (m.linear.picked != kNone) gates = {Gate::kApart};
    for (const Gate gate : gates)
      for (const bool linear_first : {false, true}) {
        if (gate == Gate::kApart && linear_first) continue;
        m.gate = gate, m.linear_first = linear_first;
        if (with_numbers(m)) return m;
      }
    return std::nullopt;
  }

  // Factors and limits of gates, of the numbers within.
  bool with_numbers(Mixture& m) {
    std::vector<double> alphas{1}, betas{0}, limits{0};
    for (const double x : numbers_) {
      if (x > 0 && x != 1) alphas.push_back(x);
      if (x != 0) betas.push_back(x);
      if (x > 0) limits.push_back(x);
    }
    for (const double limit : limits)
      for (const double beta : betas)
        for (const double alpha : alphas) {
          m.alpha = alpha, m.beta = beta, m.limit = limit;
          if (is_it(m)) return true;
        }
    return false;
  }

  // ---- the sum itself

  // What a layer makes of each pair of a token and an expert.
  std::vector<double> layer_of(const Drawn& d, const Layer& l) const {
    const std::span<const double> x = d.run.given.at(region_.input).span<double>();
    const std::int64_t pairs = d.tokens * region_.chosen;
    std::vector<double> out;
    for (std::int64_t pair = 0; pair < pairs; ++pair)
      apply(d, l, pair,
            x.subspan(static_cast<std::size_t>(pair / region_.chosen * region_.hidden), static_cast<std::size_t>(region_.hidden)),
            rows_of(picked(l.picked), l.transposed), out);
    return out;
  }

  static const double* numbers(const Drawn& d, const Picked& p, std::int64_t pair) {
    if (p.apart.empty()) return d.run.given.at(p.id).data<double>() + pair * elements_of(p);
    return d.run.given.at(p.apart[static_cast<std::size_t>(d.experts[static_cast<std::size_t>(pair)])]).data<double>();
  }

  // The first `count` numbers of a layer's product for a pair.
  void apply(const Drawn& d, const Layer& l, std::int64_t pair, std::span<const double> x, std::int64_t count,
             std::vector<double>& out) const {
    const Picked& p = picked(l.picked);
    const std::int64_t rows = rows_of(p, l.transposed), columns = columns_of(p, l.transposed);
    const double *w = numbers(d, p, pair), *bias = l.bias == kNone ? nullptr : numbers(d, picked(l.bias), pair);
    for (std::int64_t r = 0; r < count; ++r) {
      double sum = bias ? bias[r] : 0;
      for (std::int64_t c = 0; c < columns; ++c)
        sum += (l.transposed ? w[c * rows + r] : w[r * columns + c]) * x[static_cast<std::size_t>(c)];
      out.push_back(sum);
    }
  }

  // What is between the products, of a pair.
  std::vector<double> between(const Drawn& d, const Mixture& m, std::int64_t pair) const {
    const auto& [first, linear] = products_.at(&d);
    const std::int64_t wide = static_cast<std::int64_t>(first.size()) / (d.tokens * region_.chosen);
    const double *u = first.data() + pair * wide, *l = linear.empty() ? nullptr : linear.data() + pair * wide;
    std::vector<double> out;
    const std::int64_t n = m.gate == Gate::kHalves || m.gate == Gate::kInterleaved ? wide / 2 : wide;
    for (std::int64_t i = 0; i < n; ++i) {
      if (m.gate == Gate::kNone) {
        out.push_back(activated(m.activation, u[i]));
        continue;
      }
      double gate = m.gate == Gate::kInterleaved ? u[2 * i] : u[i];
      double other = m.gate == Gate::kApart ? l[i] : m.gate == Gate::kInterleaved ? u[2 * i + 1] : u[n + i];
      if (m.linear_first) std::swap(gate, other);
      out.push_back(gated(m, gate, other));
    }
    return out;
  }

  // The first `count` numbers of a token's sum.
  std::vector<double> sum_of(const Drawn& d, const Mixture& m, std::int64_t token, std::int64_t count) const {
    std::vector<double> out(static_cast<std::size_t>(count), 0.0), one;
    for (std::int64_t k = 0; k < region_.chosen; ++k) {
      const std::int64_t pair = token * region_.chosen + k;
      one.clear();
      apply(d, m.down, pair, between(d, m, pair), count, one);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] += d.weights[static_cast<std::size_t>(pair)] * one[i];
    }
    return out;
  }

  // Whether some value of the region is this sum in all runs; a look at two numbers spares most.
  bool is_it(Mixture& m) const {
    std::vector<Id> left = region_.results;
    for (const std::int64_t count : {std::min<std::int64_t>(2, region_.hidden), region_.hidden})
      for (const Drawn& d : drawn_)
        for (std::int64_t token = 0; token < d.tokens && !left.empty(); ++token) {
          const std::vector<double> sum = sum_of(d, m, token, count);
          double most = 0;
          for (const double x : sum) most = std::max(most, std::abs(x));
          if (!(most > 0)) return false;
          std::erase_if(left, [&](Id id) {
            const auto it = d.run.values.find(id);
            if (it == d.run.values.end() || it->second.dtype() != DType::kDouble || it->second.size() != d.tokens * region_.hidden)
              return true;
            const double* y = it->second.data<double>() + token * region_.hidden;
            return !std::equal(sum.begin(), sum.end(), y, [&](double a, double b) { return close(a, b, most); });
          });
        }
    if (left.empty()) return false;
    m.result = left.front();
    return true;
  }

  const OnnxEGraph& g_;
  const ExpertRegion& region_;
  std::string* why_;
  std::vector<double> numbers_;
  std::vector<Drawn> drawn_;
  std::map<const Drawn*, std::pair<std::vector<double>, std::vector<double>>> products_;
};

}  // namespace

std::optional<Mixture> mixture_of(const OnnxEGraph& g, const ExpertRegion& region, std::string* why) {
  return Prover(g, region, why).prove();
}

}  // namespace saturate::experts
