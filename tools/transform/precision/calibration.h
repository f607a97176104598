// Inputs of a user, on which passes measure what values are like.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "kernels/decode/decoder.h"
#include "kernels/decode/stepper.h"
#include "kernels/inputs/draw_inputs.h"
#include "tools/transform/precision/ranges.h"

namespace saturate {

// The arrays of an npz file.
absl::StatusOr<Inputs> load_inputs(const std::string& path);

// What a decoder reads of some texts: rows of tokens, and of what an encoder gives it.
struct Texts {
  Tokens tokens;
  Inputs given;
};

// Of arrays by the names of the decoder's inputs: tokens, whole windows of them and as many in each row, and what an encoder gives.
absl::StatusOr<Texts> texts_of(const Inputs& arrays, const Model& model, const Decoder& decoder);

// Row by row, unless the batch is fixed: exports exist that take one row alone. Where a run takes any number of tokens, all but the last
// come at once.
absl::Status step_through(Stepper& stepper, const Texts& texts);

// As measure_ranges. Where the model is a decoder with a cache, and the arrays hold no past, they are tokens, and it is run step by step.
absl::StatusOr<Ranges> ranges_on(const Inputs& arrays, const Model& model, bool keep);

}  // namespace saturate
