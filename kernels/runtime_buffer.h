// Buffers of tensors, kept for reuse when the last tensor that uses them goes.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace saturate {

class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  // `keep`: freed buffers are kept for the next request of about their size.
  explicit BufferPool(bool keep) : keep_(keep) {}
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  // 64-byte aligned, not initialized; null where the machine has no such memory.
  std::shared_ptr<std::byte> get(std::size_t bytes);

 private:
  void give_back(std::byte* data, std::size_t bytes);
  bool keep_;
  std::mutex mutex_;
  std::multimap<std::size_t, std::byte*> free_;
};

}  // namespace saturate
