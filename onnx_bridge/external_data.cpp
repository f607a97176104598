#include "onnx_bridge/external_data.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "absl/strings/str_split.h"
#include "fmt/format.h"

namespace saturate {
namespace {

constexpr std::uint64_t kPage = 4096, kBig = 64 * 1024, kSmallAlignment = 64;
constexpr std::size_t kStep = 8u << 20;

absl::Status refused(const std::string& location, const std::string& why) {
  return absl::InvalidArgumentError(fmt::format("external data '{}': {}", location, why));
}

std::optional<std::uint64_t> parse_number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty() || value > (std::uint64_t{1} << 62)) return std::nullopt;
  return value;
}

absl::StatusOr<std::vector<std::string>> safe_steps(const std::string& location) {
  if (location.empty()) return refused(location, "the location is empty");
  if (location.find('\0') != std::string::npos) return refused("?", "the location contains a NUL byte");
  if (location.front() == '/') return refused(location, "absolute paths are refused: data must lie in the model's folder");
  std::vector<std::string> steps;
  for (const std::string& step : std::vector<std::string>(absl::StrSplit(location, '/', absl::SkipEmpty()))) {
    if (step == "..") return refused(location, "'..' is refused: data must lie in the model's folder");
    if (step != ".") steps.push_back(step);
  }
  if (steps.empty()) return refused(location, "the location names no file");
  return steps;
}

constexpr const char* kLinkText =
    "symbolic links are refused, on the file and on the folders before it: put a copy of the file into the model's folder";

// The same walk without openat2 (Linux < 5.6, or a sandbox that denies it): no step may be a symbolic link.
int open_step_by_step(int folder, const std::vector<std::string>& steps) {
  int at = ::dup(folder);
  for (std::size_t i = 0; i < steps.size() && at >= 0; ++i) {
    const bool last = i + 1 == steps.size();
    const int next = ::openat(at, steps[i].c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (last ? 0 : O_DIRECTORY));
    const int error = errno;
    ::close(at);
    errno = error;
    at = next;
  }
  return at;
}

int open_beneath(int folder, const std::vector<std::string>& steps) {
  std::string path;
  for (const std::string& s : steps) path += (path.empty() ? "" : "/") + s;
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const long fd = ::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof(how));
  if (fd >= 0) return static_cast<int>(fd);
  if (errno == ENOSYS || errno == EPERM || errno == EINVAL) return open_step_by_step(folder, steps);
  return -1;
}

absl::Status write_all(int fd, const std::byte* data, std::size_t size, const std::string& name) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, std::min(size, kStep));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return absl::UnavailableError(fmt::format("{}: cannot write: {}", name, std::strerror(errno)));
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return absl::OkStatus();
}

// Leaves the rest to the caller where neither call serves this pair of files.
std::uint64_t copy_in_kernel(int from, std::uint64_t offset, int to, std::uint64_t length) {
  std::uint64_t done = 0;
  bool range_works = true;
  while (done < length) {
    ssize_t n = -1;
    if (range_works) {
      loff_t at = static_cast<loff_t>(offset + done);
      n = ::copy_file_range(from, &at, to, nullptr, std::min<std::uint64_t>(length - done, 1u << 30), 0);
      if (n < 0 && errno != EINTR) range_works = false;
    }
    if (n <= 0 && !range_works) {
      off_t at = static_cast<off_t>(offset + done);
      n = ::sendfile(to, from, &at, std::min<std::uint64_t>(length - done, 1u << 30));
    }
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::uint64_t>(n);
  }
  return done;
}

// What the kernel did not copy, by way of a buffer.
absl::Status copy_by_buffer(int from, std::uint64_t offset, int to, std::uint64_t length, const std::string& name) {
  std::vector<std::byte> buffer(std::min<std::uint64_t>(length, 1u << 20));
  while (length > 0) {
    const ssize_t n = ::pread(from, buffer.data(), std::min<std::uint64_t>(length, buffer.size()), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return absl::UnavailableError(
          fmt::format("{}: cannot read the input's data: {}", name, n == 0 ? "the file has become shorter" : std::strerror(errno)));
    if (absl::Status s = write_all(to, buffer.data(), static_cast<std::size_t>(n), name); !s.ok()) return s;
    offset += static_cast<std::uint64_t>(n);
    length -= static_cast<std::uint64_t>(n);
  }
  return absl::OkStatus();
}

}  // namespace

struct ExternalFiles::File {
  std::string path;
  int fd = -1;
  std::uint64_t size = 0;
  void* base = nullptr;

  File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (base) ::munmap(base, size);
    if (fd >= 0) ::close(fd);
  }
};

ExternalFiles::ExternalFiles(std::string folder) : folder_(std::move(folder)) {}

ExternalFiles::~ExternalFiles() {
  if (folder_fd_ >= 0) ::close(folder_fd_);
}

absl::StatusOr<std::shared_ptr<ExternalFiles::File>> ExternalFiles::open(const std::string& location) {
  if (folder_.empty()) return refused(location, "the model came from memory, without a folder where its data files may lie");
  auto steps = safe_steps(location);
  if (!steps.ok()) return steps.status();
  if (folder_fd_ < 0) folder_fd_ = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_fd_ < 0) return refused(location, fmt::format("cannot open the folder '{}': {}", folder_, std::strerror(errno)));
  auto file = std::make_shared<File>();
  file->path = folder_ == "." ? location : folder_ + "/" + location;
  file->fd = open_beneath(folder_fd_, *steps);
  if (file->fd < 0 && errno == ENOENT) return refused(location, fmt::format("there is no such file in '{}'", folder_));
  if (file->fd < 0 && (errno == ELOOP || errno == ENOTDIR || errno == EXDEV)) return refused(location, kLinkText);
  if (file->fd < 0) return refused(location, fmt::format("cannot open it: {}", std::strerror(errno)));
  struct stat info {};
  if (::fstat(file->fd, &info) != 0) return refused(location, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return refused(location, "it is no regular file");
  if (info.st_nlink > 1)
    return refused(location, fmt::format("hard links are refused (the file has {} names): put a copy of the file into the model's folder",
                                         info.st_nlink));
  file->size = static_cast<std::uint64_t>(info.st_size);
  if (file->size > 0) {
    file->base = ::mmap(nullptr, file->size, PROT_READ, MAP_PRIVATE, file->fd, 0);
    if (file->base == MAP_FAILED) {
      file->base = nullptr;
      return refused(location, fmt::format("cannot map it: {}", std::strerror(errno)));
    }
  }
  return file;
}

absl::StatusOr<Tensor> ExternalFiles::map(const ExternalReference& reference, DType dtype, Shape dims) {
  std::uint64_t offset = 0;
  if (dtype == DType::kString) return refused(reference.location, "string tensors cannot be external");
  if (reference.offset) {
    const auto n = parse_number(*reference.offset);
    if (!n) return refused(reference.location, fmt::format("offset '{}' is not a number of bytes", *reference.offset));
    offset = *n;
  }
  auto& file = files_[reference.location];
  if (!file) {
    auto opened = open(reference.location);
    if (!opened.ok()) return opened.status();
    file = *std::move(opened);
  }
  const auto need = checked_bytes(dtype, dims);
  if (!need) return refused(reference.location, "the dims of the tensor overflow");
  std::uint64_t length = *need;
  if (reference.length) {
    const auto n = parse_number(*reference.length);
    if (!n) return refused(reference.location, fmt::format("length '{}' is not a number of bytes", *reference.length));
    length = *n;
    if (bit_width(dtype) != 0 && length != *need)
      return refused(reference.location, fmt::format("length is {}, but {} with dims [{}] takes {} bytes", length, dtype_name(dtype),
                                                     fmt::join(dims, ","), *need));
  }
  if (offset > file->size || length > file->size - offset)
    return refused(reference.location,
                   fmt::format("bytes {} to {} are asked for, but the file ends at {}", offset, offset + length, file->size));
  auto range = std::make_shared<FileRange>();
  range->path = file->path;
  range->offset = offset;
  range->length = length;
  range->fd = file->fd;
  range->file = file;
  const std::span<const std::byte> view(static_cast<const std::byte*>(file->base) + (file->base ? offset : 0), length);
  Tensor tensor(dtype, std::move(dims), file, view);
  tensor.set_mapped(true);
  if (length < kBig) tensor = aligned(tensor);
  tensor.set_file_range(std::move(range));
  return tensor;
}

DataFilePlan::Place DataFilePlan::place(const Tensor& tensor) {
  const FileRange* from = tensor.file_range().get();
  const std::uint64_t length = from ? from->length : tensor.bytes().size();
  const auto key =
      from ? std::tuple(from->path, from->offset, length)
           : std::tuple(std::string(), static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(tensor.bytes().data())), length);
  if (const auto it = known_.find(key); it != known_.end() && length > 0) return it->second;
  const std::uint64_t alignment = length >= kBig ? kPage : kSmallAlignment;
  const Place place{(end_ + alignment - 1) / alignment * alignment, length};
  end_ = place.offset + length;
  chunks_.push_back({tensor, place});
  known_.emplace(key, place);
  return place;
}

absl::Status DataFilePlan::write(int fd, const std::string& name) const {
  if (::ftruncate(fd, static_cast<off_t>(end_)) != 0)
    return absl::UnavailableError(fmt::format("{}: cannot write {} bytes: {}", name, end_, std::strerror(errno)));
  for (const Chunk& c : chunks_) {
    if (::lseek(fd, static_cast<off_t>(c.place.offset), SEEK_SET) < 0)
      return absl::UnavailableError(fmt::format("{}: {}", name, std::strerror(errno)));
    const FileRange* from = c.tensor.file_range().get();
    absl::Status status;
    if (from && from->fd >= 0) {
      const std::uint64_t done = copy_in_kernel(from->fd, from->offset, fd, c.place.length);
      status = copy_by_buffer(from->fd, from->offset + done, fd, c.place.length - done, name);
    } else {
      status = write_all(fd, c.tensor.bytes().data(), c.tensor.bytes().size(), name);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace saturate
