// What is in a model, and which rules made what in its optimized form: as JSON.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/explain/why_not.h"
#include "tools/pipeline/optimize.h"
#include "tools/pipeline/setup.h"

namespace saturate {

// `target`: whose integer kernels are meant where the model is quantized.
nlohmann::json inspect_json(const std::string& path, const Model& model, const std::string& target = "ort-cpu");
// Optimizes the model and tells which rules fired, and what became of the query's places (why_not.h).
absl::StatusOr<nlohmann::json> explain_json(const std::string& path, const Model& model, const Setup& setup, const OptimizeOptions& options,
                                            const WhyQuery& query);

}  // namespace saturate
