// Tokens of a rule file: names, numbers, strings, `@variables` and punctuation. `#` starts a comment that ends with the line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rules/terms/rule.h"

namespace saturate {

struct Token {
  enum class Kind : std::uint8_t { kEnd, kName, kInt, kReal, kString, kVariable, kPunctuation };
  Kind kind = Kind::kEnd;
  std::string text;  // without quotes and `@`
  std::int64_t integer = 0;
  double real = 0;
  Place place;
  std::size_t begin = 0, end = 0;  // offsets in the text
  std::string doc;                 // comment lines directly above, without `#`
  bool is(std::string_view punctuation) const { return kind == Kind::kPunctuation && text == punctuation; }
  bool is_word(std::string_view word) const { return kind == Kind::kName && text == word; }
};

// The last token is kEnd. kInvalidArgument with the place where the text cannot be read.
absl::StatusOr<std::vector<Token>> tokenize(std::string_view text, const std::string& file_name);
std::string at(const std::string& file_name, Place place, std::string_view message);

}  // namespace saturate
