// What is in a model, and which rules made what in its optimized form: as JSON.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/explain/why_not.h"
#include "tools/judge/judge.h"
#include "tools/pipeline/graph_stats.h"
#include "tools/pipeline/optimize.h"
#include "tools/pipeline/setup.h"

namespace saturate {

// What a runtime made of a model when it loaded it.
struct AfterLoad {
  std::string name, version;  // "ONNX Runtime 1.31", "1.31.1"
  GraphStats stats;
};
// Asks the runtime itself, up to its level "extended", which is for all machines. Its answer where it gives none.
absl::StatusOr<AfterLoad> after_load(Judge& runtime, const Model& model);
nlohmann::json to_json(const AfterLoad& loaded);
// `target`: whose integer kernels are meant where the model is quantized.
nlohmann::json inspect_json(const std::string& path, const Model& model, const std::string& target = "ort-cpu");
// Optimizes the model and tells which rules fired, and what became of the query's places (why_not.h).
absl::StatusOr<nlohmann::json> explain_json(const std::string& path, const Model& model, const Setup& setup, const OptimizeOptions& options,
                                            const WhyQuery& query);

}  // namespace saturate
