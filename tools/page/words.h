// Texts of a page, each once: names repeat what those before them say, so only what is new is written.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace saturate {

// A name out of a file as a page shows it: nothing in it moves a cursor or turns the direction of text, and none fills the page.
std::string shown(std::string_view name);

class PageWords {
 public:
  int add(const std::string& text);
  const std::string& text(int word) const { return words_[word]; }
  // One text a word: a letter for how many bytes it shares with the word before it, then the rest (app/data.js reads it).
  nlohmann::json to_json() const;

 private:
  std::unordered_map<std::string, int> places_;
  std::vector<std::string> words_;
};

}  // namespace saturate
