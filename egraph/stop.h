// What may end a run before it is done: the caller's flag, and a point in time. A kernel that runs long asks now and then.
#pragma once

#include <atomic>
#include <exception>
#include <limits>

#include "absl/status/status.h"

namespace saturate {

// Seconds of the clock that deadlines are told in.
double steady_seconds();
inline constexpr double kNoDeadline = std::numeric_limits<double>::infinity();

struct StopSign {
  const std::atomic<bool>* cancel = nullptr;
  double deadline = kNoDeadline;                                            // of steady_seconds()
  bool set() const { return cancel != nullptr || deadline < kNoDeadline; }  // whether it can ever be shown
  // OK, kCancelled or kDeadlineExceeded.
  absl::Status status() const;
};

// Thrown where the sign is shown: inside of kernels the runtime turns it into a status (invoke() in plan.h), of the stages of optimize()
// that does (StageBound in extract/optimize/stages.h).
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped"; }
};

// While it lives, the work of this thread heeds the sign; null: none. Helpers of a team heed the caller's.
class StopScope {
 public:
  explicit StopScope(const StopSign* sign) : before_(heed(sign)) {}
  ~StopScope() { heed(before_); }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;
  static const StopSign* current();

 private:
  static const StopSign* heed(const StopSign* sign);  // the one before
  const StopSign* before_;
};

// Throws Stopped where the sign of this thread is shown. Takes some 30 ns where there is one: for pieces of work of a microsecond and more.
void heed_stop();
double seconds_to_stop();    // until the deadline of this thread's sign; kNoDeadline where there is none
absl::Status stop_status();  // the same without an exception

}  // namespace saturate
