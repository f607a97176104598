// Shapes for inputs that a model leaves open, by trial: what its operators ask for, what stands in it, and usual sizes, until it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/inputs/draw_inputs.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

struct Trial {
  Inputs inputs;
  std::vector<std::string> ones;   // dims that got the size 1, for nobody gave one
  std::vector<std::string> taken;  // "x [2, 63]": of inputs that are open, where some have no rank or 1 did not do
};

// Runs the model on drawn inputs until it takes some: first with 1 for each open dim, where all have a rank. Some hundred tries and ten
// seconds at most; then the error of the first, with how many there were. Errors that other shapes can't mend end it at once.
absl::StatusOr<Trial> try_shapes(const Model& model, const InputDrawer& drawer, std::uint64_t seed,
                                 const std::function<absl::Status(const Inputs&)>& run);

// Of the inputs for which `wanted` holds, what was taken: "x [2, 63]".
std::vector<std::string> shapes_taken(const Model& model, const Inputs& inputs, const std::function<bool(const ValueInfo&)>& wanted);
bool has_no_rank(const ValueInfo& input);

}  // namespace saturate
