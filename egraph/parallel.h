// Work on several threads, for phases that only read the e-graph or write to places of their own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace saturate {

// A few threads of TBB that share work phase by phase. One call of run() costs a microsecond or so, and many short phases may follow one
// another: a helper is one task of TBB, which looks out for the next phase a moment before it gives its thread back. Where TBB has no
// thread to spare, the caller does the work alone.
class Team {
 public:
  explicit Team(int threads);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();

  std::size_t threads() const { return threads_; }
  // Calls body(i, worker) for each i < n once, in any order; what one `worker` < threads() does is done one after the other. What was
  // written before is seen by all of them, and what they write is seen afterwards. With one thread: here, in order. No calls from inside.
  void run(std::size_t n, const std::function<void(std::size_t, std::size_t)>& body);
  // Whether helpers are worth the way for several threads, which costs some more. If not, `phases` are taken as run alone: say it as they
  // come.
  bool helpful(std::size_t phases);

 private:
  // state_: number of the phase, whether it is open to helpers, and how many are inside.
  static constexpr std::uint32_t kInside = 0x7fff, kOpen = 0x8000, kPhase = 0x10000;
  struct Helpers;
  void call_helpers();
  void help(std::size_t worker);
  std::size_t drain(std::size_t worker);
  std::uint32_t look_out(std::uint32_t seen) const;
  using Duration = std::chrono::steady_clock::duration;
  void look_back(Duration worked, Duration waited, bool helped);

  std::size_t threads_;
  std::unique_ptr<Helpers> helpers_;
  std::atomic<std::uint32_t> state_ = 0;
  std::atomic<bool> quit_ = false;
  static constexpr std::size_t kTelling = 8;  // pieces from which one sees whether helpers helped
  std::size_t alone_ = 0, penalty_ = 0;       // phases that are run without helpers: the coming ones, and after the next disappointment
  std::size_t idle_ = 0;                      // phases one after the other in which helpers did next to nothing
  // Of the open phase.
  std::atomic<std::size_t> next_ = 0;
  std::size_t n_ = 0;
  const std::function<void(std::size_t, std::size_t)>* body_ = nullptr;
};

// Calls pass(first, last) for stretches of 0..n-1: on the team, or here and whole where there is none.
template <class Pass>
void over_stretches(Team* team, std::size_t n, std::size_t stretch, const Pass& pass) {
  if (team == nullptr || n <= stretch) return pass(std::size_t{0}, n);
  team->run((n + stretch - 1) / stretch,
            [&](std::size_t i, std::size_t) { pass(i * stretch, i * stretch + stretch < n ? i * stretch + stretch : n); });
}

// The number of threads that is meant by `threads`: 0 is as many as there are cores for this process.
int thread_count(int threads);

}  // namespace saturate
