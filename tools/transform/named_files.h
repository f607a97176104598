// Files that the fields of passes name. A list of passes may come from a stranger: what it names is data, and reading it ends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "onnx_bridge/file/data_file.h"
#include "tools/transform/fields.h"

namespace saturate {

// That a file of this name, if there is one, is a regular file of at most so many bytes.
absl::Status check_named_file(const Arguments& args, const char* field, const std::string& path, std::uint64_t most);

struct NamedFile {
  const char* field;
  std::string path;
  std::string_view command;  // what tells what is wrong with such a file: "saturate rules check"
};
// The error `said` of reading them, without what a file holds: a list must not make us show the words of files that its author can't read.
absl::Status without_contents(const Arguments& args, const absl::Status& said, const std::vector<NamedFile>& files);

}  // namespace saturate
