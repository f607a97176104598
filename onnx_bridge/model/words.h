// Text of words with a blank behind each, read from the front.
#pragma once

#include <algorithm>
#include <charconv>
#include <string_view>

namespace saturate {

// The first word, which `text` loses with the blank behind it.
inline std::string_view take_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

// The number that a word says; 0 where it says none.
template <typename T>
T to_number(std::string_view word) {
  T value{};
  std::from_chars(word.data(), word.data() + word.size(), value);
  return value;
}

}  // namespace saturate
