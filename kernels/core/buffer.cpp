#include "kernels/core/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>
#include <numeric>

#include "egraph/reserved_array.h"
#include "onnx_bridge/model/bytes.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace saturate {
namespace {

constexpr std::size_t kMostReserved = std::size_t{1} << 36, kStep = std::size_t{1} << 20, kPage = 4096;
constexpr std::size_t kMostPlanned = 20'000;  // buffers of one run; placing them takes the square of it

// Asked once: the question is a call into the system, and every buffer asks.
std::size_t physical_memory() {
  static const std::size_t bytes = [] {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : ~std::size_t{0};
  }();
  return bytes;
}

std::size_t rounded(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }
// An eighth more at most: one size for those that lie close together.
std::size_t with_room(std::size_t bytes) { return rounded(bytes, std::max<std::size_t>(64, std::bit_floor(bytes) / 8)); }

// What a new arena may reserve where addresses are limited (ulimit -v): half of what is left of the quarter that all arenas share, so that
// several leave room for one another and for all else.
std::atomic<std::size_t> all_reserved = 0;
std::size_t share_of_addresses() {
  const std::size_t limit = soft_limit(RLIMIT_AS);
  if (limit == ~std::size_t{0}) return limit;
  const std::size_t most = limit / 4, taken = all_reserved.load();
  return taken < most ? (most - taken) / 2 : 0;
}

// More than the machine has would be granted by an overcommitting kernel and end in its out-of-memory killer.
bool too_large(std::size_t bytes) { return bytes > physical_memory(); }

// What the sanitizer should take for an error to touch.
void forbid([[maybe_unused]] std::byte* at, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(at, bytes);
#endif
}
void allow([[maybe_unused]] std::byte* at, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(at, bytes);
#endif
}

}  // namespace

Arena::Arena() {
  // Without rights, so that addresses are all it takes where the system does not overcommit.
  for (reserved_ = std::min({rounded(physical_memory(), kStep), kMostReserved, share_of_addresses() / kStep * kStep}); reserved_ >= kStep;
       reserved_ = rounded(reserved_ / 2, kPage)) {
    void* at = ::mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED) {
      base_ = static_cast<std::byte*>(at);
      all_reserved += reserved_;
      return;
    }
  }
  reserved_ = 0;
}

Arena::~Arena() {
  if (base_ == nullptr) return;
  allow(base_, usable_);
  ::munmap(base_, reserved_);
  all_reserved -= reserved_;
}

bool Arena::grow(std::size_t end) {
  if (end <= usable_) return true;
  if (end > reserved_) return false;
  const std::size_t usable = std::min(reserved_, rounded(end, kStep));
  if (::mprotect(base_ + usable_, usable - usable_, PROT_READ | PROT_WRITE) != 0) return false;
  forbid(base_ + usable_, usable - usable_);
  usable_ = usable;
  ++growths_;
  return true;
}

// Takes the part out of the gap around it.
void Arena::remove(std::size_t gap, std::size_t offset, std::size_t bytes) {
  Gap& g = gaps_[gap];
  const Gap after{offset + bytes, g.offset + g.size - offset - bytes};
  g.size = offset - g.offset;
  if (g.size > 0 && after.size > 0)
    gaps_.insert(gaps_.begin() + static_cast<std::ptrdiff_t>(gap) + 1, after);
  else if (after.size > 0)
    g = after;
  else if (g.size == 0)
    gaps_.erase(gaps_.begin() + static_cast<std::ptrdiff_t>(gap));
}

std::optional<std::size_t> Arena::take(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  std::size_t best = gaps_.size();
  for (std::size_t i = 0; i < gaps_.size(); ++i)
    if (gaps_[i].size >= bytes && (best == gaps_.size() || gaps_[i].size < gaps_[best].size)) best = i;
  std::size_t offset = 0;
  if (best < gaps_.size()) {
    offset = gaps_[best].offset;
    remove(best, offset, bytes);
  } else {
    const bool at_end = !gaps_.empty() && gaps_.back().offset + gaps_.back().size == end_;
    offset = at_end ? gaps_.back().offset : end_;
    if (bytes > reserved_ - offset || !grow(offset + bytes)) return std::nullopt;
    if (at_end) gaps_.pop_back();
    end_ = offset + bytes;
  }
  allow(base_ + offset, bytes);
  return offset;
}

bool Arena::take_at(std::size_t offset, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes > reserved_ || offset > reserved_ - bytes) return false;
  if (offset + bytes > end_) {  // the part beyond the end becomes a gap first
    if (!grow(offset + bytes)) return false;
    const std::size_t more = offset + bytes - end_;
    if (!gaps_.empty() && gaps_.back().offset + gaps_.back().size == end_)
      gaps_.back().size += more;
    else
      gaps_.push_back({end_, more});
    end_ = offset + bytes;
  }
  const auto after = std::upper_bound(gaps_.begin(), gaps_.end(), offset, [](std::size_t at, const Gap& g) { return at < g.offset; });
  if (after == gaps_.begin()) return false;
  const Gap& g = *(after - 1);
  if (g.offset + g.size < offset + bytes) return false;
  remove(static_cast<std::size_t>(after - 1 - gaps_.begin()), offset, bytes);
  allow(base_ + offset, bytes);
  return true;
}

void Arena::give_back(std::size_t offset, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  forbid(base_ + offset, bytes);
  auto after = std::upper_bound(gaps_.begin(), gaps_.end(), offset, [](std::size_t at, const Gap& g) { return at < g.offset; });
  const bool joins_before = after != gaps_.begin() && (after - 1)->offset + (after - 1)->size == offset;
  const bool joins_after = after != gaps_.end() && offset + bytes == after->offset;
  if (joins_before && joins_after) {
    (after - 1)->size += bytes + after->size;
    gaps_.erase(after);
  } else if (joins_before) {
    (after - 1)->size += bytes;
  } else if (joins_after) {
    after->offset = offset;
    after->size += bytes;
  } else {
    gaps_.insert(after, {offset, bytes});
  }
}

void Arena::trim(std::size_t offset) {
  std::lock_guard lock(mutex_);
  for (const Gap& g : gaps_) {
    const std::size_t begin = rounded(std::max(g.offset, offset), kPage), end = (g.offset + g.size) / kPage * kPage;
    if (begin < end) ::madvise(base_ + begin, end - begin, MADV_DONTNEED);
  }
}

std::size_t Arena::most_used() const {
  std::lock_guard lock(mutex_);
  return end_;
}

std::size_t Arena::growths() const {
  std::lock_guard lock(mutex_);
  return growths_;
}

std::size_t MemoryTrace::asked(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  if (buffers_.size() > kMostPlanned) return buffers_.size();
  buffers_.push_back({bytes, clock_++, -1});
  return buffers_.size() - 1;
}

void MemoryTrace::returned(std::size_t buffer) {
  std::lock_guard lock(mutex_);
  if (buffer < buffers_.size()) buffers_[buffer].end = clock_++;
}

std::vector<MemoryTrace::Buffer> MemoryTrace::buffers() const {
  std::lock_guard lock(mutex_);
  std::vector<Buffer> out = buffers_;
  for (Buffer& b : out)
    if (b.end < 0) b.end = clock_;  // still alive
  return out;
}

MemoryPlan plan_memory(const std::vector<MemoryTrace::Buffer>& buffers) {
  MemoryPlan plan;
  if (buffers.size() > kMostPlanned) return plan;
  plan.offsets.resize(buffers.size());
  for (const MemoryTrace::Buffer& b : buffers) plan.bytes.push_back(b.bytes);
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t i : order) {
    std::size_t at = 0;
    for (const std::size_t p : placed) {
      if (buffers[p].end < buffers[i].begin || buffers[i].end < buffers[p].begin) continue;
      if (plan.offsets[p] >= at + buffers[i].bytes) break;
      at = std::max(at, plan.offsets[p] + buffers[p].bytes);
    }
    plan.offsets[i] = at;
    plan.size = std::max(plan.size, at + buffers[i].bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), i, [&](std::size_t a, std::size_t b) { return plan.offsets[a] < plan.offsets[b]; }),
        i);
  }
  return plan;
}

// The arena stays as long as a buffer of it lives, also beyond the session.
struct BufferPool::ToArena {
  std::shared_ptr<Arena> arena;
  std::size_t offset, bytes;
  std::shared_ptr<MemoryTrace> trace;
  std::size_t buffer;
  void operator()(std::byte*) const {
    if (trace != nullptr) trace->returned(buffer);
    arena->give_back(offset, bytes);
  }
};

BufferPool::BufferPool(bool keep, bool keep_results) : keep_(keep), keep_results_(keep_results) {}

BufferPool::~BufferPool() {
  for (auto& [bytes, data] : free_) give_bytes(data, bytes);
  if (arena_ != nullptr) arena_->trim(0);
}

std::shared_ptr<std::byte> BufferPool::wrap(std::size_t offset, std::size_t bytes, std::shared_ptr<MemoryTrace> trace, std::size_t buffer) {
  return {arena_->at(offset), ToArena{arena_, offset, bytes, std::move(trace), buffer}};
}

std::shared_ptr<std::byte> BufferPool::get(std::size_t bytes, std::shared_ptr<MemoryTrace> trace) {
  if (too_large(bytes)) return nullptr;
  if (!keep_) return get_apart(bytes);
  {
    std::lock_guard lock(mutex_);
    if (arena_ == nullptr) arena_ = std::make_shared<Arena>();
  }
  const std::size_t whole = whole_lines(bytes);
  const std::optional<std::size_t> offset = arena_->take(whole);  // never changed again
  if (!offset) return get_apart(bytes);
  const std::size_t buffer = trace == nullptr ? 0 : trace->asked(whole);
  return wrap(*offset, whole, std::move(trace), buffer);
}

std::shared_ptr<std::byte> BufferPool::get_at(std::size_t offset, std::size_t bytes) {
  const std::size_t whole = whole_lines(bytes);
  const std::shared_ptr<Arena> place = arena();
  if (place == nullptr || !place->take_at(offset, whole)) return get(bytes);
  return wrap(offset, whole, nullptr, 0);
}

// Results that grow from run to run, as caches do, find a buffer of theirs again, and leave none behind that they have outgrown.
std::shared_ptr<std::byte> BufferPool::get_apart(std::size_t bytes) {
  if (too_large(bytes)) return nullptr;
  std::size_t whole = keep_results_ ? with_room(whole_lines(bytes)) : whole_lines(bytes), given_up = 0;
  std::byte* data = nullptr;
  {
    std::lock_guard lock(mutex_);
    auto it = free_.lower_bound(whole);
    if (it != free_.end() && it->first <= whole + whole / 4) {
      whole = it->first;
      data = it->second;
      free_.erase(it);
    } else {
      ++apart_;
      // One a little smaller is such a result's; of much smaller ones other runs have need.
      while (it != free_.begin() && given_up < whole && std::prev(it)->first >= whole - whole / 4) {
        --it;
        given_up += it->first;
        give_bytes(it->second, it->first);
        it = free_.erase(it);
      }
    }
  }
  if (data == nullptr) data = take_bytes(whole, false);
  if (data == nullptr) return nullptr;
  if (!keep_results_) return {data, [whole](std::byte* p) { give_bytes(p, whole); }};
  return {data, [pool = weak_from_this(), whole](std::byte* p) {
            if (const std::shared_ptr<BufferPool> alive = pool.lock())
              alive->give_back(p, whole);
            else
              give_bytes(p, whole);
          }};
}

void BufferPool::give_back(std::byte* data, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  free_.emplace_hint(free_.lower_bound(bytes), bytes, data);  // first of its size: the last one freed is the likeliest in the cache
}

void BufferPool::trim(std::size_t offset) {
  if (const auto place = arena()) place->trim(offset);
}

std::shared_ptr<Arena> BufferPool::arena() const {
  std::lock_guard lock(mutex_);
  return arena_;
}

bool BufferPool::in_arena(const std::byte* data) const {
  const auto place = arena();
  return place != nullptr && place->holds(data);
}

std::size_t BufferPool::arena_bytes() const {
  const auto place = arena();
  return place == nullptr ? 0 : place->most_used();
}

std::size_t BufferPool::system_requests() const {
  std::lock_guard lock(mutex_);
  return apart_ + (arena_ == nullptr ? 0 : arena_->growths());
}

bool MemoryMeter::take(std::size_t bytes) {
  std::size_t used = used_;
  do {
    if (bytes > limit_ || used > limit_ - bytes) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return true;
}

template <typename Get>
std::shared_ptr<std::byte> RunMemory::metered(std::size_t bytes, const Get& get) {
  if (meter_ == nullptr) return get();
  if (!meter_->take(bytes)) return nullptr;
  std::shared_ptr<std::byte> data = get();
  if (data == nullptr) {
    meter_->give_back(bytes);
    return nullptr;
  }
  std::byte* const place = data.get();
  return {place, [held = std::move(data), meter = meter_, bytes](std::byte*) mutable {
            held.reset();
            meter->give_back(bytes);
          }};
}

std::shared_ptr<std::byte> RunMemory::tensor(std::size_t bytes) {
  return metered(bytes, [&] { return planned(bytes); });
}
std::shared_ptr<std::byte> RunMemory::scratch(std::size_t bytes) {
  return metered(bytes, [&] { return pool_.get(bytes); });
}
std::shared_ptr<std::byte> RunMemory::result(std::size_t bytes) {
  return metered(bytes, [&] { return pool_.get_apart(bytes); });
}

std::shared_ptr<const void> RunMemory::hold(std::size_t bytes) {
  static const auto nothing = std::make_shared<const char>();
  if (meter_ == nullptr) return nothing;
  if (!meter_->take(bytes)) return nullptr;
  return {nothing.get(), [meter = meter_, bytes](const void*) { meter->give_back(bytes); }};
}

std::shared_ptr<std::byte> RunMemory::planned(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  if (plan_ == nullptr) return pool_.get(bytes, trace_);
  // A run that asks otherwise than the one before of its sizes (its sizes depend on data, too) goes on without the plan.
  if (next_ >= plan_->bytes.size() || plan_->bytes[next_] != whole_lines(bytes)) {
    plan_ = nullptr;
    return pool_.get(bytes);
  }
  return pool_.get_at(plan_->offsets[next_++], bytes);
}

}  // namespace saturate
