// How two graphs compare by times of runs in turns.
#pragma once

#include <span>

#include "extract/optimize/measured.h"

namespace saturate {

inline constexpr std::size_t kFewestRounds = 5;  // fewer say nothing: by chance all of five lie on one side once in 16 times

// Of times in the same rounds, those of `a` over those of `b`; rounds in which one is NaN are passed over. The interval holds the median
// in 95 of 100 times, by the ranks of the ratios alone; of fewer than kFewestRounds rounds it goes from 0 to infinity.
MeasuredRatio ratio_of(std::span<const double> a, std::span<const double> b);
inline bool is_less(const MeasuredRatio& ratio) { return ratio.high < 1; }
// Of those that are no NaN; 0 of none.
double median_of(std::span<const double> values);

}  // namespace saturate
