#include "onnx_bridge/file/output_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fmt/format.h"

namespace saturate {

std::string path_in(const std::string& folder, const std::string& name) { return folder == "/" ? "/" + name : folder + "/" + name; }

namespace {

constexpr int kMostLinks = 40;

absl::Status unwritable(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(fmt::format("{}: cannot write: {}", path, why));
}

std::string folder_part(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string name_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }  // npos + 1 == 0

// Without links and dots; what is not there stays as written.
std::string real_folder(const std::string& folder) {
  char* real = ::realpath(folder.c_str(), nullptr);
  const std::string out = real ? real : folder;
  std::free(real);
  return out;
}

bool in_system_folder(const std::string& path) {
  const std::string whole = path_in(real_folder(folder_part(path)), name_part(path));
  if (whole.starts_with("/dev/shm/")) return false;
  return whole.starts_with("/dev/") || whole.starts_with("/proc/") || whole.starts_with("/sys/");
}

std::optional<std::string> link_target(const std::string& path) {
  char text[PATH_MAX];
  const ssize_t n = ::readlink(path.c_str(), text, sizeof text);
  if (n < 0) return std::nullopt;
  const std::string to(text, static_cast<std::size_t>(n));
  return to.starts_with('/') ? to : path_in(folder_part(path), to);
}

}  // namespace

absl::StatusOr<Destination> destination_of(const std::string& given) {
  if (given.empty() || given.ends_with('/')) return unwritable(given, "this is a folder; name a file");
  std::string path = given;
  for (int links = 0;; ++links) {
    if (in_system_folder(path)) return unwritable(given, fmt::format("{} belongs to the system; name a file in another folder", path));
    const auto to = link_target(path);
    if (!to) break;
    if (links == kMostLinks) return unwritable(given, "its symbolic links go in a circle");
    path = *to;
  }
  Destination out{path, folder_part(path), name_part(path), std::nullopt};
  if (out.name.size() > kLongestName)
    return unwritable(given, fmt::format("the name has {} bytes, files have at most {}", out.name.size(), kLongestName));
  struct stat now {};
  if (::stat(path.c_str(), &now) == 0) {
    if (S_ISDIR(now.st_mode)) return unwritable(given, "this is a folder; name a file");
    if (!S_ISREG(now.st_mode)) return unwritable(given, "this is no regular file, but a device, a pipe or a socket; name a file");
    if (::access(path.c_str(), W_OK) != 0)
      return unwritable(given, fmt::format("{}; change its rights or name another", std::strerror(errno)));
    out.old = now;
  }
  if (::stat(out.folder.c_str(), &now) == 0 && !S_ISDIR(now.st_mode))
    return unwritable(given, fmt::format("{} is a file; name a folder that is there", out.folder));
  if (::access(out.folder.c_str(), W_OK | X_OK) != 0)
    return unwritable(given, fmt::format("{}; check the folder and its rights", std::strerror(errno)));
  return out;
}

bool is_stream(const std::string& path) {
  struct stat now {};
  const bool special = ::stat(path.c_str(), &now) == 0 && !S_ISREG(now.st_mode) && !S_ISDIR(now.st_mode);
  return special || (in_system_folder(path) && !(::stat(path.c_str(), &now) == 0 && S_ISDIR(now.st_mode)));
}

bool same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

bool same_place(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  struct stat x {
  }, y{};
  const bool has_a = ::stat(a.c_str(), &x) == 0, has_b = ::stat(b.c_str(), &y) == 0;
  if (has_a && has_b) return same_file(x, y);
  if (has_a != has_b) return false;
  return path_in(real_folder(folder_part(a)), name_part(a)) == path_in(real_folder(folder_part(b)), name_part(b));
}

absl::Status write_fully(int fd, std::string_view bytes, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), 8u << 20));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return absl::UnavailableError(fmt::format("{}: cannot write: {}", name, std::strerror(n == 0 ? EIO : errno)));
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return absl::OkStatus();
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

absl::Status OutputFile::failed(const std::string& name) const {
  return absl::UnavailableError(fmt::format("{}: cannot write: {}", name, std::strerror(errno)));
}

namespace {

constexpr std::string_view kTemporary = ".saturate.", kTemporaryEnd = ".tmp";

// The process in the name of a temporary file; 0: it is none.
pid_t writer_of(std::string_view name) {
  if (!name.starts_with(kTemporary) || !name.ends_with(kTemporaryEnd) || name.size() <= kTemporary.size() + kTemporaryEnd.size()) return 0;
  name = name.substr(kTemporary.size(), name.size() - kTemporary.size() - kTemporaryEnd.size());
  pid_t pid = 0;
  unsigned number = 0;
  const char* const end = name.data() + name.size();
  const auto [dash, bad_pid] = std::from_chars(name.data(), end, pid);
  if (bad_pid != std::errc() || dash == end || *dash != '-') return 0;
  const auto [last, bad_number] = std::from_chars(dash + 1, end, number);
  return bad_number == std::errc() && last == end && pid > 0 ? pid : 0;
}

void remove_leftover(int folder, const char* name) {
  const int fd = ::openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return;
  struct stat now {};
  const bool ours = ::fstat(fd, &now) == 0 && S_ISREG(now.st_mode) && now.st_uid == ::geteuid();
  if (ours && ::flock(fd, LOCK_EX | LOCK_NB) == 0) ::unlinkat(folder, name, 0);
  ::close(fd);
}

}  // namespace

void remove_leftovers(const std::string& folder) {
  DIR* const entries = ::opendir(folder.c_str());
  if (entries == nullptr) return;
  while (const dirent* entry = ::readdir(entries)) {
    const pid_t writer = writer_of(entry->d_name);
    if (writer != 0 && ::kill(writer, 0) != 0 && errno == ESRCH) remove_leftover(::dirfd(entries), entry->d_name);
  }
  ::closedir(entries);
}

// Short, so that every name that fits into the folder can be written.
std::string OutputFile::unused_name() const {
  static std::atomic<unsigned> counter{0};
  return path_in(folder_, fmt::format("{}{}-{}{}", kTemporary, ::getpid(), counter++, kTemporaryEnd));
}

absl::Status OutputFile::open(const Destination& to, const struct stat* like) {
  folder_ = to.folder;
  name_for_errors_ = to.path;
  remove_leftovers(folder_);
  fd_ = ::open(folder_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  source_ = fmt::format("/proc/self/fd/{}", fd_);
  if (fd_ >= 0 && ::access(source_.c_str(), F_OK) != 0) {
    ::close(fd_);
    fd_ = -1;
  }
  for (int attempt = 0; fd_ < 0 && attempt < 100; ++attempt) {
    const std::string name = unused_name();
    fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ >= 0)
      source_ = temporary_ = name;
    else if (errno != EEXIST)
      break;
  }
  if (fd_ < 0) return failed(name_for_errors_);
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) errno = 0;  // says that somebody is at it, where the file system can
  if (like != nullptr) {
    if ((like->st_uid != ::geteuid() || like->st_gid != ::getegid()) && ::fchown(fd_, like->st_uid, like->st_gid) != 0) errno = 0;
    if (::fchmod(fd_, like->st_mode & 0777) != 0) return failed(name_for_errors_);
  }
  return absl::OkStatus();
}

absl::Status OutputFile::sync() const {
  if (::fsync(fd_) != 0 && errno != EINVAL && errno != EROFS && errno != ENOSYS) return failed(name_for_errors_);
  return absl::OkStatus();
}

bool OutputFile::link_as(const std::string& path) const {
  return ::linkat(AT_FDCWD, source_.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

absl::Status OutputFile::put(const std::string& name, bool replace) {
  const std::string path = path_in(folder_, name);
  if (replace && temporary_.empty()) {
    std::string other = unused_name();
    while (!link_as(other)) {
      if (errno != EEXIST) return failed(path);
      other = unused_name();
    }
    if (::rename(other.c_str(), path.c_str()) != 0) {
      const absl::Status status = failed(path);
      ::unlink(other.c_str());
      return status;
    }
  } else if (replace) {
    if (::rename(temporary_.c_str(), path.c_str()) != 0) return failed(path);
    temporary_.clear();
  } else if (link_as(path)) {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    temporary_.clear();
  } else if (errno == EEXIST) {
    return absl::AlreadyExistsError(path);
  } else {  // a file system without links
    if (temporary_.empty() || ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) != 0)
      return errno == EEXIST ? absl::AlreadyExistsError(path) : failed(path);
    temporary_.clear();
  }
  if (!source_.starts_with("/proc/self/fd/")) source_ = path;
  return absl::OkStatus();
}

namespace {

constexpr const char* kSignature = "user.saturate";

// Of the file as it is: whoever writes into it changes that.
std::string signature_of(const struct stat& file) {
  return fmt::format("{} {}.{:09}", file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
}

}  // namespace

void OutputFile::sign() const {
  struct stat now {};
  if (::fstat(fd_, &now) != 0) return;
  const std::string text = signature_of(now);
  if (::fsetxattr(fd_, kSignature, text.data(), text.size(), 0) != 0) errno = 0;
}

bool is_signed(const std::string& path) {
  struct stat now {};
  char text[64];
  const ssize_t n = ::getxattr(path.c_str(), kSignature, text, sizeof text);
  return n > 0 && ::stat(path.c_str(), &now) == 0 && std::string_view(text, static_cast<std::size_t>(n)) == signature_of(now);
}

void sync_folder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

FolderLock::FolderLock(const std::string& folder) : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  held_ = fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace saturate
