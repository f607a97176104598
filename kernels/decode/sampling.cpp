#include "kernels/decode/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace saturate {

std::int64_t likeliest(const std::vector<float>& logits) {
  std::int64_t best = -1;
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (!std::isnan(logits[i]) && (best < 0 || logits[i] > logits[static_cast<std::size_t>(best)])) best = static_cast<std::int64_t>(i);
  return best;
}

std::int64_t sample(const std::vector<float>& logits, const Sampling& sampling, Random& random) {
  const double drawn = random.uniform();
  const std::int64_t top = likeliest(logits);
  if (sampling.greedy() || top < 0 || std::isinf(logits[static_cast<std::size_t>(top)])) return top;
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t i) { return std::isnan(logits[i]); });
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (sampling.top_k) order.resize(std::min(order.size(), static_cast<std::size_t>(*sampling.top_k)));
  std::vector<double> weights;
  const double largest = logits[order[0]], temperature = sampling.temperature.value_or(1);
  for (const std::size_t i : order) weights.push_back(std::exp((logits[i] - largest) / temperature));
  double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (sampling.top_p) {
    const double wanted = *sampling.top_p * sum;
    double so_far = 0;
    std::size_t kept = 0;
    while (kept < weights.size() && so_far < wanted) so_far += weights[kept++];
    weights.resize(std::max<std::size_t>(kept, 1));
    sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  }
  double left = drawn * sum;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return static_cast<std::int64_t>(order[i]);
  }
  return static_cast<std::int64_t>(order[weights.size() - 1]);
}

}  // namespace saturate
