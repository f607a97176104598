// Versions of operators: since_version of their schemas.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace saturate {

struct VersionRange {
  std::int64_t low = 1, high = std::numeric_limits<std::int64_t>::max();
};

// "13+", "7-12", "9", several separated by commas; empty: any. kInvalidArgument: the text is none of these.
absl::StatusOr<std::vector<VersionRange>> parse_versions(std::string_view text);
std::string versions_text(const std::vector<VersionRange>& ranges);
bool in_range(std::int64_t version, const std::vector<VersionRange>& ranges);

}  // namespace saturate
