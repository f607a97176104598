#include "onnx_bridge/file/data_file.h"

#include <sys/stat.h>

#include "fmt/format.h"

namespace saturate {

std::string no_data_file(const std::string& path, std::uint64_t most) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return "";
  if (!S_ISREG(info.st_mode)) return "it is no regular file; name a file, no device, pipe or folder";
  if (static_cast<std::uint64_t>(info.st_size) > most)
    return fmt::format("it has {} bytes, and {} are read at most; name a smaller file", info.st_size, most);
  return "";
}

}  // namespace saturate
