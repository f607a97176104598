#include "egraph/text/read_json.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <system_error>

namespace saturate {
namespace {

// The end of what begins at `at` and holds no brackets: a string, a comment, or one byte.
std::size_t behind(std::string_view text, std::size_t at) {
  const auto after = [&](std::string_view end) {
    const std::size_t found = text.find(end, at + 2);
    return found == std::string_view::npos ? text.size() : found + end.size();
  };
  if (text[at] == '"') {
    std::size_t end = at + 1;
    while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
    return std::min(text.size(), end + 1);
  }
  if (text.substr(at, 2) == "//") return after("\n");
  if (text.substr(at, 2) == "/*") return after("*/");
  return at + 1;
}

// Where the first bracket stands that is nested too deeply.
std::size_t first_too_deep(std::string_view text) {
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); at = behind(text, at)) {
    if ((text[at] == '[' || text[at] == '{') && ++depth > kMaxJsonDepth) return at;
    if (text[at] == ']' || text[at] == '}') --depth;
  }
  return text.size();
}

std::size_t first_outside_strings(std::string_view text, std::string_view token) {
  for (std::size_t at = 0; at < text.size(); at = behind(text, at))
    if (text.substr(at, token.size()) == token) return at;
  return text.size();
}

absl::Status at_place(std::string_view text, std::size_t at, int first_line, const std::string& what) {
  const std::string_view before = text.substr(0, at);
  const std::size_t begin = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto line = first_line + std::count(before.begin(), before.end(), '\n');
  return absl::InvalidArgumentError("line " + std::to_string(line) + ", column " + std::to_string(at - begin + 1) + ": " + what);
}

}  // namespace

absl::Status no_json(std::string_view text, std::string_view said, int first_line) {
  if (said.empty())
    return at_place(text, first_too_deep(text), first_line,
                    "it is nested more than " + std::to_string(kMaxJsonDepth) + " deep; nest it less deeply");
  // "[json.exception.parse_error.101] parse error at line 2, column 15: ..."
  constexpr std::string_view kPlace = " at line ", kOverflow = "number overflow parsing '";
  if (const std::size_t place = said.find(kPlace); place != std::string_view::npos) {
    const std::string_view rest = said.substr(place + kPlace.size());
    int line = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), line);
    if (error == std::errc())
      return absl::InvalidArgumentError("line " + std::to_string(first_line + line - 1) + std::string(end, rest.data() + rest.size()));
  }
  if (const std::size_t quoted = said.find(kOverflow); quoted != std::string_view::npos) {
    std::string_view token = said.substr(quoted + kOverflow.size());
    token = token.substr(0, token.find('\''));
    return at_place(text, first_outside_strings(text, token), first_line,
                    std::string(token) + " is too large a number; give a smaller one");
  }
  return absl::InvalidArgumentError(std::string(said));
}

absl::Status each_json_line(std::string_view text, std::string_view place,
                            const std::function<absl::Status(const nlohmann::json&, std::size_t, std::string_view)>& take) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.empty()) continue;
    const auto row = read_json(line, static_cast<int>(number));
    if (!row.ok()) return absl::InvalidArgumentError(std::string(place) + ": not JSON: " + std::string(row.status().message()));
    if (absl::Status said = take(*row, number, line); !said.ok()) return said;
  }
  return absl::OkStatus();
}

}  // namespace saturate
