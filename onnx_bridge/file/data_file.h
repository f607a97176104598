// Files that are read whole, and files that other files name. Whoever wrote those may be a stranger, so reading them must end.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace saturate {

inline constexpr std::uint64_t kMostNamedText = std::uint64_t{64} << 20;  // targets, costs, rules and lists of passes
inline constexpr std::uint64_t kMostNamedData = std::uint64_t{2} << 30;   // models, arrays and measured rows, without external data

// Why a file that is there is not read: it is no regular file, or has more than `most` bytes; "" otherwise.
std::string no_data_file(const std::string& path, std::uint64_t most);

enum class Pipes : std::uint8_t { kRefused, kTaken };

// The bytes of a regular file, of a pipe too where the user named it. It is opened once, and looked at and read through that one
// descriptor: what is put in its place meanwhile changes nothing. Errors begin with the path and say what to do; NotFound: nothing is
// there.
absl::StatusOr<std::string> read_data_file(const std::string& path, std::uint64_t most = kMostNamedText, Pipes pipes = Pipes::kRefused);
// The rest of an open file or pipe, `most` bytes at most. `name`: for errors.
absl::StatusOr<std::string> read_all(int fd, const std::string& name, std::uint64_t most);

}  // namespace saturate
