// JSON from outside: nested no deeper than kMaxJsonDepth, as what copies and prints it recurses.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace saturate {

inline constexpr int kMaxJsonDepth = 64;

// Comments are let through. An error says where and what, and names no file: "line 2, column 15: syntax error ...".
template <typename Json = nlohmann::json>
absl::StatusOr<Json> read_json(std::string_view text) {
  bool too_deep = false;
  const auto keeps = [&](int depth, typename Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMaxJsonDepth;
    return depth <= kMaxJsonDepth;
  };
  try {
    Json out = Json::parse(text.begin(), text.end(), keeps, /*allow_exceptions=*/true, /*ignore_comments=*/true);
    if (too_deep) return absl::InvalidArgumentError("it is nested more than " + std::to_string(kMaxJsonDepth) + " deep");
    return out;
  } catch (const nlohmann::json::parse_error& error) {  // "[json.exception.parse_error.101] parse error at line 2, column 15: ..."
    const std::string said = error.what();
    const std::size_t line = said.find("line ");
    return absl::InvalidArgumentError(line == std::string::npos ? said : said.substr(line));
  } catch (const nlohmann::json::exception& error) {  // a number out of range
    return absl::InvalidArgumentError(error.what());
  }
}

}  // namespace saturate
