// JSON from outside: nested no deeper than kMaxJsonDepth, as what copies and prints it recurses.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace saturate {

inline constexpr int kMaxJsonDepth = 64;

// What is told of JSON that can't be read. `said`: what nlohmann's library says, "" of what is nested too deeply.
absl::Status no_json(std::string_view text, std::string_view said, int first_line);

// Comments are let through. An error says where and what, and names no file: "line 2, column 15: syntax error ...". `first_line`: the
// number of the text's first line in its file.
template <typename Json = nlohmann::json>
absl::StatusOr<Json> read_json(std::string_view text, int first_line = 1) {
  bool too_deep = false;
  const auto keeps = [&](int depth, typename Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMaxJsonDepth;
    return depth <= kMaxJsonDepth;
  };
  try {
    Json out = Json::parse(text.begin(), text.end(), keeps, /*allow_exceptions=*/true, /*ignore_comments=*/true);
    if (too_deep) return no_json(text, "", first_line);
    return out;
  } catch (const nlohmann::json::exception& error) {
    return no_json(text, error.what(), first_line);
  }
}

// A text of lines of JSON, as rows of times are kept: `take` gets each with its number, counted from 1, and what it says ends the walk.
// Empty lines are passed over. `place` names the text in errors: "times.jsonl: not JSON: line 2, column 15: ...".
absl::Status each_json_line(std::string_view text, std::string_view place,
                            const std::function<absl::Status(const nlohmann::json& row, std::size_t number, std::string_view line)>& take);

}  // namespace saturate
