// Which files are mapped where: asked by a signal handler, where one of them has been cut while it was read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace saturate {

// The whole of the open file `file` is mapped from `begin` on.
void note_mapping(const void* begin, std::size_t size, const std::string& path, int file);
void forget_mapping(const void* begin);
// The path of the file that `at` lies in, null if none is known. May be called from a signal handler.
const char* mapped_path(const void* at);

// The file itself, whatever its path names by now. It is open as long as it is mapped.
struct FilePlace {
  int file = -1;  // -1: none is known
  std::uint64_t offset = 0;
};
FilePlace mapped_place(const void* at);

}  // namespace saturate
