#include "onnx_bridge/file/mapped_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace saturate {
namespace {

// A signal handler can neither take a lock nor an argument: hence plain memory, which is written before `begin` is.
struct Mapping {
  std::atomic<std::uintptr_t> begin = 0;
  std::uintptr_t end = 0;
  std::array<char, 512> path{};
  int file = -1;
};
constexpr std::uintptr_t kPageBytes = 4096;
constexpr std::size_t kMostMappings = 256;  // of more, the rest is not told

struct Mappings {
  std::mutex mutex;
  std::array<Mapping, kMostMappings> all;
};
Mappings& mappings() {
  static Mappings here;
  return here;
}

}  // namespace

void note_mapping(const void* begin, std::size_t size, const std::string& path, int file) {
  const std::lock_guard lock(mappings().mutex);
  for (Mapping& m : mappings().all) {
    if (m.begin != 0) continue;
    const std::size_t n = std::min(path.size(), m.path.size() - 1);
    for (std::size_t i = 0; i < n; ++i) m.path[i] = static_cast<unsigned char>(path[i]) < 0x20 || path[i] == 0x7f ? '?' : path[i];
    m.path[n] = 0;
    m.file = ::fcntl(file, F_DUPFD_CLOEXEC, 3);
    m.end = reinterpret_cast<std::uintptr_t>(begin) + size;
    m.begin = reinterpret_cast<std::uintptr_t>(begin);
    return;
  }
}

void forget_mapping(const void* begin) {
  const std::lock_guard lock(mappings().mutex);
  for (Mapping& m : mappings().all)
    if (m.begin == reinterpret_cast<std::uintptr_t>(begin)) {
      m.begin = 0;
      if (m.file >= 0) ::close(m.file);
    }
}

const char* mapped_path(const void* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  for (const Mapping& m : mappings().all) {
    const std::uintptr_t begin = m.begin, end = (m.end + kPageBytes - 1) / kPageBytes * kPageBytes;
    if (begin != 0 && address >= begin && address < end) return m.path.data();
  }
  return nullptr;
}

FilePlace mapped_place(const void* at) {
  const std::lock_guard lock(mappings().mutex);
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  for (const Mapping& m : mappings().all)
    if (m.begin != 0 && address >= m.begin && address < m.end) return {m.file, address - m.begin};
  return {};
}

}  // namespace saturate
