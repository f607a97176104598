// What is in a model: as tables and as JSON.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "extract/prepare/graph_stats.h"
#include "kernels/judge/judge.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/explain/quantization.h"

namespace saturate {

// What a runtime made of a model when it loaded it.
struct AfterLoad {
  std::string name, version;  // "ONNX Runtime 1.31", "1.31.1"
  GraphStats stats;
};
// Asks the runtime itself, up to its level "extended", which is for all machines. Its answer where it gives none.
absl::StatusOr<AfterLoad> after_load(Judge& runtime, const Model& model);
nlohmann::json to_json(const AfterLoad& loaded);
// The operators before and after, each that is in either, as a table.
std::string after_load_table(const GraphStats& before, const AfterLoad& after);
// Tables of inputs, outputs, operators and initializers.
std::string inspect_text(const std::string& path, const Model& model, const GraphStats& stats);
// By the integer kernels of the target.
absl::StatusOr<Quantization> quantization_of(const Model& model, const std::string& target_name);
// `target`: whose integer kernels are meant where the model is quantized.
nlohmann::json inspect_json(const std::string& path, const Model& model, const std::string& target = "ort-cpu");

}  // namespace saturate
