#include "egraph/parallel.h"

#include <algorithm>
#include <atomic>

#include "egraph/parallel_tbb.h"

namespace saturate {

void parallel_for(int threads, std::size_t n, const std::function<void(std::size_t, std::size_t)>& body) {
  if (threads <= 1 || n <= 1) {
    for (std::size_t i = 0; i < n; ++i) body(i, 0);
    return;
  }
  // TBB orders the bodies after what came before and before what follows. ThreadSanitizer, which doesn't see into that library, learns it from
  // `workers` and `done`.
  std::atomic<std::size_t> next{0}, workers{0}, done{0};
  workers.store(0, std::memory_order_release);
  run_on_threads(std::min<std::size_t>(static_cast<std::size_t>(threads), n), [&] {
    const std::size_t worker = workers.fetch_add(1, std::memory_order_acq_rel);
    for (std::size_t i = next.fetch_add(1, std::memory_order_relaxed); i < n; i = next.fetch_add(1, std::memory_order_relaxed)) body(i, worker);
    done.fetch_add(1, std::memory_order_acq_rel);
  });
  done.load(std::memory_order_acquire);
}

}  // namespace saturate
