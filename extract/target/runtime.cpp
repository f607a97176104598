#include "extract/target/runtime.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace saturate {
namespace {

// "1.20.1" as 1, 20, 1.
std::optional<std::vector<int>> numbers_of_version(std::string_view version) {
  std::vector<int> out;
  for (const char *at = version.data(), *const end = at + version.size();;) {
    int number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0) return std::nullopt;
    out.push_back(number);
    if (next == end) return out;
    if (*next != '.') return std::nullopt;
    at = next + 1;
  }
}

}  // namespace

bool is_before(std::string_view version, std::string_view other) {
  return numbers_of_version(version).value_or(std::vector<int>()) < numbers_of_version(other).value_or(std::vector<int>());
}

const RuntimeRelease* Runtime::oldest_for(std::int64_t opset, std::int64_t ir) const {
  const auto it = std::find_if(releases.begin(), releases.end(), [&](const RuntimeRelease& r) { return opset <= r.opset && ir <= r.ir; });
  return it == releases.end() ? nullptr : &*it;
}

RuntimeRelease Runtime::usual() const { return at(usual_release).value_or(releases.front()); }

absl::StatusOr<RuntimeRelease> Runtime::at(std::string_view version) const {
  if (releases.empty()) return absl::InvalidArgumentError(fmt::format("'@{}': the target names no versions of a runtime", version));
  if (!numbers_of_version(version))
    return absl::InvalidArgumentError(fmt::format("'@{}' is no version of {}; write e.g. @{}", version, name, releases.front().version));
  const auto newer = std::find_if(releases.begin(), releases.end(), [&](const RuntimeRelease& r) { return is_before(version, r.version); });
  if (newer == releases.begin())
    return absl::InvalidArgumentError(
        fmt::format("'@{}': the oldest version of {} that is known is {}", version, name, releases.front().version));
  RuntimeRelease out = *(newer - 1);
  out.version = version;
  return out;
}

}  // namespace saturate
