// Sums over contiguous floats, kept in double; what reductions and norms share.
#pragma once

#include <cstdint>

#include "kernels/core/registry.h"

namespace saturate {

double sum_floats(const float* x, std::int64_t n);
double sum_squares_floats(const float* x, std::int64_t n);
// Sum of (x - center)^2.
double sum_squared_deviations_floats(const float* x, std::int64_t n, float center);
// One number for each of a row's elements; null: none.
template <typename T>
struct ScaleAndBias {
  const T* scale = nullptr;
  const T* bias = nullptr;
};

// y = (x - center) * factor * scale + bias; scale and bias may be null. y may be x.
void normalize_floats(const float* x, std::int64_t n, float center, float factor, ScaleAndBias<float> by, float* y);

// ArgMax and ArgMin (reduce_arg.cpp).
void register_reduce_arg(Registry& registry);

}  // namespace saturate
