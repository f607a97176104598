// Pieces of work in processes of their own, some at a time: each may crash or run out of memory without harm to the others.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>

namespace saturate {

// How a piece ended, and what it printed.
struct PieceEnd {
  std::size_t piece = 0;
  int status = 0;     // exit status, where no signal ended it
  int signal = 0;     // that ended it
  std::string error;  // why it could not be started
  std::string out, err;
};

struct PoolOptions {
  std::size_t jobs = 1;
  const std::atomic<bool>* cancel = nullptr;    // interrupts the pieces that run, and no other is begun
  std::function<void(std::size_t done)> waits;  // called several times a second
};

// Calls `work` with 0 to `count` - 1, each in a copy of this process, which has the calling thread alone, and `ended` here in the order in
// which they end. The caller has no other threads.
void run_pieces(std::size_t count, const std::function<int(std::size_t)>& work, const std::function<void(const PieceEnd&)>& ended,
                const PoolOptions& options);

}  // namespace saturate
