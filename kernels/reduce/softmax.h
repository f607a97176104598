// Softmax over rows, shared by Softmax, attention and the losses.
#pragma once

#include <cstdint>

namespace saturate {

// In place over one row of n floats: e^(x - max) / sum. A row of only -inf gives NaN, as the formula does, or zeros where `zero_hidden`
// says so.
void softmax_row(float* x, std::int64_t n, bool zero_hidden = false);

// Its parts with AVX-512: the largest number, NaN passed over; then e^(x - top) / sum in place.
float row_max_avx512(const float* x, std::int64_t n);
void exp_row_avx512(float* x, std::int64_t n, float top);

}  // namespace saturate
