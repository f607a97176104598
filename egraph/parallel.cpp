#include "egraph/parallel.h"

#include <tbb/info.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <algorithm>
#include <thread>
#include <utility>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace saturate {
namespace {

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// The queues of TBB hand a task over with all that was written before, and waiting for a group sees all that its tasks wrote. The library
// is not compiled for ThreadSanitizer, which has to be told.
void hand_over() {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(reinterpret_cast<void*>(&hand_over));
#endif
}
void take_over() {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(reinterpret_cast<void*>(&hand_over));
#endif
}

}  // namespace

// `called`: tasks that TBB was asked for and that have not ended. The caller keeps a place of the arena, so that helpers have 1, 2, ...
// TBB has no more threads than cores, and prints a warning where more are asked for.
struct Team::Helpers {
  explicit Helpers(std::size_t threads) : arena(std::min(static_cast<int>(threads), tbb::info::default_concurrency()), 1) {}
  tbb::task_arena arena;
  tbb::task_group group;
  std::atomic<std::size_t> called = 0;
};

Team::Team(int threads) : threads_(threads < 1 ? 1 : static_cast<std::size_t>(threads)) {}

Team::~Team() {
  if (!helpers_) return;
  quit_.store(true, std::memory_order_relaxed);
  helpers_->arena.execute([this] { helpers_->group.wait(); });
  take_over();
}

void Team::call_helpers() {
  if (!helpers_) helpers_ = std::make_unique<Helpers>(threads_);
  const auto most = static_cast<std::size_t>(helpers_->arena.max_concurrency());
  for (std::size_t here = helpers_->called.load(std::memory_order_relaxed); here + 1 < most; ++here) {
    helpers_->called.fetch_add(1, std::memory_order_relaxed);
    take_over();  // the memory of a task that has ended
    auto task = helpers_->group.defer([this] {
      take_over();
      help(static_cast<std::size_t>(tbb::this_task_arena::current_thread_index()));
      helpers_->called.fetch_sub(1, std::memory_order_relaxed);
      hand_over();
    });
    hand_over();
    helpers_->arena.enqueue(std::move(task));
  }
}

// Another state than `seen`, or `seen` if none comes for a moment.
std::uint32_t Team::look_out(std::uint32_t seen) const {
  constexpr int kSpins = 2000;
  for (int spins = 0; spins < kSpins; ++spins) {
    const std::uint32_t state = state_.load(std::memory_order_acquire);
    if (state != seen || quit_.load(std::memory_order_relaxed)) return state;
    pause();
  }
  return seen;
}

void Team::help(std::size_t worker) {
  std::uint32_t done = 0;  // the phase that this helper has been in
  for (std::uint32_t state = state_.load(std::memory_order_acquire); !quit_.load(std::memory_order_relaxed);) {
    if ((state & kOpen) == 0 || state / kPhase == done) {
      const std::uint32_t next = look_out(state);
      if (next == state) return;
      state = next;
      continue;
    }
    if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) continue;
    done = state / kPhase;
    drain(worker);
    state = state_.fetch_sub(1, std::memory_order_acq_rel) - 1;
    if ((state & (kInside | kOpen)) == 0) state_.notify_all();
  }
}

// Returns how many pieces it has done.
std::size_t Team::drain(std::size_t worker) {
  std::size_t done = 0;
  for (std::size_t i = next_.fetch_add(1, std::memory_order_relaxed); i < n_; i = next_.fetch_add(1, std::memory_order_relaxed), ++done) {
    (*body_)(i, worker);
  }
  return done;
}

void Team::run(std::size_t n, const std::function<void(std::size_t, std::size_t)>& body) {
  if (threads_ == 1 || n <= 1 || alone_ > 0) {
    if (n > 1 && alone_ > 0) --alone_;
    for (std::size_t i = 0; i < n; ++i) body(i, 0);
    return;
  }
  n_ = n;
  body_ = &body;
  next_.store(0, std::memory_order_relaxed);
  state_.fetch_add(kPhase + kOpen, std::memory_order_release);
  call_helpers();
  const auto begin = std::chrono::steady_clock::now();
  const std::size_t own = drain(0);
  const auto drained = std::chrono::steady_clock::now();
  // No helper comes in from now on; the ones inside are waited for.
  for (std::uint32_t state = state_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen; (state & kInside) != 0;) {
    const std::uint32_t next = look_out(state);
    if (next == state) state_.wait(state, std::memory_order_acquire);
    state = state_.load(std::memory_order_acquire);
  }
  look_back(drained - begin, std::chrono::steady_clock::now() - drained, n < kTelling || own < n - n / 8);
}

// Where other programs have the helpers' cores, helpers do next to nothing, or waiting for what one has begun costs more than its help
// saves: then better alone, for longer each time.
void Team::look_back(Duration worked, Duration waited, bool helped) {
  constexpr Duration kLong = std::chrono::microseconds(500);
  constexpr std::size_t kFirst = 32, kMost = 4096, kPatience = 4;  // phases
  if (waited > kLong && 2 * waited > worked) {
    penalty_ = std::clamp(4 * penalty_, kFirst, kMost);
    alone_ = penalty_;
  } else if (!helped) {
    if (++idle_ % kPatience == 0) alone_ = kFirst;
  } else {
    idle_ = 0;
    penalty_ -= penalty_ / 8;
  }
}

bool Team::helpful(std::size_t phases) {
  if (alone_ == 0) return true;
  alone_ -= std::min(alone_, phases);
  return false;
}

int thread_count(int threads) { return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace saturate
