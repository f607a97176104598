// Models with operators that our runtime can't run, compared around them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/verify/verify.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// Both models without the operators that can't be run: what these compute comes in, the same for both, and what they read goes out and is
// compared. An operator that is the same in both, and reads the same, gives the same, whatever it computes.
struct Parts {
  Model original, optimized;
  std::vector<std::string> around;     // the operators: "my.dom.Foo"
  std::vector<std::string> taken_for;  // of these, those whose type is written nowhere: "'mask' for bool"
};

// kUnimplemented where the two do not have the same such operators, or they stand where nothing can be cut; its message is the
// reason, empty where there is no such operator.
absl::StatusOr<Parts> cut_around_unknown(const Model& original, const Model& optimized);

// Verifies in parts what `whole` could not be verified as: that report with the reason, where there are none.
VerifyReport verify_in_parts(const Model& original, const Model& optimized, const VerifyOptions& options, VerifyReport whole);

}  // namespace saturate
