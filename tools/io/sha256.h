// SHA-256 (FIPS 180-4) of files, to tell which ones a report is of.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace saturate {

std::string sha256(std::string_view bytes);  // 64 hexadecimal digits
// Read in pieces. Errors begin with the path.
absl::StatusOr<std::string> sha256_of_file(const std::string& path);

}  // namespace saturate
