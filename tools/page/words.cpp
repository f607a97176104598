#include "tools/page/words.h"

#include <algorithm>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tools/io/terminal.h"

namespace saturate {
namespace {

constexpr std::size_t kMostName = 240, kNameEnd = 80;
constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-";

bool within_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

std::string shown(std::string_view name) {
  std::string out = printable(name);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  if (out.size() <= kMostName) return out;
  std::size_t head = kMostName - kNameEnd, tail = out.size() - kNameEnd;
  while (within_character(out[head])) --head;
  while (tail < out.size() && within_character(out[tail])) ++tail;
  return fmt::format("{} ... ({} bytes) ... {}", out.substr(0, head), name.size(), out.substr(tail));
}

int PageWords::add(const std::string& text) {
  const auto [it, added] = places_.try_emplace(text, static_cast<int>(words_.size()));
  if (added) words_.push_back(text);
  return it->second;
}

nlohmann::json PageWords::to_json() const {
  nlohmann::json out = nlohmann::json::array();
  std::string_view last;
  for (const std::string& word : words_) {
    std::size_t same = 0;
    while (same < kLetters.size() - 1 && same < word.size() && same < last.size() && word[same] == last[same] &&
           static_cast<unsigned char>(word[same]) < 0x80)
      ++same;
    out.push_back(kLetters[same] + word.substr(same));
    last = word;
  }
  return out;
}

}  // namespace saturate
