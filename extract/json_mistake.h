// Where a text stops being JSON, for people.
#pragma once

#include <string>

namespace saturate {

// "line 2, column 15: syntax error ...", or "" of what is JSON (comments are let through).
std::string json_mistake(const std::string& text);

}  // namespace saturate
