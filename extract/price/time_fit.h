// Times of operators of one kind as a sum of sizes, with weights found by least squares of the relative error.
#pragma once

#include <array>
#include <span>
#include <utility>

#include "extract/price/op_sizes.h"

namespace saturate {

inline constexpr std::size_t kTimeFeatures = 5;  // 1, flops, bytes, bytes beyond the cache, rows
using TimeWeights = std::array<double, kTimeFeatures>;

// Weights are not negative (coordinate descent; the problem is convex).
TimeWeights fit_time_weights(std::span<const std::pair<OpSizes, double>> rows, double cache_bytes);
double weighted_seconds(const TimeWeights& weights, const OpSizes& sizes, double cache_bytes);

}  // namespace saturate
