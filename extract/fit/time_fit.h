// Times of operators of one kind as a sum of sizes, with weights found by least squares of the relative error.
#pragma once

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "extract/sizes/op_sizes.h"

namespace saturate {

inline constexpr std::size_t kTimeFeatures = 5;  // 1, flops, bytes, bytes beyond the cache, rows
using TimeWeights = std::array<double, kTimeFeatures>;

// min |A w - 1|^2, w >= 0, by coordinate descent (the problem is convex); no weight grows beyond its entry in `most`.
TimeWeights non_negative_least_squares(std::span<const TimeWeights> rows, const TimeWeights* most = nullptr);

// The median, of two in the middle the larger; of none `otherwise`.
double median(std::vector<double> values, double otherwise);

// Least squares of the relative error.
TimeWeights fit_time_weights(std::span<const std::pair<OpSizes, double>> rows, double cache_bytes);
double weighted_seconds(const TimeWeights& weights, const OpSizes& sizes, double cache_bytes);

}  // namespace saturate
