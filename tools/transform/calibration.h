// Inputs of a user, on which passes measure what values are like.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tools/generate/decoder.h"
#include "tools/generate/stepper.h"
#include "tools/transform/ranges.h"
#include "tools/verify/draw_inputs.h"

namespace saturate {

// The arrays of an npz file.
absl::StatusOr<Inputs> load_inputs(const std::string& path);

// Tokens alone, by the name of the decoder's input: whole windows of them, as many in each row.
absl::StatusOr<Tokens> tokens_of(const Inputs& arrays, const Model& model, const Decoder& decoder);

// Row by row, unless the batch is fixed: exports exist that take one row alone. Where a run takes any number of tokens, all but the last
// come at once.
absl::Status step_through(Stepper& stepper, const Tokens& tokens);

// As measure_ranges. Where the model is a decoder with a cache, and the arrays hold no past, they are tokens, and it is run step by step.
absl::StatusOr<Ranges> ranges_on(const Inputs& arrays, const Model& model, bool keep);

}  // namespace saturate
