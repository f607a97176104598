// Work in a process of its own: it may crash, hang or fill its output without harm to this one.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace saturate {

struct ChildLimits {
  double seconds = 60;                         // after that it is killed, with all that it has started
  std::size_t output = std::size_t{16} << 20;  // bytes of output that are kept; the rest is read and thrown away
  const std::atomic<bool>* cancel = nullptr;   // kills it, too
};

struct ChildEnd {
  int status = 0;  // exit status, where no signal ended it
  int signal = 0;  // that ended it
  bool timed_out = false, cancelled = false;
  std::string error;   // why it could not be started; "" otherwise
  std::string output;  // what it wrote to stdout and stderr
  double seconds = 0;
  bool exited() const { return signal == 0 && !timed_out && !cancelled && error.empty(); }
};

// A program with its arguments, looked up as a shell does.
ChildEnd run_program(const std::vector<std::string>& words, const ChildLimits& limits);
// A function of this program in a copy of the process, which has the calling thread alone. Its result is the output, or the exit status.
ChildEnd run_apart(const std::function<std::string()>& work, const ChildLimits& limits);
ChildEnd run_apart(const std::function<int()>& work, const ChildLimits& limits);

}  // namespace saturate
