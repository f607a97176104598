#include "tools/io/terminal.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace saturate {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: no UTF-8
};

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = (code << 6) | (byte(i) & 0x3fu);
  }
  const std::uint32_t least = bytes == 4 ? 0x10000 : bytes == 3 ? 0x800 : 0x80;
  if (code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, bytes};
}

// Or ends a line, which readers of lines do not see in a log.
bool turns_direction(std::uint32_t code) {
  return code == 0x2028 || code == 0x2029 || code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

template <typename Json>
std::string dumped(const Json& value, int indent) {
  const std::string text = value.dump(indent, ' ', false, Json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (std::string_view left = text; !left.empty();) {
    const Character c = first_character(left);
    const std::size_t bytes = std::max<std::size_t>(c.bytes, 1);
    if ((c.code >= 0x7f && c.code < 0xa0) || turns_direction(c.code))  // in strings alone: JSON has them nowhere else
      out += fmt::format("\\u{:04x}", c.code);
    else
      out += left.substr(0, bytes);
    left.remove_prefix(bytes);
  }
  return out;
}

void to_stdout(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character c = first_character(text);
    const std::size_t bytes = c.bytes == 0 ? 1 : c.bytes;
    const bool control = (c.code < 0x20 && c.code != '\n' && c.code != '\t') || (c.code >= 0x7f && c.code < 0xa0);
    if (c.bytes == 0)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    else if (control)
      out += fmt::format("\\x{:02x}", c.code);
    else if (turns_direction(c.code))
      out += fmt::format("\\u{:04x}", c.code);
    else
      out += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return out;
}

void print_text(std::string_view text) { to_stdout(printable(text)); }
void print_safe_text(std::string_view text) { to_stdout(text); }

std::string json_text(const nlohmann::json& value, int indent) { return dumped(value, indent); }
std::string json_text(const nlohmann::ordered_json& value, int indent) { return dumped(value, indent); }
void print_json(const nlohmann::json& value) { to_stdout(json_text(value) + "\n"); }
void print_json(const nlohmann::ordered_json& value) { to_stdout(json_text(value) + "\n"); }

}  // namespace saturate
