// The only place that uses TBB. Its inlined code stands in one translation unit, which is built without ThreadSanitizer: the library
// itself is not instrumented, so every hand-over of a task would look like a race.
#pragma once

#include <cstddef>
#include <functional>

namespace saturate {

// Calls `body` up to `workers` times, on different threads where they are free; returns when all have returned.
void run_on_threads(std::size_t workers, const std::function<void()>& body);

}  // namespace saturate
