#include "onnx_bridge/file/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace saturate {
namespace {

constexpr const char* kSmaller = "name a smaller file";

class Opened {
 public:
  Opened(const std::string& path, int flags) : fd_(::open(path.c_str(), flags)) {}
  ~Opened() {
    if (fd_ >= 0) ::close(fd_);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

std::string no_data(const struct stat& info, std::uint64_t most, Pipes pipes) {
  if (S_ISFIFO(info.st_mode) && pipes == Pipes::kTaken) return "";
  if (!S_ISREG(info.st_mode)) return "it is no regular file; name a file, no device, pipe or folder";
  if (static_cast<std::uint64_t>(info.st_size) > most)
    return fmt::format("it has {} bytes, and {} are read at most; {}", info.st_size, most, kSmaller);
  return "";
}

absl::Status failed(const std::string& path, const char* what, const char* advice) {
  const int error = errno;
  const std::string text = fmt::format("{}: {}: {}; {}", path, what, std::strerror(error), advice);
  return error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG ? absl::NotFoundError(text) : absl::InvalidArgumentError(text);
}

}  // namespace

std::string no_data_file(const std::string& path, std::uint64_t most) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? no_data(info, most, Pipes::kRefused) : "";
}

absl::StatusOr<std::string> read_data_file(const std::string& path, std::uint64_t most, Pipes pipes) {
  // A pipe that nobody writes into must not hold us up, where it is refused anyway.
  const Opened file(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (pipes == Pipes::kTaken ? 0 : O_NONBLOCK));
  if (file.fd() < 0) return failed(path, "can't be opened", "check the path");
  struct stat info {};
  if (::fstat(file.fd(), &info) != 0) return failed(path, "can't be read", "check that it is a file");
  if (const std::string why = no_data(info, most, pipes); !why.empty()) return absl::InvalidArgumentError(fmt::format("{}: {}", path, why));
  return read_all(file.fd(), path, most);
}

absl::StatusOr<std::string> read_all(int fd, const std::string& name, std::uint64_t most) {
  constexpr std::size_t kBlock = std::size_t{1} << 16;
  std::string bytes;
  struct stat info {};
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0)
    bytes.reserve(std::min(static_cast<std::uint64_t>(info.st_size), most));
  char block[kBlock];
  ssize_t got = 0;
  while ((got = ::read(fd, block, kBlock)) != 0) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(name, "can't be read", "check that it is a file");
    if (static_cast<std::uint64_t>(got) > most - bytes.size())
      return absl::InvalidArgumentError(fmt::format("{}: it has more than the {} bytes that are read at most; {}", name, most, kSmaller));
    bytes.append(block, static_cast<std::size_t>(got));
  }
  return bytes;
}

}  // namespace saturate
