// What runs right now, on stderr, once it takes longer than a second: on a terminal as a line that changes, in a log a line each ten
// seconds.
#pragma once

#include <condition_variable>
#include <limits>
#include <mutex>
#include <string>
#include <thread>

namespace saturate {

// How far a stage is: `done` of `all`, where both are known, and the seconds after which it ends in any case.
struct Share {
  std::size_t done = 0, all = 0;
  double most = std::numeric_limits<double>::infinity();
};

class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // A stage begins or goes on.
  void stage(const std::string& name, const std::string& detail = "", const Share& share = {});
  // Nothing is shown any more, until a stage begins.
  void clear();

 private:
  void run();
  void show(double now);
  std::string line(double now) const;

  const bool on_terminal_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string name_, detail_;  // name_ "": nothing runs
  Share share_;
  double started_, stage_started_ = 0, shown_at_;
  bool line_stands_ = false, ends_ = false;
  std::thread thread_;  // none where all is quiet
};

}  // namespace saturate
