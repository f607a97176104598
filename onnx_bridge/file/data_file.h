// Files that other files name: whoever wrote those may be a stranger, so reading them must end.
#pragma once

#include <cstdint>
#include <string>

namespace saturate {

inline constexpr std::uint64_t kMostNamedText = std::uint64_t{64} << 20;  // targets, costs and rules
inline constexpr std::uint64_t kMostNamedData = std::uint64_t{2} << 30;   // models and arrays, without external data

// Why a file that is there is not read: it is no regular file, or has more than `most` bytes; "" otherwise.
std::string no_data_file(const std::string& path, std::uint64_t most);

}  // namespace saturate
