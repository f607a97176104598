// What TBB orders, told to ThreadSanitizer, which can't see into the library: it isn't compiled with it. Nothing in other builds.
// Source: the contract of tsan_interface.h; oneAPI Threading Building Blocks Specification, "parallel_for": a call returns when all is
// done.
#pragma once

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace saturate {

// What this thread did before `told(address)` is seen by a thread after `seen(address)`.
inline void told([[maybe_unused]] void* address) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(address);
#endif
}
inline void seen([[maybe_unused]] void* address) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(address);
#endif
}

}  // namespace saturate
