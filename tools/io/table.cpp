#include "tools/io/table.h"

#include <algorithm>

#include "fmt/format.h"

namespace saturate {
namespace {

// Columns that a UTF-8 string takes on a terminal, near enough: its code points.
std::size_t width(const std::string& s) {
  return static_cast<std::size_t>(std::count_if(s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

std::string format_table(const std::vector<std::vector<std::string>>& rows, std::size_t left) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      const std::string pad(widths[i] - width(rows[r][i]), ' ');
      line += i == 0 ? "" : "  ";
      line += i < left ? rows[r][i] + pad : pad + rows[r][i];
    }
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    if (r > 0 || rows.size() == 1) continue;
    std::size_t total = 0;
    for (std::size_t w : widths) total += w + 2;
    out += std::string(total - 2, '-') + "\n";
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
