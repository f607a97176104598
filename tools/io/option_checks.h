// What values options take: each check gives a sentence, or "" where the value is fine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace saturate {

// The integer that all of the text is.
std::optional<std::int64_t> parse_int(std::string_view text);

// A finite number, 0 or more.
std::string not_a_number_from_0(const std::string& text);
std::string not_a_time(const std::string& text);  // in seconds
// A finite number above 0.
std::string not_a_number_above_0(const std::string& text);
// Digits that fit into 63 bits.
std::string not_a_whole_number(const std::string& text);
// Within these bounds, which the sentence names, and the unit.
std::string not_a_whole_number_in(const std::string& text, std::int64_t least, std::int64_t most, std::string_view unit = "");
std::string not_a_number_in(const std::string& text, double least, double most, std::string_view unit = "");
// "10%" more as 1.1, "1.1" as it is; nullopt for what is neither, or less than nothing more.
std::optional<double> growth_of(const std::string& text);
std::string not_a_growth(const std::string& text);
// An opset that saturate knows.
std::string not_a_known_opset(const std::string& text);
// Something is written there.
std::string empty_value(const std::string& text);

}  // namespace saturate
