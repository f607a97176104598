// What is in a model, and which rules made what in its optimized form: as JSON.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/cli.h"
#include "tools/optimize.h"

namespace saturate {

nlohmann::json inspect_json(const std::string& path, const Model& model);
// Optimizes the model and tells which rules fired. `op`: only operators of this type, with or without domain; empty: all.
absl::StatusOr<nlohmann::json> explain_json(const std::string& path, const Model& model, const Setup& setup, const OptimizeOptions& options,
                                            const std::string& op);

}  // namespace saturate
