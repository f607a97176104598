#include "onnx_bridge/file/data/scratch_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "onnx_bridge/file/output_file.h"

namespace saturate {

struct ScratchFile::File {
  OutputFile written;
  int fd = -1;       // for reading
  std::string path;  // another for each file that is open
  File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd >= 0) ::close(fd);
  }
};

namespace {

absl::Status failed(const std::string& beside, std::string_view what) {
  return absl::UnavailableError(fmt::format("{}: cannot {} a scratch file beside it: {}", beside, what, std::strerror(errno)));
}

}  // namespace

absl::Status ScratchFile::open() {
  auto file = std::make_shared<File>();
  const auto to = destination_of(beside_);
  if (!to.ok()) return to.status();
  if (absl::Status s = file->written.open(*to, nullptr); !s.ok()) return s;
  file->fd = ::open(file->written.source().c_str(), O_RDONLY | O_CLOEXEC);
  if (file->fd < 0) return failed(beside_, "read");
  file->path = fmt::format("/proc/self/fd/{}", file->fd);
  file_ = std::move(file);
  return absl::OkStatus();
}

absl::Status ScratchFile::append(std::span<const std::byte> part) {
  if (!file_)
    if (absl::Status s = open(); !s.ok()) return s;
  if (::lseek(file_->written.fd(), static_cast<off_t>(end_), SEEK_SET) < 0) return failed(beside_, "write");
  const std::string_view bytes(reinterpret_cast<const char*>(part.data()), part.size());
  if (absl::Status s = write_fully(file_->written.fd(), bytes, beside_); !s.ok()) return s;
  end_ += part.size();
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ScratchFile::tensor(DType dtype, Shape dims, bool external) {
  const std::uint64_t begin = begin_, length = end_ - begin_;
  assert(file_ && length > 0 && length == checked_bytes(dtype, dims).value_or(0) && "all bytes of a tensor are to be appended");
  void* const base = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, file_->fd, static_cast<off_t>(begin));
  if (base == MAP_FAILED) return failed(beside_, "map");
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  begin_ = end_ = (end_ + page - 1) / page * page;
  const std::shared_ptr<const void> owner(base, [length, file = file_](const void* p) { ::munmap(const_cast<void*>(p), length); });
  Tensor made(dtype, std::move(dims), owner, {static_cast<const std::byte*>(base), length});
  made.set_mapped(true);
  if (external) made.set_file_range(std::make_shared<FileRange>(FileRange{file_->path, begin, length, file_->fd, file_}));
  return made;
}

}  // namespace saturate
