// How text looks where it is read: how wide a line may be, and colours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace saturate {

enum class ColorChoice : std::uint8_t { kAuto, kAlways, kNever };

struct Look {
  std::size_t width = 100;
  bool color = false;
};

// Of standard output: a terminal has its own width, anything else 100 columns. Colours on a terminal that can show them, unless NO_COLOR is
// set; a choice of always or never comes before both.
Look look_of_stdout(ColorChoice choice);

enum class Tone : std::uint8_t { kPlain, kGood, kBad, kLabel };
std::string toned(std::string_view text, Tone tone, const Look& look);

// Columns that a UTF-8 string takes on a terminal, near enough: its code points.
std::size_t columns_of(std::string_view text);

// The text with line breaks in the place of spaces, so that no line is wider than `width`, but for words that are. Further lines of what
// was one begin with `indent` spaces.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);
// The same for each line by itself: what was one line stays to the right of where it began.
std::string wrapped_lines(std::string_view text, std::size_t width);

}  // namespace saturate
