// How passes over decoders verify their results: by running them step by step beside another model.
#pragma once

#include "absl/status/status.h"
#include "kernels/decode/stepping.h"
#include "tools/transform/pass.h"

namespace saturate {

// Compares the logits of each step, within `options.rtol` unless the user has given another one, and notes how far they lie apart and
// whether the past matters. kDataLoss where they differ.
absl::Status same_steps(Work& work, const Model& first, const Model& second, SteppingOptions options);

// How far outputs may lie apart, by their scale: more where weights are halves.
double rtol_of_steps(const Model& model);

}  // namespace saturate
