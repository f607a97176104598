// What is made by the first who asks for it, from any thread.
#pragma once

#include <atomic>
#include <mutex>

namespace saturate {

// As std::call_once, of which glibc ends the process where the maker throws and no memory is left to load what unwinds through C.
class Once {
 public:
  // Who throws has made nothing; the next one to ask makes it.
  template <typename Make>
  void call(Make&& make) {
    if (done_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(making_);
    if (done_.load(std::memory_order_relaxed)) return;
    make();
    done_.store(true, std::memory_order_release);
  }

 private:
  std::atomic<bool> done_ = false;
  std::mutex making_;
};

}  // namespace saturate
