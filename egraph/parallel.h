// Work on several threads (TBB), for phases that only read the e-graph or write to places of their own.
#pragma once

#include <cstddef>
#include <functional>

namespace saturate {

// Calls body(i, worker) for each i < n once, in any order, on at most `threads` threads; what one `worker` < threads does is done one after the
// other. With one thread: here, in order.
void parallel_for(int threads, std::size_t n, const std::function<void(std::size_t, std::size_t)>& body);

// The number of threads that is meant by `threads`: 0 is as many as TBB gives.
int thread_count(int threads);

}  // namespace saturate
