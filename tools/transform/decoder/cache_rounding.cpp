#include "tools/transform/decoder/cache_rounding.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "kernels/inputs/draw_inputs.h"
#include "kernels/runtime/runtime.h"
#include "tools/transform/precision/calibration.h"

namespace saturate {
namespace {

constexpr std::uint64_t kGrids = 3;

int bits_behind_point(DType dtype) { return dtype == DType::kFloat16 ? 10 : 7; }

// Rounds numbers to a grid that is moved by a share of a step. What lies on the grid stays, so that a token is rounded once.
class Grid {
 public:
  Grid(const CacheCode& code, std::uint64_t seed) : code_(code), random_(seed) {
    for (const CacheRange& range : code.ranges) scales_.push_back(scales_of(range, code.scales));
  }

  Tensor rounded(const Tensor& present, std::size_t pair) {
    Tensor out(present.dtype(), present.dims());
    std::vector<double>& moves = moves_[pair];
    for (std::int64_t i = 0; i < present.size(); ++i) {
      const std::size_t place = place_of(present, pair, i);
      while (moves.size() <= place) moves.push_back(static_cast<double>(random_.below(kMoves)) / kMoves - 0.5);
      const double x = element_as_double(present, i).value_or(0), step = std::isfinite(x) ? step_of(pair, place, x) : 0;
      const double held = scales_.empty() || step == 0 ? x : std::clamp(x, -128 * step, 127 * step);
      store_double(out, i, step > 0 ? step * (std::round(held / step + moves[place]) - moves[place]) : x);
    }
    return out;
  }

 private:
  static constexpr std::int64_t kMoves = 1 << 20;

  // Of an element: which head and entry it is of; where the new type is one of floats, its entry.
  std::size_t place_of(const Tensor& present, std::size_t pair, std::int64_t i) const {
    return scales_.empty() ? static_cast<std::size_t>(i % present.dims().back()) : code_.ranges[pair].place(present.dims(), i);
  }

  double step_of(std::size_t pair, std::size_t place, double x) const {
    if (scales_.empty()) return x == 0 ? 0 : std::ldexp(1.0, std::ilogb(x) - bits_behind_point(code_.dtype));
    const std::size_t together = code_.ranges[pair].largest.size() / scales_[pair].size();
    return double{scales_[pair][place / together]};
  }

  const CacheCode& code_;
  std::vector<std::vector<float>> scales_;
  Random random_;
  std::map<std::size_t, std::vector<double>> moves_;
};

// Logits of all steps, one behind the other.
absl::StatusOr<std::vector<float>> logits_of(const Model& model, const Decoder& decoder, const Texts& texts, int threads, Grid* grid) {
  SessionOptions options;
  options.threads = threads;
  options.prepare = false;
  options.keep_results = false;
  std::map<std::string, std::size_t> pairs;
  for (std::size_t i = 0; i < decoder.cache.size(); ++i) pairs.emplace(model.graph.outputs[decoder.cache[i].present].name, i);
  if (grid)
    options.after_node = [&](const Node& node, std::vector<Value>& made) {
      for (std::size_t i = 0; i < node.outputs.size() && i < made.size(); ++i)
        if (const auto pair = pairs.find(node.outputs[i]); pair != pairs.end() && made[i].is_tensor())
          made[i] = grid->rounded(made[i].tensor(), pair->second);
    };
  const auto session = Session::create(model, options);
  if (!session.ok()) return session.status();
  const RunModel run = run_by(*session);
  std::vector<float> out;
  Stepper stepper(model, decoder, {}, [&](Inputs inputs) {
    auto outputs = run(std::move(inputs));
    if (!outputs.ok()) return outputs;
    const Tensor& logits = (*outputs)[decoder.logits].tensor();
    for (std::int64_t i = 0; i < logits.size(); ++i) out.push_back(static_cast<float>(element_as_double(logits, i).value_or(NAN)));
    return outputs;
  });
  if (absl::Status s = step_through(stepper, texts); !s.ok()) return s;
  return out;
}

}  // namespace

absl::StatusOr<Rounding> cost_of_rounding(const Model& model, const Decoder& decoder, const CacheCode& code, const Texts& texts,
                                          int threads) {
  auto exact = logits_of(model, decoder, texts, threads, nullptr);
  if (!exact.ok()) return exact.status();
  Rounding cost;
  for (std::uint64_t seed = 0; seed < kGrids; ++seed) {
    Grid grid(code, seed);
    const auto rounded = logits_of(model, decoder, texts, threads, &grid);
    if (!rounded.ok()) return rounded.status();
    for (std::size_t i = 0; i < exact->size(); ++i)
      if (const double moved = std::abs(double{(*exact)[i]} - double{(*rounded)[i]}); std::isfinite(moved))
        cost.moved = std::max(cost.moved, moved);
  }
  for (float& x : *exact) x = std::isfinite(x) ? std::abs(x) : 0;
  const auto middle = exact->begin() + static_cast<std::ptrdiff_t>(exact->size() / 2);
  std::nth_element(exact->begin(), middle, exact->end());
  if (middle != exact->end()) cost.usual = double{*middle};
  return cost;
}

}  // namespace saturate
