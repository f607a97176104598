#include "tools/io/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "fmt/format.h"
#include "onnx_bridge/file/output_file.h"

namespace saturate {
namespace {

absl::Status failed(const std::string& path, const char* what, const char* advice) {
  return absl::InvalidArgumentError(fmt::format("{}: {}: {}; {}", path, what, std::strerror(errno), advice));
}

}  // namespace

absl::Status check_writable(const std::string& path, Into into) {
  if (into == Into::kAnything && is_stream(path)) return absl::OkStatus();
  return destination_of(path).status();
}

absl::Status check_distinct(const std::vector<NamedPath>& outputs, const std::vector<NamedPath>& inputs) {
  const auto clash = [](const NamedPath& output, const NamedPath& other) {
    return absl::InvalidArgumentError(fmt::format("{}: {} would overwrite {}; name another file", output.path, output.what, other.what));
  };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].path.empty() || is_stream(outputs[i].path)) continue;
    for (const NamedPath& input : inputs)
      if (same_place(outputs[i].path, input.path)) return clash(outputs[i], input);
    for (std::size_t k = 0; k < i; ++k)
      if (same_place(outputs[i].path, outputs[k].path)) return clash(outputs[i], outputs[k]);
  }
  return absl::OkStatus();
}

const char* write_advice(const absl::Status& status) {
  const auto says = [&](const char* text) { return absl::StrContains(status.message(), text); };
  if (says(std::strerror(ENOSPC)) || says(std::strerror(EDQUOT)) || says("the file system has"))
    return "free some space, or name another folder";
  if (says(std::strerror(EFBIG))) return "the shell bounds the size of files; raise that by ulimit -f";
  return "check the folder and its rights";
}

absl::Status write_file(const std::string& path, std::string_view bytes) {
  if (is_stream(path)) {
    const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0) return failed(path, "can't be written", "check the folder and its rights");
    const absl::Status status = write_fully(fd, bytes, path);
    return close(fd) == 0 || !status.ok() ? status : failed(path, "can't be written", "check the free space");
  }
  const absl::StatusOr<Destination> to = destination_of(path);
  if (!to.ok()) return to.status();
  OutputFile file;
  absl::Status status = file.open(*to, to->old ? &*to->old : nullptr);
  if (status.ok()) status = write_fully(file.fd(), bytes, path);
  if (status.ok()) status = file.sync();
  if (status.ok()) status = file.put(to->name, true);
  if (status.ok()) sync_folder(to->folder);
  return status;
}

}  // namespace saturate
