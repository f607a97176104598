#include "onnx_bridge/model/bytes.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace saturate {
namespace {

constexpr std::size_t kOwnPages = std::size_t{1} << 20;

}  // namespace

std::size_t whole_lines(std::size_t bytes) { return (std::max<std::size_t>(bytes, 1) + 63) / 64 * 64; }

std::byte* take_bytes(std::size_t bytes, bool zeros) {
  if (bytes >= kOwnPages) {
    void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? nullptr : static_cast<std::byte*>(pages);
  }
  void* data = std::aligned_alloc(64, whole_lines(bytes));
  if (data && zeros) std::memset(data, 0, bytes);
  return static_cast<std::byte*>(data);
}

void give_bytes(std::byte* data, std::size_t bytes) {
  if (bytes >= kOwnPages)
    ::munmap(data, bytes);
  else
    std::free(data);
}

}  // namespace saturate
