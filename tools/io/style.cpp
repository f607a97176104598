#include "tools/io/style.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "fmt/color.h"
#include "fmt/format.h"

namespace saturate {
namespace {

constexpr std::size_t kLeastWidth = 40;

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value && *value != '\0';
}

bool shows_colors(int fd) {
  const char* terminal = std::getenv("TERM");
  return isatty(fd) && !is_set("NO_COLOR") && terminal && std::string_view(terminal) != "dumb";
}

}  // namespace

Look look_of_stdout(ColorChoice choice) {
  Look look;
  winsize size{};
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    look.width = std::max(kLeastWidth, static_cast<std::size_t>(size.ws_col));
  look.color = choice == ColorChoice::kAlways || (choice == ColorChoice::kAuto && shows_colors(STDOUT_FILENO));
  return look;
}

std::string toned(std::string_view text, Tone tone, const Look& look) {
  if (!look.color || tone == Tone::kPlain || text.empty()) return std::string(text);
  if (tone == Tone::kLabel) return fmt::format(fmt::emphasis::bold, "{}", text);
  return fmt::format(fmt::fg(tone == Tone::kGood ? fmt::terminal_color::green : fmt::terminal_color::red), "{}", text);
}

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string out;
  std::size_t column = 0, spaces = 0;
  bool begun = false;  // a word stands in the line
  while (!text.empty()) {
    const std::size_t length = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, length);
    if (!word.empty()) {
      if (begun && column + spaces + columns_of(word) > width) {
        out += "\n" + std::string(indent, ' ');
        column = indent;
      } else {
        out.append(spaces, ' ');
        column += spaces;
      }
      out += word;
      column += columns_of(word);
      spaces = 0;
      begun = true;
    }
    if (length == text.size()) break;
    if (text[length] == '\n') {
      out += '\n';
      column = spaces = 0;
      begun = false;
    } else {
      ++spaces;
    }
    text.remove_prefix(length + 1);
  }
  return out;
}

std::string wrapped_lines(std::string_view text, std::size_t width) {
  constexpr std::size_t kFurther = 4;  // columns that further lines stand to the right
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    out += wrapped(line, width, std::min(begin + kFurther, width / 2));
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace saturate
