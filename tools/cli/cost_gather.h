// Times of operators and of whole graphs in our own runtime: rows for cost models.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "kernels/inputs/draw_inputs.h"
#include "nlohmann/json_fwd.hpp"

namespace saturate {

struct GatherOptions {
  Sizes sizes;            // of symbols; others are 16, or smaller where the model refuses that
  double seconds = 0.05;  // for each row
  int threads = 1;
  std::uint64_t seed = 0;
  const std::atomic<bool>* cancel = nullptr;
};

// Processor, extensions, caches, cores, system and our version: what times are comparable on.
nlohmann::json machine_row(int threads);

// Every different node of the model (operator, attributes, shapes, dtypes), timed by itself on the values it has in a run of the model.
absl::Status gather_operators(const Model& model, const GatherOptions& options, const std::function<void(const nlohmann::json& row)>& emit);

// The whole graph: {"graph", "seconds", "operators_seconds"}, the latter the sum over the steps of a profiled run.
absl::StatusOr<nlohmann::json> time_graph(const Model& model, const std::string& name, const GatherOptions& options);

}  // namespace saturate
