// What goes to people and to programs: text that does nothing to a terminal, JSON that every parser reads.
#pragma once

#include <string>
#include <string_view>

#include "nlohmann/json_fwd.hpp"

namespace saturate {

// Names come from files: control characters but newline and tab, characters that turn the direction of text, and bytes that are no UTF-8
// are written as \x1b or \u202e.
std::string printable(std::string_view text);
// That, on stdout.
void print_text(std::string_view text);
// What is printable already, with what gives it colours.
void print_safe_text(std::string_view text);
// Bytes that are no UTF-8 become U+FFFD.
std::string json_text(const nlohmann::json& value, int indent = 2);
std::string json_text(const nlohmann::ordered_json& value, int indent = 2);
void print_json(const nlohmann::json& value);
void print_json(const nlohmann::ordered_json& value);

}  // namespace saturate
