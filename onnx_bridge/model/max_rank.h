#pragma once

#include <cstddef>

namespace saturate {

inline constexpr std::size_t kMaxRank = 512;  // dims of any tensor; runtimes and NumPy take up to 64

}  // namespace saturate
