// Softmax over rows, shared by Softmax, attention and the losses.
#pragma once

#include <cstdint>

namespace saturate {

// In place over one row of n floats: e^(x - max) / sum. A row of only -inf gives NaN, as the formula does, or zeros where `zero_hidden`
// says so.
void softmax_row(float* x, std::int64_t n, bool zero_hidden = false);

}  // namespace saturate
