#include "kernels/runtime_buffer.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace saturate {
namespace {

std::size_t physical_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : ~std::size_t{0};
}

}  // namespace

BufferPool::~BufferPool() {
  for (auto& [bytes, data] : free_) std::free(data);
}

std::shared_ptr<std::byte> BufferPool::get(std::size_t bytes) {
  // More than the machine has would be granted by an overcommitting kernel and end in its out-of-memory killer.
  if (bytes > physical_memory()) return nullptr;
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + 63) / 64 * 64;
  if (!keep_) {
    auto* data = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
    return data == nullptr ? nullptr : std::shared_ptr<std::byte>(data, [](std::byte* p) { std::free(p); });
  }
  std::byte* data = nullptr;
  std::size_t capacity = rounded;
  {
    std::lock_guard lock(mutex_);
    const auto it = free_.lower_bound(rounded);
    if (it != free_.end() && it->first <= rounded + rounded / 4) {
      capacity = it->first;
      data = it->second;
      free_.erase(it);
    }
  }
  if (data == nullptr) data = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
  if (data == nullptr) return nullptr;
  return {data, [pool = weak_from_this(), capacity](std::byte* p) {
            if (const std::shared_ptr<BufferPool> alive = pool.lock()) {
              alive->give_back(p, capacity);
            } else {
              std::free(p);
            }
          }};
}

void BufferPool::give_back(std::byte* data, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  free_.emplace_hint(free_.lower_bound(bytes), bytes, data);  // first of its size: the last one freed is the likeliest in the cache
}

}  // namespace saturate
