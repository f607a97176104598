// Which rules made what in a model's optimized form, as JSON.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "extract/optimize/optimize.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/explain/why_not.h"
#include "tools/pipeline/setup.h"

namespace saturate {

// Whether an operator is meant by a name without its domain, too; by "" each is.
bool wanted(const std::string& op_type, const std::string& asked);
// Rules that fired and what they made of operators that are `wanted`.
nlohmann::json report_json(const std::string& path, const OptimizeReport& report, const std::string& op);
bool asks_nothing(const WhyQuery& query);
// The same with the answers to a question.
nlohmann::json whole_json(const std::string& path, const WhyReport& why, const std::string& op);
// Optimizes the model and tells which rules fired, and what became of the query's places (why_not.h).
absl::StatusOr<nlohmann::json> explain_json(const std::string& path, const Model& model, const Setup& setup, const OptimizeOptions& options,
                                            const WhyQuery& query);

}  // namespace saturate
