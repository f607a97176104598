#include "onnx_bridge/file/data/external_data.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "onnx_bridge/file/data/safetensors.h"
#include "onnx_bridge/file/mapped_files.h"
#include "onnx_bridge/file/output_file.h"

namespace saturate {
namespace {

constexpr std::uint64_t kPage = 4096, kBig = 64 * 1024, kSmallAlignment = 64;
constexpr std::uint64_t kCopyStep = 64u << 20;  // between two looks at whether to go on
constexpr int kMostDataNames = 1000;

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
    const std::string_view bytes(reinterpret_cast<const char*>(buffer.data()), static_cast<std::size_t>(n));
    if (absl::Status s = write_fully(to, bytes, name); !s.ok()) return s;
    offset += static_cast<std::uint64_t>(n);
    length -= static_cast<std::uint64_t>(n);
  }
  return absl::OkStatus();
}

// save_model gives data a second name for a moment, and may be killed then: both names follow the model's, in one folder, and there is no
// third one elsewhere.
bool is_own_second_name(int folder, const std::string& location, const struct stat& info) {
  const DataFormat format = format_of(location);
  if (info.st_nlink != 2 || !location.ends_with(suffix_of(format))) return false;
  std::string model = location.substr(0, location.size() - suffix_of(format).size());
  const std::size_t dot = model.rfind('.');
  if (dot != std::string::npos && dot + 1 < model.size() && model.find_first_not_of("0123456789", dot + 1) == std::string::npos)
    model.resize(dot);
  for (int number = 1; number < kMostDataNames; ++number) {
    const std::string other = data_name(model, number, format);
    struct stat found {};
    if (other != location && ::fstatat(folder, other.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 && same_file(found, info)) return true;
  }
  return false;
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
    if (base) forget_mapping(base), ::munmap(base, size);
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
  if (file->fd < 0 && errno == ENOENT)
    return refused(location, fmt::format("there is no such file in '{}'; it must lie beside the model", folder_));
  if (file->fd < 0 && (errno == ELOOP || errno == ENOTDIR || errno == EXDEV)) return refused(location, kLinkText);
  if (file->fd < 0) return refused(location, fmt::format("cannot open it: {}", std::strerror(errno)));
  struct stat info {};
  if (::fstat(file->fd, &info) != 0) return refused(location, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return refused(location, "it is no regular file");
  if (info.st_nlink > 1 && !is_own_second_name(folder_fd_, location, info))
    return refused(location, fmt::format("hard links are refused (the file has {} names): put a copy of the file into the model's folder",
                                         info.st_nlink));
  file->size = static_cast<std::uint64_t>(info.st_size);
  if (file->size > 0) {
    file->base = ::mmap(nullptr, file->size, PROT_READ, MAP_PRIVATE, file->fd, 0);
    if (file->base == MAP_FAILED) {
      file->base = nullptr;
      return refused(location, fmt::format("cannot map it: {}", std::strerror(errno)));
    }
    note_mapping(file->base, file->size, file->path, file->fd);
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

DataFilePlan::Place DataFilePlan::place(const Tensor& tensor, const std::string& name) {
  const FileRange* from = tensor.file_range().get();
  const std::uint64_t length = from ? from->length : tensor.bytes().size();
  const auto key =
      from ? std::tuple(from->path, from->offset, length)
           : std::tuple(std::string(), static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(tensor.bytes().data())), length);
  if (const auto it = known_.find(key); it != known_.end() && length > 0) return chunks_[it->second].place;
  if (!front_.empty()) {
    has_no_place_ = has_no_place_ || length > 0;
    return {front_.size(), 0};
  }
  const std::uint64_t alignment = length >= kBig ? kPage : kSmallAlignment;
  const Place place{(end_ + alignment - 1) / alignment * alignment, length};
  end_ = place.offset + length;
  known_.emplace(key, chunks_.size());
  chunks_.push_back({tensor, place, name});
  return place;
}

bool DataFilePlan::lay_out() {
  if (format_ != DataFormat::kSafetensors || chunks_.empty()) return false;
  std::vector<SafetensorsEntry> entries;
  for (const Chunk& c : chunks_) entries.push_back({c.name, c.tensor.dtype(), c.tensor.dims(), c.place.length});
  front_ = lay_out_safetensors(entries);
  end_ = front_.size();
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    chunks_[i].place.offset = entries[i].offset;
    end_ = std::max(end_, entries[i].offset + entries[i].bytes);
  }
  return true;
}

namespace {

struct Extent {
  std::uint64_t begin = 0, end = 0;
};

// The first part of [at, end) of a file that is no hole.
std::optional<Extent> next_data(int fd, std::uint64_t at, std::uint64_t end) {
  if (at >= end) return std::nullopt;
  const off_t data = ::lseek(fd, static_cast<off_t>(at), SEEK_DATA);
  if (data < 0) return errno == ENXIO ? std::nullopt : std::optional(Extent{at, end});  // ENXIO: nothing but a hole; else: it can't tell
  if (static_cast<std::uint64_t>(data) >= end) return std::nullopt;
  const off_t hole = ::lseek(fd, data, SEEK_HOLE);
  return Extent{static_cast<std::uint64_t>(data), hole < 0 ? end : std::min(end, static_cast<std::uint64_t>(hole))};
}

std::uint64_t data_bytes(const FileRange& range) {
  std::uint64_t bytes = 0;
  const std::uint64_t end = range.offset + range.length;
  for (auto part = next_data(range.fd, range.offset, end); part; part = next_data(range.fd, part->end, end))
    bytes += part->end - part->begin;
  return bytes;
}

absl::Status copy_range(const FileRange& from, int to, std::uint64_t place, const std::string& name, const std::atomic<bool>* cancel) {
  struct stat info {};
  const std::uint64_t end = from.offset + from.length;
  if (::fstat(from.fd, &info) != 0 || static_cast<std::uint64_t>(info.st_size) < end)
    return absl::UnavailableError(fmt::format("{}: cannot read the input's data: '{}' has become shorter", name, from.path));
  for (auto part = next_data(from.fd, from.offset, end); part; part = next_data(from.fd, part->end, end)) {
    part->end = std::min(part->end, part->begin + kCopyStep);
    if (cancel && *cancel) return absl::CancelledError(name + ": interrupted");
    if (::lseek(to, static_cast<off_t>(place + part->begin - from.offset), SEEK_SET) < 0)
      return absl::UnavailableError(fmt::format("{}: {}", name, std::strerror(errno)));
    const std::uint64_t length = part->end - part->begin, done = copy_in_kernel(from.fd, part->begin, to, length);
    if (absl::Status s = copy_by_buffer(from.fd, part->begin + done, to, length - done, name); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status copy_file(const FileRange& from, int to, const std::string& name_for_errors, const std::atomic<bool>* cancel) {
  if (::ftruncate(to, static_cast<off_t>(from.length)) != 0)
    return absl::UnavailableError(fmt::format("{}: cannot write {} bytes: {}", name_for_errors, from.length, std::strerror(errno)));
  return copy_range(from, to, 0, name_for_errors, cancel);
}

std::string data_name(const std::string& model, int number, DataFormat format) {
  const std::string_view suffix = suffix_of(format);
  return number < 2 ? fmt::format("{}{}", model, suffix) : fmt::format("{}.{}{}", model, number, suffix);
}

absl::Status DataFilePlan::write(int fd, const std::string& name, const std::atomic<bool>* cancel) const {
  std::uint64_t needed = 0;
  for (const Chunk& c : chunks_) {
    const FileRange* from = c.tensor.file_range().get();
    needed += from && from->fd >= 0 ? data_bytes(*from) : c.place.length;
  }
  struct statvfs room {};
  if (::fstatvfs(fd, &room) == 0 && needed / room.f_frsize > room.f_bavail)
    return absl::ResourceExhaustedError(
        fmt::format("{}: cannot write {} bytes: the file system has {} left", name, needed, room.f_bavail * room.f_frsize));
  if (::ftruncate(fd, static_cast<off_t>(end_)) != 0)
    return absl::UnavailableError(fmt::format("{}: cannot write {} bytes: {}", name, end_, std::strerror(errno)));
  if (has_no_place_) return absl::InternalError(fmt::format("{}: a tensor came up after the file was laid out", name));
  if (absl::Status s = write_fully(fd, front_, name); !s.ok()) return s;
  for (const Chunk& c : chunks_) {
    const FileRange* from = c.tensor.file_range().get();
    if (from && from->fd >= 0) {
      if (absl::Status s = copy_range(*from, fd, c.place.offset, name, cancel); !s.ok()) return s;
      continue;
    }
    if (::lseek(fd, static_cast<off_t>(c.place.offset), SEEK_SET) < 0)
      return absl::UnavailableError(fmt::format("{}: {}", name, std::strerror(errno)));
    for (std::span<const std::byte> rest = c.tensor.bytes(); !rest.empty();) {
      if (cancel && *cancel) return absl::CancelledError(name + ": interrupted");
      const auto part = rest.first(std::min<std::size_t>(rest.size(), kCopyStep));
      const std::string_view bytes(reinterpret_cast<const char*>(part.data()), part.size());
      if (absl::Status s = write_fully(fd, bytes, name); !s.ok()) return s;
      rest = rest.subspan(part.size());
    }
  }
  return absl::OkStatus();
}

}  // namespace saturate
