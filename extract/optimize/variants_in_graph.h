// The regions of an e-graph, and what a variant leaves of it to be chosen from (variants.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "extract/extract.h"
#include "extract/optimize/variants.h"
#include "extract/price/cost.h"

namespace saturate {

// By name: of one graph, those that the selection has or could have. `sizes`: of symbols.
std::map<std::string, Region> regions_of(const OnnxEGraph& g, const Lowered& lowered, const Selection& selection, const CostOptions& sizes);
// Adds to `options` what makes the selection the variant.
void take_variant(const OnnxEGraph& g, const Lowered& lowered, const Variant& variant, const CostOptions& sizes, ExtractOptions& options);

}  // namespace saturate
