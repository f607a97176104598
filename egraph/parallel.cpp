#include "egraph/parallel.h"

#include <algorithm>
#include <atomic>

#include "egraph/parallel_tbb.h"

namespace saturate {
namespace {

struct Work {
  std::size_t n;
  const std::function<void(std::size_t, std::size_t)>& body;
  std::atomic<std::size_t> next{0}, workers{0};

  void run() {
    const std::size_t worker = workers.fetch_add(1, std::memory_order_relaxed);
    for (std::size_t i = next.fetch_add(1, std::memory_order_relaxed); i < n; i = next.fetch_add(1, std::memory_order_relaxed)) body(i, worker);
  }
};

}  // namespace

void parallel_for(int threads, std::size_t n, const std::function<void(std::size_t, std::size_t)>& body) {
  if (threads <= 1 || n <= 1) {
    for (std::size_t i = 0; i < n; ++i) body(i, 0);
    return;
  }
  Work work{n, body};
  run_on_threads(std::min(static_cast<std::size_t>(threads), n), [](void* context) { static_cast<Work*>(context)->run(); }, &work);
}

}  // namespace saturate
