// Runs of a region on drawn numbers, in which each of its experts is met.
#include <algorithm>
#include <cmath>
#include <set>

#include "onnx_bridge/convert/op_key.h"
#include "rules/experts/experts.h"

namespace saturate::experts {
using namespace native;
namespace {

constexpr std::size_t kRounds = 3, kMostRounds = 400, kMostNumbers = 6;
constexpr std::int64_t kMostDrawn = std::int64_t{1} << 27;  // elements, of all runs

class Draws {
 public:
  Draws(const OnnxEGraph& g, const ExpertRegion& region, double most) : g_(g), region_(region), most_(most) {}

  std::vector<Drawn> take() {
    draw_all();
    return all_met() ? std::move(drawn_) : std::vector<Drawn>();
  }

 private:
  // Of experts that stand apart each must be met, or the sum of some would do.
  void draw_all() {
    const auto sizes = sizes_to_draw(g_, region_.tokens);
    const std::size_t rounds = region_.stands_apart() ? kMostRounds : sizes.size();
    for (std::size_t round = 0; round < rounds && !(drawn_.size() >= kRounds && all_met()); ++round) {
      Drawn d;
      d.run.sizes = sizes[round % sizes.size()];
      d.tokens = g_.dims().evaluate(region_.tokens, d.run.sizes).value_or(0);
      const std::int64_t more = !region_.stands_apart() || drawn_.empty() ? elements(d.tokens) : 0;
      if (d.tokens < 1 || room_ < more) continue;
      if (!draw(d, round) || !run_region(g_, region_.results, d.run)) continue;
      room_ -= more;
      note_met(d);
      drawn_.push_back(std::move(d));
    }
  }
  bool all_met() const { return !region_.stands_apart() || static_cast<std::int64_t>(met_.size()) == region_.experts; }
  std::int64_t elements(std::int64_t tokens) const {
    std::int64_t all = 0;
    for (const Picked& p : region_.picked)
      all += elements_of(p) * (p.apart.empty() ? tokens * region_.chosen : static_cast<std::int64_t>(p.apart.size()));
    return all;
  }

  std::optional<Tensor> tensor_for(Id id, const Run& run) const {
    Shape dims;
    for (const Dim d : *g_.facts(id).shape) {
      const auto n = g_.dims().evaluate(d, run.sizes);
      if (!n) return std::nullopt;
      dims.push_back(*n);
    }
    return checked_elements(dims) ? std::optional(Tensor(DType::kDouble, dims)) : std::nullopt;
  }

  // Every other token is so long that what limits cut off is reached.
  bool draw(Drawn& d, std::size_t round) {
    Draw draw(31 + round);
    const bool apart = region_.stands_apart(), scored = region_.scores != kNone;
    auto x = tensor_for(region_.input, d.run), w = tensor_for(scored ? region_.scores : region_.weights, d.run);
    if (!x || !w || x->size() != d.tokens * region_.hidden || w->size() != d.tokens * (scored ? region_.experts : region_.chosen))
      return false;
    double* to = x->mutable_as<double>();
    for (std::int64_t i = 0; i < x->size(); ++i) {
      const bool is_long = (i / region_.hidden + static_cast<std::int64_t>(round)) % 2 == 1;
      to[i] = draw.between(-1.5, 1.5) * (is_long ? 2 * most_ + 2 : 1);
    }
    to = w->mutable_as<double>();
    for (std::int64_t i = 0; i < w->size(); ++i) to[i] = scored ? draw.between(-3, 3) : draw.between(0.1, 1);
    if (apart && !scored && !choose(d)) return false;
    if (scored) send_to_unmet(std::span(to, static_cast<std::size_t>(w->size())));
    d.run.given[region_.input] = *std::move(x), d.run.given[scored ? region_.scores : region_.weights] = *std::move(w);
    for (const Picked& p : region_.picked)
      for (const Id id : p.apart.empty() ? std::vector{p.id} : p.apart) {
        if (apart && !drawn_.empty()) {
          d.run.given[id] = drawn_[0].run.given.at(id);
          continue;
        }
        auto rows = tensor_for(id, d.run);
        if (!rows || rows->size() != elements_of(p) * (p.apart.empty() ? d.tokens * region_.chosen : 1)) return false;
        draw_over(*rows, p.of_one.size() == 2 ? 3 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, p.of_one.back()))) : 1,
                  id + round);
        d.run.given[id] = *std::move(rows);
      }
    return true;
  }
  // Raises the scores of experts that no token has met yet.
  void send_to_unmet(std::span<double> scores) {
    const auto experts = static_cast<std::size_t>(region_.experts);
    std::int64_t next = 0;
    for (std::size_t t = 0; t < scores.size() / experts; ++t) {
      const std::span<double> mine = scores.subspan(t * experts, experts);
      for (std::int64_t k = 0; k < region_.chosen; ++k) {
        while (next < region_.experts && met_.contains(next)) ++next;
        if (next < region_.experts) mine[static_cast<std::size_t>(next++)] += 7;
      }
    }
  }
  // Sends each token to an expert that was not met yet, and to those behind it.
  bool choose(Drawn& d) const {
    auto like = tensor_for(region_.choice, d.run);
    if (!like || like->size() != d.tokens * region_.chosen) return false;
    Tensor choice(DType::kInt64, like->dims());
    std::int64_t next = 0;
    for (std::int64_t i = 0; i < choice.size(); ++i, ++next) {
      while (i % region_.chosen == 0 && next < region_.experts && met_.contains(next)) ++next;
      choice.mutable_as<std::int64_t>()[i] = next % region_.experts;
    }
    d.run.given[region_.choice] = std::move(choice);
    return true;
  }
  void note_met(const Drawn& d) {
    if (!region_.stands_apart()) return;
    if (region_.scores == kNone) {
      for (const std::int64_t e : d.run.given.at(region_.choice).span<std::int64_t>()) met_.insert(e);
      return;
    }
    const std::span<const double> scores = d.run.given.at(region_.scores).span<double>();
    const auto experts = static_cast<std::size_t>(region_.experts);
    for (std::size_t t = 0; t < scores.size() / experts; ++t)
      for (const std::int64_t e : choice_among(scores.subspan(t * experts, experts), region_.chosen).experts) met_.insert(e);
  }

  const OnnxEGraph& g_;
  const ExpertRegion& region_;
  const double most_;  // of the numbers within
  std::int64_t room_ = kMostDrawn;
  std::vector<Drawn> drawn_;
  std::set<std::int64_t> met_;  // experts
};

}  // namespace

std::vector<double> numbers_within(const OnnxEGraph& g, const ExpertRegion& region) {
  std::set<double> all;
  for (const Id id : region.inside) {
    const auto made = maker_of(g, id);
    if (!made) continue;
    for (const Id c : made->children)
      if (const auto x = number_of(g, c); x && is_floating(g.facts(c).dtype)) all.insert(*x);
    for (const Attribute& a : made->key->attributes)
      if (a.type == AttributeType::kFloat) all.insert(static_cast<double>(a.f()));
  }
  std::vector<double> out;
  for (const double x : all)
    if (std::isfinite(x) && out.size() < kMostNumbers) out.push_back(x);
  return out;
}

std::vector<Drawn> runs_of(const OnnxEGraph& g, const ExpertRegion& region, std::span<const double> numbers) {
  double most = 0;
  for (const double x : numbers) most = std::max(most, std::abs(x));
  return Draws(g, region, most).take();
}

void draw_over(Tensor& t, double scale, std::size_t seed) {
  // Products of two rows of numbers whose lengths have no factor in common: as many numbers as these multiplied, for little time.
  static const auto drawn = [](std::size_t count) {
    Draw draw(count);
    std::vector<double> out(count);
    for (double& x : out) x = draw.between(0.3, 1.5) * (draw.between(-1, 1) < 0 ? -1 : 1);
    return out;
  };
  static const std::vector<double> one = drawn(10007), other = drawn(9973);
  std::size_t i = seed * 7919 % one.size(), j = seed * 104729 % other.size();
  double* to = t.mutable_as<double>();
  for (std::int64_t at = 0; at < t.size(); ++at) {
    to[at] = scale * 0.5 * one[i] * other[j];
    if (++i == one.size()) i = 0;
    if (++j == other.size()) j = 0;
  }
}

std::vector<std::map<std::string, std::int64_t>> sizes_to_draw(const OnnxEGraph& g, Dim tokens) {
  std::map<std::string, std::int64_t> all, ones;
  for (const std::string& symbol : g.dims().symbols()) all[symbol] = 1;
  // Sizes that something within makes up, as the number of tokens of an expert, stay unknown: they are computed.
  for (const auto& [symbol, one] : all) {
    auto sizes = all;
    sizes[symbol] = 2;
    if (g.dims().evaluate(tokens, sizes) != g.dims().evaluate(tokens, all)) ones[symbol] = 1;
  }
  std::vector<std::map<std::string, std::int64_t>> out;
  for (const auto& [symbol, one] : ones) {
    out.push_back(ones);
    out.back()[symbol] = 2;
  }
  out.push_back(ones);
  for (std::int64_t round = 0; round < 3; ++round) {
    out.push_back(ones);
    std::int64_t i = round;
    for (auto& [symbol, size] : out.back()) size = 1 + i++ % 3;
  }
  return out;
}

}  // namespace saturate::experts
