// Which release of ONNX Runtime a shared library is, told without loading it into this process.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace saturate {

// "1.31" of libonnxruntime.so.1.31.1: by its name behind links, else by the version of its symbols, else by the package's dist-info, else
// by a child that loads it. kFailedPrecondition with one line where nothing tells.
absl::StatusOr<std::string> release_of_library(const std::string& library);

}  // namespace saturate
