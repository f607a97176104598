// The next token of a row of logits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/inputs/draw_inputs.h"

namespace saturate {

struct Sampling {
  std::optional<double> temperature, top_p;  // none of the three given: the likeliest token
  std::optional<std::int64_t> top_k;
  bool greedy() const { return !temperature && !top_p && !top_k; }
};

// The largest, the first of equal ones; -1 where none is a number.
std::int64_t likeliest(const std::vector<float>& logits);

// Logits are divided by the temperature, the `top_k` likeliest are kept (of equal ones the first), and of these the likeliest that together
// reach `top_p`. One draw of `random` chooses among them. -1 where no logit is a number.
std::int64_t sample(const std::vector<float>& logits, const Sampling& sampling, Random& random);

}  // namespace saturate
