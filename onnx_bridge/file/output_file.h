// Files that appear whole or not at all: written where nobody sees them, then named in one step.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace saturate {

// Where the bytes for a path go: symbolic links are followed once, so that a link stays and the file behind it is replaced.
struct Destination {
  std::string path, folder, name;  // path is folder/name
  std::optional<struct stat> old;  // what is there now, a regular file
};
// Refused, with the reason: folders, devices and other special files, names too long for a file, files and folders without the right to
// write. Refused as well is everything in /dev (but /dev/shm), /proc and /sys.
absl::StatusOr<Destination> destination_of(const std::string& path);
// A device, a pipe or a descriptor (/dev/stdout): bytes can be sent there, but no file can take its place.
bool is_stream(const std::string& path);

inline constexpr std::size_t kLongestName = 255;  // bytes of a file's name
// `name` in a folder, `/` included.
std::string path_in(const std::string& folder, const std::string& name);

bool same_file(const struct stat& a, const struct stat& b);
// Whether two paths lead to one file, which need not be there yet.
bool same_place(const std::string& a, const std::string& b);

// Writes all of it; errors begin with `name`.
absl::Status write_fully(int fd, std::string_view bytes, const std::string& name);

// Takes the mode (and, as far as allowed, the owner) of the file that it is to replace. A file that was never named vanishes with the
// process, however that ends, where the file system has nameless files; elsewhere it has a name of its own until then.
class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  // `like`: whose mode it gets; null: what umask says.
  // What a process that was killed has left in the folder is removed.
  absl::Status open(const Destination& to, const struct stat* like);
  int fd() const { return fd_; }
  // A path that leads to it while it is open.
  const std::string& source() const { return source_; }
  // Onto the disk: after that a power cut can't take it.
  absl::Status sync() const;
  // Notes beside the bytes, where the file system can, that saturate wrote them; once nothing more is written.
  void sign() const;
  // Makes it `folder/name`. kAlreadyExists where the name is taken and is not to be replaced.
  absl::Status put(const std::string& name, bool replace);

 private:
  absl::Status failed(const std::string& name) const;
  bool link_as(const std::string& path) const;
  std::string unused_name() const;

  std::string folder_, name_for_errors_;
  std::string source_;
  std::string temporary_;  // its own name, where it is neither nameless nor put yet
  int fd_ = -1;
};

// Removes files of saturate's from a folder that never got their name, since the process that wrote them is dead. Nothing else: a file that
// is no regular one, another user's, or locked (a process of another container has it open) stays.
void remove_leftovers(const std::string& folder);

// Whether the file is one that was signed, and has not been written to since.
bool is_signed(const std::string& path);

// Names that were given or taken away in a folder, onto the disk.
void sync_folder(const std::string& folder);

// One program at a time: held from a successful take() on.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();
  bool held() const { return held_; }

 private:
  int fd_ = -1;
  bool held_ = false;
};

}  // namespace saturate
