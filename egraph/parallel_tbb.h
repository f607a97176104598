// The only place that uses TBB. Its inlined code stands in one translation unit, which is built without ThreadSanitizer and says itself what
// TBB guarantees: the library is not instrumented, so every hand-over of a task would look like a race.
#pragma once

#include <cstddef>

namespace saturate {

// Calls body(context) `workers` times, on different threads where they are free; returns when all have returned. What was written before is seen
// by the bodies, and what they write is seen afterwards.
void run_on_threads(std::size_t workers, void (*body)(void*), void* context);

}  // namespace saturate
