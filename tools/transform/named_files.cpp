#include "tools/transform/named_files.h"

#include <sys/stat.h>

#include <algorithm>

#include "fmt/format.h"
#include "onnx_bridge/model/wrong_usage.h"

namespace saturate {

absl::Status check_named_file(const Arguments& args, const char* field, const std::string& path, std::uint64_t most) {
  const std::string why = no_data_file(path, most);
  return why.empty() ? absl::OkStatus() : args.wrong(field, path, why);
}

absl::Status without_contents(const Arguments& args, const absl::Status& said, const std::vector<NamedFile>& files) {
  const std::string message(said.message());
  const auto is_there = [](const NamedFile& file) {
    struct stat info {};
    return ::stat(file.path.c_str(), &info) == 0;
  };
  const auto is_of = [&](const NamedFile& file) { return message.starts_with(file.path) && is_there(file); };
  auto at_fault = std::find_if(files.begin(), files.end(), is_of);
  if (at_fault == files.end() && !is_wrong_usage(said)) at_fault = std::find_if(files.begin(), files.end(), is_there);
  if (at_fault == files.end()) return args.wrong(files.front().field, files.front().path, message);
  return args.wrong(at_fault->field, at_fault->path, fmt::format("it can't be used; `{} {}` says why", at_fault->command, at_fault->path));
}

}  // namespace saturate
