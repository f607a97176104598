// What to write in the place of what a target refuses: the equal form that optimizing finds, or what stands in its way.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "extract/optimize/target_check.h"
#include "tools/pipeline/setup.h"

namespace saturate {

// check_target() with `instead` or `obstacle` of each node, as the e-graph has them after saturation.
absl::StatusOr<std::vector<Inexpressible>> check_target_with_forms(const Model& model, const Setup& setup);

}  // namespace saturate
