#include "tools/io/table.h"

#include <algorithm>

#include "fmt/format.h"
#include "tools/io/style.h"

namespace saturate {
namespace {

constexpr std::size_t kLeastOfLast = 24;  // columns of the last column; where less is left it begins at the left

std::string line_of(const std::vector<std::string>& row, const std::vector<std::size_t>& widths, std::size_t left) {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::string pad(widths[i] - columns_of(row[i]), ' ');
    line += i == 0 ? "" : "  ";
    line += i < left ? row[i] + pad : pad + row[i];
  }
  line.resize(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::string format_table(const std::vector<std::vector<std::string>>& rows, std::size_t left, std::size_t width) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  }
  std::size_t total = 0;
  for (const std::size_t w : widths) total += w + 2;
  total -= std::min<std::size_t>(total, 2);
  const std::size_t last = widths.empty() ? 0 : total - widths.back();  // where the last column begins
  const bool wraps = width > 0 && total > width;
  const std::size_t indent = last + kLeastOfLast <= width ? last : 4;
  std::string out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::string line = line_of(rows[r], widths, left);
    out += (wraps ? wrapped(line, width, indent) : line) + "\n";
    if (r == 0 && rows.size() > 1) out += std::string(wraps ? width : total, '-') + "\n";
  }
  return out;
}

std::string human_count(std::uint64_t count) {
  if (count < 10'000) return fmt::format("{}", count);
  static constexpr const char* kUnits[] = {"k", "M", "G", "T"};
  double value = static_cast<double>(count) / 1000;
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g} {}", value, kUnits[unit]);
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string human_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string signed_difference(std::int64_t before, std::int64_t after) {
  return before == after ? "" : fmt::format("{:+d}", after - before);
}

}  // namespace saturate
