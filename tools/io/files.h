// Whole files out (onnx_bridge/file/data_file.h has those that come in).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace saturate {

inline constexpr std::string_view kPipe = "-";  // in place of a path: what is piped in, or out

enum class Into : std::uint8_t { kFile, kAnything };  // kAnything: also into a device, a pipe or /dev/stdout
// Whether a file could be written to `path` now, as far as can be seen without writing: asked before long work.
absl::Status check_writable(const std::string& path, Into into = Into::kFile);
struct NamedPath {
  std::string what, path;  // "--report", "r.json"; an empty path is none
};
// No output may be one of the inputs or another output, by whatever name.
absl::Status check_distinct(const std::vector<NamedPath>& outputs, const std::vector<NamedPath>& inputs);
// What to do where a model could not be written.
const char* write_advice(const absl::Status& status);
// Whole or not at all, as onnx_bridge/file/output_file.h does it; into a device or a pipe as it comes.
absl::Status write_file(const std::string& path, std::string_view bytes);

}  // namespace saturate
