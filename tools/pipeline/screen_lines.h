// The lines of the screen: each fits into 80 columns, and there are no more than eight.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/io/style.h"

namespace saturate {

class ScreenLines {
 public:
  // Which lines stay where there are more than there is room for, the first before the others.
  enum Rank : int { kMust, kWarning, kUsual, kLeft, kAssumes, kExtra, kNote, kDetail };

  explicit ScreenLines(const Look& look) : look_(look) {}

  // The first text that fits behind the label; where none does, the last one, cut. Texts may hold names out of files.
  void add(Rank rank, std::string_view label, const std::vector<std::string>& texts, Tone tone = Tone::kLabel);
  std::string fitting(std::string_view label, const std::vector<std::string>& texts) const;
  // Sentences of any length: one takes up to two lines, the first two of several a line each, and the others are told to be there.
  void several(Rank rank, std::string_view label, const std::vector<std::string>& texts, Tone tone);
  // Before all others, in up to two lines.
  void bad(const std::string& text);
  // "in.onnx -> out.onnx" with the fullest end that there is room for; folders are left out where there is none.
  void files(const std::string& input, const std::string& output, const std::vector<std::string>& ends);
  // The pattern with the model's path, or MODEL where that is long.
  std::string path_for(std::string_view pattern) const;
  std::string text() &&;

 private:
  struct Line {
    Rank rank;
    std::string label, text;
    Tone tone;
    bool whole = false;  // the tone is the whole text's
    std::size_t lines() const;
  };
  void shorten();
  const Look& look_;
  std::string input_;
  std::vector<Line> lines_;
};

}  // namespace saturate
