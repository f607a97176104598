// A cost model in a shared library, over the C interface of saturate_cost.h.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "extract/price/cost.h"

namespace saturate {

// Loads the library (its code runs: only ever a file that the user names). Errors: it can't be loaded, lacks a function, or refuses the
// version.
absl::StatusOr<std::unique_ptr<CostModel>> load_plugin_cost(const std::string& path, const CostOptions& options);

}  // namespace saturate
