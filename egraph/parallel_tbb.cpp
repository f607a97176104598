#include "egraph/parallel_tbb.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include "egraph/parallel.h"

#ifdef SATURATE_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace saturate {
namespace {

void handed_over([[maybe_unused]] void* context) {
#ifdef SATURATE_THREAD_SANITIZER
  __tsan_release(context);
#endif
}
void taken_over([[maybe_unused]] void* context) {
#ifdef SATURATE_THREAD_SANITIZER
  __tsan_acquire(context);
#endif
}

}  // namespace

int thread_count(int threads) { return threads > 0 ? threads : tbb::this_task_arena::max_concurrency(); }

void run_on_threads(std::size_t workers, void (*body)(void*), void* context) {
  handed_over(context);
  tbb::task_arena arena(static_cast<int>(workers));
  arena.execute([&] {
    tbb::parallel_for(
        std::size_t{0}, workers,
        [&](std::size_t) {
          taken_over(context);
          body(context);
          handed_over(context);
        },
        tbb::simple_partitioner());
  });
  taken_over(context);
}

}  // namespace saturate
