// Changes drawn by themselves, for documents: what a region was and what it became, side by side.
#pragma once

#include <string>
#include <vector>

#include "tools/diff/diff.h"

namespace saturate {

// One picture for each group of regions that are alike, in the order of ModelDiff::groups. `diff` knows nodes.
std::vector<std::string> change_pictures(const Model& first, const Model& second, const ModelDiff& diff);

}  // namespace saturate
