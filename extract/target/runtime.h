// Releases of the runtime that a target stands for, and which models each of them loads.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace saturate {

struct RuntimeRelease {
  std::string version;             // "1.20"
  std::int64_t opset = 0, ir = 0;  // the newest of ai.onnx, and of the IR, that it loads
  std::set<std::string> lacks;     // of what the target takes: "Op", "domain::Op"
};

struct Runtime {
  std::string name;                      // "ONNX Runtime"
  std::vector<std::string> sources;      // where what is said of its releases was found
  std::vector<RuntimeRelease> releases;  // oldest first; one that is not listed is as the one before it
  // The files beside ONNX Runtime's library without which it is not this runtime; nullopt: a library on this machine never is.
  std::optional<std::vector<std::string>> installed_with = {};
  std::string usual_release = {};  // "1.23": what usual() is; "" the oldest
  // What a target without a release is held to where nothing tells another. There is a release.
  RuntimeRelease usual() const;
  // The oldest that loads a model of this opset and IR version; null where none is known to.
  const RuntimeRelease* oldest_for(std::int64_t opset, std::int64_t ir) const;
  // What is known of "1.22", "1.22.1" or a newer one; kInvalidArgument with one line for what is no version or older than all.
  absl::StatusOr<RuntimeRelease> at(std::string_view version) const;
};

// Whether one version is before another: by their numbers, of which the first differs or is missing.
bool is_before(std::string_view version, std::string_view other);

}  // namespace saturate
