// How large the numbers of a model become when it runs.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/decode/stepper.h"
#include "kernels/inputs/draw_inputs.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

struct Ranges {
  std::map<std::string, double> largest;     // by float value of the graph: its largest finite number without sign
  std::map<std::string, double> scores;      // by attention operator, the name of its first output: what its scores are at most
  std::map<std::string, std::size_t> bytes;  // ... and how many bytes it has at most
  std::vector<std::string> zeros;            // inputs that were not drawn, for all of them would take much memory
  std::vector<Inputs> inputs;                // of each run, where they are kept
};

// On the given inputs and, where there are none, on up to three drawn ones of several sizes; where the smallest take more than 256 MiB (a
// cache of a long context), large ones are zeros. Values in bodies are not seen.
// kFailedPrecondition where the model accepts none of them, or our runtime can't run it.
absl::StatusOr<Ranges> measure_ranges(const Model& model, const std::vector<Inputs>& given, bool keep);
// The same on what `drive` runs.
absl::StatusOr<Ranges> ranges_of_runs(const Model& model, const std::function<absl::Status(const RunModel& run)>& drive, bool keep);

}  // namespace saturate
