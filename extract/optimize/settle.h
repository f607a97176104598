// The release that a target without one ("ort-cpu") is held to: that of the runtime which is found on this machine.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace saturate {

struct SettledTarget {
  std::string given;         // with its release, "ort-cpu@1.31": naming it does the same anywhere
  std::string release = {};  // "ONNX Runtime 1.31, installed here"; "" where nothing was to be settled
  std::string older = {};    // "--target ort-cpu@1.20 for older ones"
  bool is_other = false;     // than what is installed here: nothing usable is, or it is older or newer than all that the target knows
};

// What has a release, or names no runtime, stays; a release that is newer than all that the target knows is the last one, and said. Else
// the library tells it that `library` (of --onnxruntime), the variable SATURATE_ONNXRUNTIME or the Python package names
// (named_onnxruntime() in kernels/verify/choice.h), if the target's runtime consists of it (Runtime::installed_with); else it is the
// target's own (Runtime::usual()). A release that is older than all that the target knows counts as the first, a newer one as the last. An
// error for a target that can't be read, and for a library that was named and is none.
absl::StatusOr<SettledTarget> settle_target(const std::string& given, const std::string& library);

}  // namespace saturate
