#include "tools/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "fmt/format.h"

namespace saturate {
namespace {

absl::Status failed(const std::string& path, const char* what, const char* advice) {
  return absl::InvalidArgumentError(fmt::format("{}: {}: {}; {}", path, what, std::strerror(errno), advice));
}

}  // namespace

absl::StatusOr<std::string> read_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failed(path, "can't be opened", "check the path");
  std::string bytes;
  struct stat info {};
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) bytes.reserve(static_cast<std::size_t>(info.st_size));
  char buffer[1 << 16];
  ssize_t got = 0;
  while ((got = read(fd, buffer, sizeof buffer)) > 0) bytes.append(buffer, static_cast<std::size_t>(got));
  const bool ok = got == 0;
  const int error = errno;
  close(fd);
  errno = error;
  if (!ok) return failed(path, "can't be read", "check that it is a file");
  return bytes;
}

absl::Status check_writable(const std::string& path) {
  std::error_code ignored;
  if (path.empty() || std::filesystem::is_directory(path, ignored))
    return absl::InvalidArgumentError(fmt::format("{}: is a folder; name a file", path));
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0)
    return failed(path, "can't be written", "check the folder and its rights");
  return absl::OkStatus();
}

absl::Status write_file(const std::string& path, std::string_view bytes) {
  std::error_code ignored;
  std::filesystem::path target = path;
  if (std::filesystem::is_symlink(target, ignored)) target = std::filesystem::weakly_canonical(target, ignored);
  if (target.empty() || std::filesystem::is_directory(target, ignored))
    return absl::InvalidArgumentError(fmt::format("{}: is a folder; name a file", path));
  const bool special =
      std::filesystem::exists(target, ignored) && !std::filesystem::is_regular_file(target, ignored);  // /dev/stdout: no rename
  std::string temporary = target.string() + ".XXXXXX";
  const int fd = special ? open(target.c_str(), O_WRONLY | O_CLOEXEC) : mkstemp(temporary.data());
  if (fd < 0) return failed(path, "can't be written", "check the folder and its rights");
  const mode_t mask = umask(0);
  umask(mask);
  bool ok = special || fchmod(fd, 0666 & ~mask) == 0;
  while (ok && !bytes.empty()) {
    const ssize_t put = write(fd, bytes.data(), bytes.size());
    ok = put > 0;
    if (ok) bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  ok = close(fd) == 0 && ok && (special || rename(temporary.c_str(), target.c_str()) == 0);
  if (ok) return absl::OkStatus();
  const absl::Status status = failed(path, "can't be written", "check the folder, its rights and the free space");
  if (!special) unlink(temporary.c_str());
  return status;
}

}  // namespace saturate
