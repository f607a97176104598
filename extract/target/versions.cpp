#include "extract/target/versions.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "fmt/format.h"

namespace saturate {
namespace {

std::optional<std::int64_t> positive(std::string_view text) {
  std::int64_t v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  return error == std::errc() && end == text.data() + text.size() && v > 0 ? std::optional(v) : std::nullopt;
}

}  // namespace

absl::StatusOr<std::vector<VersionRange>> parse_versions(std::string_view text) {
  std::vector<VersionRange> out;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    const std::size_t dash = part.find('-');
    VersionRange r;
    const auto low = positive(part.ends_with('+') ? part.substr(0, part.size() - 1) : part.substr(0, dash));
    const auto high = dash == std::string_view::npos ? low : positive(part.substr(dash + 1));
    if (!low || !high || *high < *low)
      return absl::InvalidArgumentError(fmt::format("'{}' are no versions; wanted e.g. \"7-12,14+\"", std::string(text)));
    r.low = *low;
    if (!part.ends_with('+')) r.high = *high;
    out.push_back(r);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return out;
}

std::string versions_text(const std::vector<VersionRange>& ranges) {
  std::string out;
  for (const VersionRange& r : ranges) {
    if (!out.empty()) out += ',';
    out += r.high == std::numeric_limits<std::int64_t>::max() ? fmt::format("{}+", r.low)
           : r.high == r.low                                  ? fmt::format("{}", r.low)
                                                              : fmt::format("{}-{}", r.low, r.high);
  }
  return out;
}

bool in_range(std::int64_t version, const std::vector<VersionRange>& ranges) {
  return ranges.empty() ||
         std::any_of(ranges.begin(), ranges.end(), [&](const VersionRange& r) { return version >= r.low && version <= r.high; });
}

}  // namespace saturate
