#include "egraph/stop.h"

#include <chrono>
#include <utility>

namespace saturate {
namespace {

thread_local const StopSign* current_sign = nullptr;

}  // namespace

double steady_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

absl::Status StopSign::status() const {
  if (cancel != nullptr && *cancel) return absl::CancelledError("interrupted");
  if (deadline < kNoDeadline && steady_seconds() > deadline) return absl::DeadlineExceededError("the time is over");
  return absl::OkStatus();
}

const StopSign* StopScope::heed(const StopSign* sign) { return std::exchange(current_sign, sign); }
const StopSign* StopScope::current() { return current_sign; }

void heed_stop() {
  if (!stop_status().ok()) throw Stopped();
}

double seconds_to_stop() { return current_sign == nullptr ? kNoDeadline : current_sign->deadline - steady_seconds(); }

absl::Status stop_status() { return current_sign == nullptr ? absl::OkStatus() : current_sign->status(); }

}  // namespace saturate
