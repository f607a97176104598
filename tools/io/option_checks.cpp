#include "tools/io/option_checks.h"

#include <charconv>
#include <cmath>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {
namespace {

std::optional<double> finite_number(const std::string& text) {
  double number = 0;
  if (!absl::SimpleAtod(text, &number) || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::string of(std::string_view unit) { return unit.empty() ? "" : fmt::format(" of {}", unit); }

}  // namespace

std::optional<std::int64_t> parse_int(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::string not_a_number_from_0(const std::string& text) {
  const auto number = finite_number(text);
  return number && *number >= 0 ? "" : fmt::format("'{}' is no number; give one from 0 on", text);
}

std::string not_a_time(const std::string& text) {
  return not_a_number_from_0(text).empty() ? "" : fmt::format("'{}' is no number of seconds; give one from 0 on", text);
}

std::string not_a_number_above_0(const std::string& text) {
  const auto number = finite_number(text);
  return number && *number > 0 ? "" : fmt::format("'{}' is no number above 0", text);
}

std::string not_a_whole_number(const std::string& text) {
  const auto number = parse_int(text);
  return number && *number >= 0 ? "" : fmt::format("'{}' is no whole number from 0 to {}", text, INT64_MAX);
}

std::string not_a_whole_number_in(const std::string& text, std::int64_t least, std::int64_t most, std::string_view unit) {
  const auto number = parse_int(text);
  if (number && *number >= least && *number <= most) return "";
  return fmt::format("'{}' is no whole number{} from {} to {}", text, of(unit), least, most);
}

std::string not_a_number_in(const std::string& text, double least, double most, std::string_view unit) {
  const auto number = finite_number(text);
  if (number && *number >= least && *number <= most) return "";
  return fmt::format("'{}' is no number{} from {} to {}", text, of(unit), least, most);
}

std::optional<double> growth_of(const std::string& text) {
  const bool percent = text.ends_with('%');
  const auto number = finite_number(percent ? text.substr(0, text.size() - 1) : text);
  if (!number || *number < (percent ? 0 : 1)) return std::nullopt;
  return percent ? 1 + *number / 100 : *number;
}

std::string not_a_growth(const std::string& text) {
  return growth_of(text) ? "" : fmt::format("'{}' is no growth; give a share of the weights, 10%, or a factor from 1 on, 1.1", text);
}

std::string not_a_known_opset(const std::string& text) {
  std::int64_t opset = 0;
  if (absl::SimpleAtoi(text, &opset) && opset >= 1 && opset <= kNewestOpset) return "";
  return fmt::format("'{}' is no opset that saturate knows; give a number from 1 to {}", text, kNewestOpset);
}

std::string empty_value(const std::string& text) { return text.empty() ? "it is empty; leave the option out, or give a value" : ""; }

}  // namespace saturate
