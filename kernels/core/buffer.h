// Memory of the tensors that runs of a session make.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace saturate {

// A range of addresses whose parts are handed out and taken back; memory is asked of the system only where the range grows. Thread-safe.
class Arena {
 public:
  Arena();  // reserves addresses, no memory
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  // The offset of that many bytes (a multiple of 64) in the smallest gap that holds them; nullopt where the range ends.
  std::optional<std::size_t> take(std::size_t bytes);
  bool take_at(std::size_t offset, std::size_t bytes);  // false where some of it is taken
  void give_back(std::size_t offset, std::size_t bytes);
  // Gives the system back what lies free from `offset` on; nothing there is asked for again soon.
  void trim(std::size_t offset);
  std::byte* at(std::size_t offset) const { return base_ + offset; }
  bool holds(const std::byte* data) const { return data >= base_ && data < base_ + reserved_; }
  std::size_t most_used() const;  // the end of what was ever taken
  std::size_t growths() const;

 private:
  struct Gap {
    std::size_t offset, size;
  };
  bool grow(std::size_t end);
  void remove(std::size_t gap, std::size_t offset, std::size_t bytes);
  mutable std::mutex mutex_;
  std::byte* base_ = nullptr;
  std::size_t reserved_ = 0, usable_ = 0, end_ = 0, growths_ = 0;
  std::vector<Gap> gaps_;  // below end_, in order, never adjacent
};

// Which buffers a run asked for, one after another, and when each was free again.
class MemoryTrace {
 public:
  struct Buffer {
    std::size_t bytes = 0;
    std::int64_t begin = 0, end = 0;  // counted in requests and returns
  };
  std::size_t asked(std::size_t bytes);  // a number to tell returned() by
  void returned(std::size_t buffer);
  std::vector<Buffer> buffers() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Buffer> buffers_;
  std::int64_t clock_ = 0;
};

// Places for the buffers of a run whose sizes and lifetimes are known.
struct MemoryPlan {
  std::vector<std::size_t> bytes, offsets;  // by order of requests
  std::size_t size = 0;                     // of the whole
};
// Largest first, each at the lowest place that no buffer alive at the same time has. This is "greedy by size" (Pisarchyk and Lee 2020,
// "Efficient Memory Management for Deep Neural Net Inference"). Empty where there are too many.
MemoryPlan plan_memory(const std::vector<MemoryTrace::Buffer>& buffers);

class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  // Whether freed buffers are kept for further requests: those of runs, and those of what outlives runs.
  BufferPool(bool keep, bool keep_results);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  // 64-byte aligned, not initialized; null where the machine has no such memory.
  std::shared_ptr<std::byte> get(std::size_t bytes, std::shared_ptr<MemoryTrace> trace = nullptr);
  // At `offset` of the arena if that is free, else anywhere.
  std::shared_ptr<std::byte> get_at(std::size_t offset, std::size_t bytes);
  // For what outlives the run: outside of the arena.
  std::shared_ptr<std::byte> get_apart(std::size_t bytes);
  void trim(std::size_t offset);
  bool in_arena(const std::byte* data) const;
  std::size_t arena_bytes() const;      // the most that was ever in use
  std::size_t system_requests() const;  // how often memory was asked of the system

 private:
  struct ToArena;
  std::shared_ptr<std::byte> wrap(std::size_t offset, std::size_t bytes, std::shared_ptr<MemoryTrace> trace, std::size_t buffer);
  void give_back(std::byte* data, std::size_t bytes);
  std::shared_ptr<Arena> arena() const;
  bool keep_, keep_results_;
  std::shared_ptr<Arena> arena_;  // null before the first request
  mutable std::mutex mutex_;
  std::multimap<std::size_t, std::byte*> free_;  // of buffers apart
  std::size_t apart_ = 0;
};

// Counts the bytes of buffers that are alive, up to a limit. Thread-safe.
class MemoryMeter {
 public:
  explicit MemoryMeter(std::size_t limit) : limit_(limit) {}
  bool take(std::size_t bytes);  // false, and nothing taken, where the limit would be passed
  void give_back(std::size_t bytes) { used_ -= bytes; }
  std::size_t used() const { return used_; }

 private:
  std::size_t limit_;
  std::atomic<std::size_t> used_ = 0;
};

// The buffers of one run: by the plan of its sizes, or recorded for one.
class RunMemory {
 public:
  // `plan` may be null: places are found as requests come, and `trace`, where not null, is told. `meter`, where not null, bounds the sum:
  // null comes back where it is passed.
  RunMemory(BufferPool& pool, const MemoryPlan* plan, std::shared_ptr<MemoryTrace> trace, std::shared_ptr<MemoryMeter> meter = nullptr)
      : pool_(pool), plan_(plan), trace_(std::move(trace)), meter_(std::move(meter)) {}
  std::shared_ptr<std::byte> tensor(std::size_t bytes);
  std::shared_ptr<std::byte> scratch(std::size_t bytes);  // from any thread, in any order
  std::shared_ptr<std::byte> result(std::size_t bytes);   // for what outlives the run
  // Counts what lies elsewhere, such as strings, as long as what comes back lives. Null where the limit is passed.
  std::shared_ptr<const void> hold(std::size_t bytes);
  bool owns(const std::byte* data) const { return pool_.in_arena(data); }

 private:
  template <typename Get>
  std::shared_ptr<std::byte> metered(std::size_t bytes, const Get& get);
  std::shared_ptr<std::byte> planned(std::size_t bytes);
  BufferPool& pool_;
  const MemoryPlan* plan_;
  std::shared_ptr<MemoryTrace> trace_;
  std::shared_ptr<MemoryMeter> meter_;
  std::mutex mutex_;
  std::size_t next_ = 0;
};

}  // namespace saturate
