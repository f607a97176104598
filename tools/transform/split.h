// A model as a chain of parts.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/transform/pass.h"

namespace saturate {

// A cut for each part: the first makes the first of these values, the next the second with what is there by then, the last the rest. What a
// later part reads of an earlier one is an output there and an input here; initializers go to each part that reads them.
absl::StatusOr<std::vector<PassCall>> split_at(const Model& model, const std::vector<std::string>& values);

}  // namespace saturate
