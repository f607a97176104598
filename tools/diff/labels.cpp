#include "tools/diff/labels.h"

#include <algorithm>
#include <cctype>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/file/io.h"

namespace saturate {
namespace {

constexpr std::string_view kNameScopes = "pkg.torch.onnx.name_scopes";

// The last but one of "['', 'encoder', 'encoder.layer.0', 'view_4']": the last is the node itself.
std::string scope_in(std::string_view list) {
  std::vector<std::string> parts;
  for (std::size_t at = list.find('\''); at != std::string_view::npos;) {
    const std::size_t end = list.find('\'', at + 1);
    if (end == std::string_view::npos) break;
    parts.emplace_back(list.substr(at + 1, end - at - 1));
    at = list.find('\'', end + 1);
  }
  return parts.size() < 2 ? "" : parts[parts.size() - 2];
}

struct NamePart {
  std::string text;
  bool number = false;
  bool operator==(const NamePart&) const = default;
};

std::vector<NamePart> parts_of(const std::string& name) {
  std::vector<NamePart> out;
  for (const char c : name) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (out.empty() || out.back().number != digit) out.push_back({"", digit});
    out.back().text += c;
  }
  return out;
}

std::string number_list(std::vector<std::string> numbers) {
  std::sort(numbers.begin(), numbers.end(),
            [](const std::string& a, const std::string& b) { return std::pair(a.size(), a) < std::pair(b.size(), b); });
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  constexpr std::size_t kMost = 6;
  if (numbers.size() == 1) return numbers[0];
  const bool small = numbers.back().size() < 9;
  const bool dense = small && std::stoul(numbers.back()) - std::stoul(numbers.front()) + 1 == numbers.size();
  if (dense && numbers.size() > 2) return fmt::format("{{{}..{}}}", numbers.front(), numbers.back());
  if (numbers.size() <= kMost) return fmt::format("{{{}}}", fmt::join(numbers, ","));
  return fmt::format("{{{},{}..{}}}", numbers[0], numbers[1], numbers.back());
}

// Names that differ in one number as one; "" where they differ in more.
std::string folded_by_number(const std::vector<std::string>& names) {
  std::vector<std::vector<NamePart>> parts;
  for (const std::string& name : names) parts.push_back(parts_of(name));
  const std::size_t none = parts[0].size();
  std::size_t place = none;
  for (std::size_t i = 0; i < parts[0].size(); ++i)
    for (const std::vector<NamePart>& p : parts) {
      if (p.size() != parts[0].size()) return "";
      if (p[i] == parts[0][i]) continue;
      if (!p[i].number || !parts[0][i].number || (place != none && place != i)) return "";
      place = i;
    }
  if (place == none) return names[0];
  std::vector<std::string> numbers;
  for (const std::vector<NamePart>& p : parts) numbers.push_back(p[place].text);
  std::string out;
  for (std::size_t i = 0; i < parts[0].size(); ++i) out += i == place ? number_list(numbers) : parts[0][i].text;
  return out;
}

}  // namespace

std::string scope_of_node(const Node& node) {
  const Metadata metadata = metadata_of(node);
  if (const auto it = metadata.find(std::string(kNameScopes)); it != metadata.end())
    if (std::string scope = scope_in(it->second); !scope.empty()) return scope;
  const std::size_t slash = node.name.rfind('/');
  if (slash == std::string::npos || slash == 0) return "";
  return node.name.substr(node.name[0] == '/' ? 1 : 0, slash - (node.name[0] == '/' ? 1 : 0));
}

std::string common_scope(const std::vector<std::string>& scopes) {
  std::string common;
  bool first = true;
  for (const std::string& scope : scopes) {
    if (scope.empty()) continue;
    if (first) {
      common = scope;
      first = false;
      continue;
    }
    std::size_t same = 0;
    while (same < common.size() && same < scope.size() && common[same] == scope[same]) ++same;
    const auto ends = [](const std::string& text, std::size_t at) { return at == text.size() || text[at] == '.' || text[at] == '/'; };
    while (same > 0 && !(ends(common, same) && ends(scope, same))) --same;
    common.resize(same);
  }
  return common;
}

std::string folded_names(const std::vector<std::string>& names) {
  std::vector<std::string> unique;
  for (const std::string& name : names)
    if (std::find(unique.begin(), unique.end(), name) == unique.end()) unique.push_back(name);
  std::vector<std::string> folded;  // with the first
  for (const std::string& name : unique) {
    folded.push_back(name);
    if (folded_by_number(folded).empty()) folded.pop_back();
  }
  if (folded.empty()) return "";
  const std::size_t more = unique.size() - folded.size();
  return folded_by_number(folded) + (more > 0 ? fmt::format(" and {} more", more) : "");
}

std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(", "), text.size());
    if (end > 0) out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return out;
}

}  // namespace saturate
