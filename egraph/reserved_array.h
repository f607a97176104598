// A growing array of plain values in reserved address space: growth neither copies nor moves until the reserve is used up (2^28 values;
// much less where the process may not have as many addresses as it likes), large ones ask for huge pages. Small ones cost the pages that
// they touch.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace saturate {

// What the process may have of this (RLIMIT_AS: addresses); ~0 where there is no limit.
std::size_t soft_limit(decltype(RLIMIT_AS) resource);

// Where a limit is set on the addresses or the memory of the process, all reserved arrays together reserve a quarter of it, besides what
// they need.
class AddressSpace {
 public:
  AddressSpace();
  // What the next arena may reserve.
  std::size_t share() const {
    if (limit_ == kNone) return kNone;
    const std::size_t taken = taken_.load(std::memory_order_relaxed), most = limit_ / 4;
    return taken < most ? std::min(limit_ / 64, (most - taken) / 4) : 0;
  }
  void take(std::size_t bytes) { taken_.fetch_add(bytes, std::memory_order_relaxed); }
  void give_back(std::size_t bytes) { taken_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t limit_ = kNone;
  std::atomic<std::size_t> taken_ = 0;
};
AddressSpace& address_space();

template <class T>
class ReservedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  ReservedArray() = default;
  ReservedArray(const ReservedArray&) = delete;
  ReservedArray& operator=(const ReservedArray&) = delete;
  ReservedArray(ReservedArray&& other) noexcept { swap(other); }
  ReservedArray& operator=(ReservedArray&& other) noexcept {
    swap(other);
    return *this;
  }
  ~ReservedArray() { release(); }

  // n zeros; pages that nobody looks at cost nothing.
  static ReservedArray zeros(std::size_t n) {
    ReservedArray arena;
    arena.huge_ = true;  // not: few pages are looked at
    arena.resize(n);
    return arena;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

  void push_back(T value) {
    if (size_ == ready_) grow(size_ + 1);
    data_[size_++] = value;
  }
  // Room for `more` append()s, which don't look.
  void ensure(std::size_t more) {
    if (size_ + more > ready_) grow(size_ + more);
  }
  void append(T value) { data_[size_++] = value; }
  // The bytes of the next `more` values, after ensure(): what lies behind the end may be written to, and will be lost.
  std::span<std::byte> behind(std::size_t more) { return std::as_writable_bytes(std::span(data_ + size_, more)); }
  // New values are indeterminate.
  void resize(std::size_t n) {
    if (n > ready_) grow(n);
    highest_ = std::max(highest_, size_);
    size_ = n;
  }
  void assign(std::size_t n, T value) {
    resize(n);
    std::fill_n(data_, n, value);
  }
  void clear() { resize(0); }
  void release() {
    if (data_ != nullptr) munmap(data_, capacity_ * sizeof(T));
    address_space().give_back(capacity_ * sizeof(T));
    data_ = nullptr;
    size_ = capacity_ = ready_ = highest_ = 0;
    huge_ = false;
  }
  void swap(ReservedArray& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(ready_, other.ready_);
    std::swap(highest_, other.highest_);
    std::swap(huge_, other.huge_);
  }
  // Bytes touched so far.
  std::size_t bytes() const { return std::max(size_, highest_) * sizeof(T); }

 private:
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;

  void grow(std::size_t n) {
    if (n > capacity_) reserve(n);
    // `ready_` trails the size in steps, so that the checks for huge pages run rarely.
    ready_ = std::min(capacity_, std::max(n + n / 8, n + 1024));
    const std::size_t bytes = ready_ * sizeof(T);
    if (!huge_ && bytes > 2 * kHugePage) {
      const auto address = reinterpret_cast<std::uintptr_t>(data_);
      const std::uintptr_t start = (address + size_ * sizeof(T) + kHugePage - 1) / kHugePage * kHugePage;
      const std::uintptr_t stop = address + capacity_ * sizeof(T);
      if (start < stop) madvise(reinterpret_cast<void*>(start), stop - start, MADV_HUGEPAGE);
      huge_ = true;
    }
  }

  static void* mapped(std::size_t n) {
    return mmap(nullptr, n * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }

  // What lies partly in huge pages is several mappings to the system, which it does not move as one.
  void* moved(std::size_t n) {
    void* p = mremap(data_, capacity_ * sizeof(T), n * sizeof(T), MREMAP_MAYMOVE);
    if (p != MAP_FAILED || (p = mapped(n)) == MAP_FAILED) return p;
    std::memcpy(p, data_, size_ * sizeof(T));
    munmap(data_, capacity_ * sizeof(T));
    huge_ = false;
    return p;
  }

  void reserve(std::size_t n) {
    const std::size_t most = std::max<std::size_t>(address_space().share() / sizeof(T), 1024);
    for (std::size_t want = std::max(std::min(std::size_t{1} << 28, most), 2 * n);; want = std::max(n, want / 4)) {
      void* p = data_ == nullptr ? mapped(want) : moved(want);
      if (p != MAP_FAILED) {
        address_space().take((want - capacity_) * sizeof(T));
        data_ = static_cast<T*>(p);
        capacity_ = want;
        return;
      }
      if (want == n) throw std::bad_alloc();
    }
  }

  T* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0, ready_ = 0, highest_ = 0;
  bool huge_ = false;
};

}  // namespace saturate
