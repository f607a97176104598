// The program's operator new and delete: blocks of up to 512 bytes lie in lists by size, one set of lists a thread. An e-graph's facts,
// rules and messages are such blocks by the hundred thousand. The C library takes some eighty instructions to give one and take it back,
// this takes twenty. For the file with main() alone: a library leaves its program's allocator in place.
#pragma once

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>

#include "egraph/reserved_array.h"

namespace saturate::small_blocks {

inline constexpr std::size_t kStep = 16, kClasses = 33;  // class c: blocks of 16 c bytes
inline constexpr std::size_t kSpan = 1 << 16;            // bytes that are cut into blocks of one class
inline constexpr std::size_t kReserved = std::size_t{4} << 30;

struct Block {
  Block* next;
};
// What a thread that has ended leaves of one class, in its first sixteen bytes: a list of blocks, or what it had not cut yet.
struct LeftList {
  Block* next;
  LeftList* next_list;
};
struct LeftSpan {
  char* end;
  LeftSpan* next_span;
};

// Addresses of all small blocks; of the operating system's memory only what was touched. Empty where it gives none.
struct Range {
  std::atomic<std::uintptr_t> base = 0, size = 0;
  std::size_t used = 0;
  std::uint8_t class_of_span[kReserved / kSpan] = {};
  LeftList* left_lists[kClasses] = {};
  LeftSpan* left_spans[kClasses] = {};
  bool asked = false;
  std::mutex mutex;
};
inline constinit Range range;

struct Lists {
  Block* free[kClasses];
  char *fresh[kClasses], *end[kClasses];  // of the span that is being cut
  bool has_leaver;
};
inline constinit thread_local Lists lists = {};

// Hands a thread's blocks on when it ends.
struct Leaver {
  ~Leaver() {
    const std::lock_guard lock(range.mutex);
    for (std::size_t c = 0; c < kClasses; ++c) {
      if (lists.fresh[c] != lists.end[c]) range.left_spans[c] = ::new (lists.fresh[c]) LeftSpan{lists.end[c], range.left_spans[c]};
      lists.fresh[c] = lists.end[c];
      if (Block* const first = lists.free[c]) {
        Block* const second = first->next;
        range.left_lists[c] = ::new (static_cast<void*>(first)) LeftList{second, range.left_lists[c]};
        lists.free[c] = nullptr;
      }
    }
  }
};
inline void leave_blocks_at_end() {
  if (lists.has_leaver) return;
  lists.has_leaver = true;
  [[maybe_unused]] static thread_local Leaver leaver;
}

// An eighth of what a limit on the process's addresses or memory leaves: others need the rest.
inline std::size_t reserved() { return std::min({kReserved, soft_limit(RLIMIT_AS) / 8, soft_limit(RLIMIT_DATA) / 8}) / kSpan * kSpan; }

// Another span for class c, or what threads left behind. False: there is none.
inline bool find_more(std::size_t c) {
  leave_blocks_at_end();
  const std::lock_guard lock(range.mutex);
  if (LeftList* const left = range.left_lists[c]) {
    range.left_lists[c] = left->next_list;
    Block* const second = left->next;
    lists.free[c] = ::new (static_cast<void*>(left)) Block{second};
    return true;
  }
  if (LeftSpan* const left = range.left_spans[c]) {
    range.left_spans[c] = left->next_span;
    lists.end[c] = left->end;
    lists.fresh[c] = reinterpret_cast<char*>(left);
    return true;
  }
  if (!range.asked) {
    range.asked = true;
    const std::size_t bytes = reserved();
    if (bytes == 0) return false;
    void* const got = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) return false;
    range.base.store(reinterpret_cast<std::uintptr_t>(got), std::memory_order_relaxed);
    range.size.store(bytes, std::memory_order_release);
  }
  if (range.used == range.size.load(std::memory_order_relaxed)) return false;
  lists.fresh[c] = reinterpret_cast<char*>(range.base.load(std::memory_order_relaxed)) + range.used;
  lists.end[c] = lists.fresh[c] + kSpan / (c * kStep) * (c * kStep);
  range.class_of_span[range.used / kSpan] = static_cast<std::uint8_t>(c);
#ifdef MADV_POPULATE_WRITE  // all pages of the span at once: a fault for each takes longer than to fill them
  madvise(lists.fresh[c], kSpan, MADV_POPULATE_WRITE);
#endif
  range.used += kSpan;
  return true;
}

// What no list has.
[[gnu::noinline]] inline void* large(std::size_t bytes) {
  for (;;) {
    if (void* const got = std::malloc(bytes)) return got;
    const auto handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}
[[gnu::noinline]] inline void* slow(std::size_t c) {
  if (lists.fresh[c] == lists.end[c] && !find_more(c)) return large(c * kStep);
  if (Block* const block = lists.free[c]) {
    lists.free[c] = block->next;
    return block;
  }
  char* const block = lists.fresh[c];
  lists.fresh[c] += c * kStep;
  return block;
}

}  // namespace saturate::small_blocks

void* operator new(std::size_t bytes) {
  namespace blocks = saturate::small_blocks;
  if (bytes > (blocks::kClasses - 1) * blocks::kStep) return blocks::large(bytes);
  const std::size_t c = (bytes + blocks::kStep - 1 + (bytes == 0)) / blocks::kStep;
  blocks::Block* const block = blocks::lists.free[c];
  if (block == nullptr) return blocks::slow(c);
  blocks::lists.free[c] = block->next;
  return block;
}

void operator delete(void* p) noexcept {
  namespace blocks = saturate::small_blocks;
  const std::uintptr_t size = blocks::range.size.load(std::memory_order_acquire);
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(p) - blocks::range.base.load(std::memory_order_relaxed);
  if (at >= size) return std::free(p);
  const std::size_t c = blocks::range.class_of_span[at / blocks::kSpan];
  blocks::lists.free[c] = ::new (p) blocks::Block{blocks::lists.free[c]};
}
void operator delete(void* p, std::size_t) noexcept { operator delete(p); }

#endif
