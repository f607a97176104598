// Do two models compute the same? Both are run by our own runtime on the same inputs, several sizes of every symbolic dim.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "onnx_bridge/model.h"
#include "tools/compare.h"
#include "tools/draw_inputs.h"

namespace saturate {

struct VerifyOptions {
  Tolerances tolerances;
  std::optional<Inputs> inputs;                                                 // these instead of random ones
  Sizes sizes;                                                                  // sizes of symbols that the user gave
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> input_shapes;  // dims of inputs that the user gave, -1: free
  std::uint64_t seed = 0;
  int threads = 1;
  bool full_rows = false;    // where outputs differ and the original masks a row of scores as a whole, draw other inputs (no_empty_row)
  bool float_masks = false;  // floats of which masks are made are 0 or 1 (mask_of_zeros_and_ones was assumed)
  double seconds = 60;       // no new case is begun after so long
  const std::atomic<bool>* cancel = nullptr;
};

enum class VerifyStatus {
  kEqual,
  kDifferent,    // some output differs, or the second model fails where the first runs
  kUnsupported,  // one of the models holds something that our runtime can't run
  kNotRun,       // no inputs were found that the first model accepts, or the given ones are refused
  kCancelled,
};

struct VerifyCase {
  Sizes sizes;                            // of the symbols, empty with given inputs
  std::vector<OutputComparison> outputs;  // in the first model's order
};

struct VerifyReport {
  VerifyStatus status = VerifyStatus::kEqual;
  std::string message;  // one line; why, unless equal
  std::vector<VerifyCase> cases;
  std::vector<std::string> notes;  // outputs that weren't compared, and why
  std::size_t refused = 0;         // tries that the first model refused
  bool refuses_all = false;        // it refused inputs of every kind and size, always at one node: it cannot run
  double seconds = 0;
  double max_abs() const;  // over all outputs of all cases
};

VerifyReport verify(const Model& original, const Model& optimized, const VerifyOptions& options = {});

// Outputs (by name) that depend on random operators without a fixed seed.
std::vector<std::string> random_outputs(const Model& model);
// "batch=2, seq=3".
std::string to_string(const Sizes& sizes);

}  // namespace saturate
