#include "tools/pipeline/screen_lines.h"

#include <algorithm>

#include "fmt/format.h"
#include "tools/io/terminal.h"

namespace saturate {
namespace {

constexpr std::size_t kWidth = 80, kMostLines = 8;
constexpr std::size_t kLabel = 11;     // columns before what a label says
constexpr std::size_t kMostOfOne = 2;  // lines of a sentence
constexpr std::string_view kCut = "...";

std::size_t lines_of(const std::string& text) { return 1 + static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')); }

// The beginning of a text that is too long, by code points.
std::string cut(const std::string& text, std::size_t columns) {
  if (columns_of(text) <= columns) return text;
  std::size_t at = 0, seen = 0;
  for (; at < text.size(); ++at)
    if ((static_cast<unsigned char>(text[at]) & 0xc0) != 0x80 && seen++ == columns - kCut.size()) break;
  return text.substr(0, at) + std::string(kCut);
}

// The end of it.
std::string cut_front(const std::string& text, std::size_t columns) {
  const std::size_t all = columns_of(text), gone = all - (columns - kCut.size());
  std::size_t at = 0, seen = 0;
  for (; at < text.size(); ++at)
    if ((static_cast<unsigned char>(text[at]) & 0xc0) != 0x80 && seen++ == gone) break;
  return std::string(kCut) + text.substr(at);
}

// Words in as many lines as a sentence may take; a word that is wider than a line is cut.
std::string in_lines(const std::string& text, std::size_t width, std::size_t indent) {
  std::string words, out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    words += (words.empty() ? "" : " ") + cut(text.substr(at, end - at), width - indent);
    at = end + 1;
  }
  const std::string all = wrapped(words, width, indent);
  std::size_t end = 0;
  for (std::size_t i = 0; i < kMostOfOne && end != std::string::npos; ++i) end = all.find('\n', end == 0 ? 0 : end + 1);
  if (end == std::string::npos) return all;
  out = all.substr(0, end);
  const std::size_t last = out.rfind('\n') + 1;
  return out.substr(0, last) + cut(out.substr(last) + std::string(kCut) + " ", width);
}

std::string last_part(const std::string& path, std::size_t columns) {
  if (columns_of(path) <= columns) return path;
  for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1))
    if (columns_of(path.substr(at)) + kCut.size() <= columns && at + 1 < path.size()) return std::string(kCut) + path.substr(at);
  return cut_front(path.substr(path.rfind('/') + 1), std::max<std::size_t>(columns, kCut.size() + 1));
}

}  // namespace

std::string ScreenLines::fitting(std::string_view label, const std::vector<std::string>& texts) const {
  const std::size_t room = kWidth - std::max(kLabel, label.size() + 3);
  for (const std::string& text : texts)
    if (const std::string clean = printable(text); !text.empty() && columns_of(clean) <= room) return clean;
  return cut(printable(texts.back()), room);
}

void ScreenLines::add(Rank rank, std::string_view label, const std::vector<std::string>& texts, Tone tone) {
  lines_.push_back({rank, std::string(label), fitting(label, texts), tone, tone == Tone::kGood});
}

void ScreenLines::several(Rank rank, std::string_view label, const std::vector<std::string>& texts, Tone tone) {
  const std::size_t room = kWidth - kLabel;
  if (texts.size() == 1) lines_.push_back({rank, std::string(label), in_lines(printable(texts[0]), room, 0), tone});
  if (texts.size() < 2) return;
  const std::string more = texts.size() > kMostOfOne ? fmt::format(" ({} more: -v)", texts.size() - kMostOfOne) : "";
  lines_.push_back({rank, std::string(label), cut(printable(texts[0]), room), tone});
  lines_.push_back({rank, std::string(label), cut(printable(texts[1]), room - more.size()) + more, tone});
}

void ScreenLines::bad(const std::string& text) { lines_.push_back({kMust, "", in_lines(printable(text), kWidth, 2), Tone::kBad, true}); }

void ScreenLines::files(const std::string& input, const std::string& output, const std::vector<std::string>& ends) {
  input_ = input;
  const std::string a = printable(input), b = printable(output), arrow = a.empty() || b.empty() ? "" : " -> ";
  const auto with = [&](const std::string& first, const std::string& second, const std::string& end) {
    const std::string files = first + arrow + second;
    return files.empty() ? end.substr(end.find(": ") + 2) : files + end;
  };
  std::string text;
  for (const std::string& end : ends)
    if (const std::string whole = with(a, b, printable(end)); text.empty() && columns_of(whole) <= kWidth) text = whole;
  if (text.empty()) {
    const std::string end = printable(ends.back());
    const std::size_t room = kWidth - std::min(kWidth - 12, columns_of(end) + arrow.size());
    const std::string first = last_part(a, b.empty() ? room : room - std::min(columns_of(b), room / 2));
    text = cut(with(first, last_part(b, room - columns_of(first)), end), kWidth);
  }
  lines_.push_back({kMust, "", text, Tone::kPlain});
}

std::string ScreenLines::path_for(std::string_view pattern) const {
  constexpr std::size_t kShort = 24;
  return fmt::format(fmt::runtime(pattern), !input_.empty() && columns_of(input_) <= kShort ? printable(input_) : "MODEL");
}

std::size_t ScreenLines::Line::lines() const { return lines_of(text); }

// The least of the lines go, from the end, until the rest fits.
void ScreenLines::shorten() {
  const auto all = [this] {
    std::size_t n = 0;
    for (const Line& line : lines_) n += line.lines();
    return n;
  };
  while (all() > kMostLines) {
    auto least = lines_.end();
    for (auto line = lines_.begin(); line != lines_.end(); ++line)
      if (line->rank != kMust && (least == lines_.end() || line->rank >= least->rank)) least = line;
    if (least == lines_.end()) return;
    lines_.erase(least);
  }
}

std::string ScreenLines::text() && {
  shorten();
  std::string out;
  for (const Line& line : lines_) {
    std::string body = line.text, label;
    for (std::size_t at = 0; !line.label.empty() && (at = body.find('\n', at)) != std::string::npos; at += kLabel + 1)
      body.insert(at + 1, std::string(kLabel, ' '));
    if (!line.label.empty()) label = fmt::format("  {:<{}}", line.label, std::max(kLabel - 2, line.label.size() + 1));
    // A terminal may be narrower than the lines are.
    std::string whole = look_.width < kWidth ? wrapped(label + body, look_.width, line.label.empty() ? 2 : kLabel) : label + body;
    if (line.whole || label.empty())
      out += toned(whole, line.tone, look_);
    else
      out += "  " + toned(std::string_view(whole).substr(2, line.label.size()), line.tone, look_) + whole.substr(2 + line.label.size());
    out += '\n';
  }
  return out;
}

}  // namespace saturate
