// Seconds of a clock that never goes back; only differences mean something.
#pragma once

#include <chrono>

namespace saturate {

inline double wall_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace saturate
