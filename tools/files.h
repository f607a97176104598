// Whole small files in and out.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace saturate {

// Errors begin with the path and say what to do.
absl::StatusOr<std::string> read_file(const std::string& path);
// Whether a file could be written to `path` now, as far as can be seen without writing: asked before long work.
absl::Status check_writable(const std::string& path);
// Into a temporary file beside `path`, then renamed (through symlinks: the link's own target is replaced): a failed write leaves what was
// there.
absl::Status write_file(const std::string& path, std::string_view bytes);

}  // namespace saturate
