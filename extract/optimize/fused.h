// Which operators are fused ones, by family: what optimizing is about.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "extract/optimize/optimize.h"

namespace saturate {

// "attention", "normalization", "GELU", "SiLU", "rotary embedding", "other fused"; empty for operators that are not fused ones.
// `op_type` as in GraphStats: "Add", "com.microsoft.Attention".
std::string_view fused_family(std::string_view op_type);
// In a fixed order, all families: how many operators of each.
std::vector<std::pair<std::string, std::size_t>> fused_counts(const GraphStats& stats);

}  // namespace saturate
