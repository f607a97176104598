// The next token of a row of logits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/verify/draw_inputs.h"

namespace saturate {

struct Sampling {
  std::optional<double> temperature, top_p;  // none of the three given: the likeliest token
  std::optional<std::int64_t> top_k;
  bool greedy() const { return !temperature && !top_p && !top_k; }
};

// The largest, the first of equal ones; -1 where none is a number.
std::int64_t likeliest(const std::vector<float>& logits);

// One of the `top_k` likeliest (all of an equal last one's kind are cut in order of their numbers), of which those are left that together
// just reach `top_p`, after dividing by the temperature; by one draw of `random`. -1 where no logit is a number.
std::int64_t sample(const std::vector<float>& logits, const Sampling& sampling, Random& random);

}  // namespace saturate
