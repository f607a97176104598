#include "onnx_bridge/model/wrong_usage.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

#include "absl/strings/cord.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace saturate {
namespace {

constexpr const char* kUsageUrl = "saturate/wrong_usage";
constexpr std::size_t kMostListed = 12;

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// Levenshtein's, by rows, whatever the case.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t k = 0; k < b.size(); ++k)
      diagonal = std::exchange(row[k + 1], std::min({row[k] + 1, row[k + 1] + 1, diagonal + (lower(a[i]) != lower(b[k]))}));
  }
  return row.back();
}

}  // namespace

absl::Status wrong_usage(const std::string& message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kUsageUrl, absl::Cord());
  return status;
}

absl::Status no_name_or_file(std::string_view name, const std::string& message) {
  return name.find_first_of("./") == std::string_view::npos ? wrong_usage(message) : absl::NotFoundError(message);
}

bool is_wrong_usage(const absl::Status& status) { return status.GetPayload(kUsageUrl).has_value(); }

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  std::size_t least = name.size() < 4 ? 1 : std::max<std::size_t>(2, name.size() / 3);  // more changes are another name
  for (const std::string& other : known) {
    const std::size_t apart = other.size() > name.size() ? other.size() - name.size() : name.size() - other.size();
    if (apart > least) continue;
    if (const std::size_t d = edit_distance(name, other); d < least || (d == least && (best.empty() || other < best))) {
      least = d;
      best = other;
    }
  }
  return best;
}

std::string what_instead(std::string_view name, const std::vector<std::string>& known, std::string_view lister) {
  const std::string near = nearest(name, known);
  std::string all(lister);
  if (known.empty())
    all = "there are none";
  else if (known.size() <= kMostListed)
    all = fmt::format("there {} {}", known.size() == 1 ? "is" : "are", fmt::join(known, ", "));
  else if (lister.empty())
    all = fmt::format("there are {}, ... ({} in all)", fmt::join(known.begin(), known.begin() + kMostListed, ", "), known.size());
  if (near.empty()) return all;
  if (lister.empty() && known.size() > kMostListed) return fmt::format("did you mean '{}'?", near);
  if (all.starts_with("there")) all[0] = 'T';
  return fmt::format("did you mean '{}'? {}", near, all);
}

}  // namespace saturate
