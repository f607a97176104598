#include "egraph/parallel_tbb.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include "egraph/parallel.h"

namespace saturate {

int thread_count(int threads) { return threads > 0 ? threads : tbb::this_task_arena::max_concurrency(); }

void run_on_threads(std::size_t workers, const std::function<void()>& body) {
  tbb::task_arena arena(static_cast<int>(workers));
  arena.execute([&] { tbb::parallel_for(std::size_t{0}, workers, [&](std::size_t) { body(); }, tbb::simple_partitioner()); });
}

}  // namespace saturate
