// Sums over contiguous floats, kept in double; what reductions and norms share.
#pragma once

#include <cstdint>

#include "kernels/registry.h"

namespace saturate {

double sum_floats(const float* x, std::int64_t n);
double sum_squares_floats(const float* x, std::int64_t n);
// Sum of (x - center)^2.
double sum_squared_deviations_floats(const float* x, std::int64_t n, float center);

// ArgMax and ArgMin (reduce_arg.cpp).
void register_reduce_arg(Registry& registry);

}  // namespace saturate
