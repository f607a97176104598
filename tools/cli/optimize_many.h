#pragma once

#include <string>
#include <vector>

#include "tools/cli/cli.h"

namespace saturate {

// Each model to a file of its name in `given.output_dir`. All are done even where one fails; the worst exit status.
int optimize_many(const OptimizeArgs& given, const std::vector<std::string>& inputs);

}  // namespace saturate
