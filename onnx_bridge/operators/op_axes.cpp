#include "onnx_bridge/operators/op_axes.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <string>
#include <unordered_map>

#include "onnx_bridge/operators/op_axes_labels.h"
#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace axis_lines {

// One sign of a term.
struct Sign {
  char sign = '.';
  bool alike = false;
  bool names() const { return std::isalpha(static_cast<unsigned char>(sign)) != 0; }
  bool together() const { return std::isupper(static_cast<unsigned char>(sign)) != 0 || sign == '@' || sign == '}'; }
  bool is_rest() const { return sign == '*' || sign == '#' || sign == '@' || sign == '~'; }
};

struct Term {
  std::vector<Sign> signs;
  bool scalar = false;    // 0
  bool may_miss = false;  // ?
  bool says_nothing() const { return signs.empty() && !scalar; }
};

struct Guard {
  enum class Kind { kEquals, kGiven, kHas, kHasNot, kBefore };
  Kind kind = Kind::kEquals;
  std::string_view name = {}, value = {};
  int input = 0;
};

struct Line {
  std::vector<Term> inputs, outputs;
  bool more_inputs = false, more_outputs = false;  // the last term again
  std::vector<Guard> guards;
  std::map<char, std::vector<Guard>> of_sign;
};

std::vector<std::string_view> parts(std::string_view text, char at) {
  std::vector<std::string_view> out;
  for (;;) {
    const auto end = text.find(at);
    out.push_back(text.substr(0, end));
    if (end == text.npos) return out;
    text.remove_prefix(end + 1);
  }
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

int number_in(std::string_view text) {
  int out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

Term read_term(std::string_view text) {
  Term term;
  if (text == "0") {
    term.scalar = true;
    return term;
  }
  for (const char c : text) {
    if (c == '?')
      term.may_miss = true;
    else if (c == '!')
      term.signs.back().alike = true;
    else
      term.signs.push_back({c});
  }
  return term;
}

std::vector<Term> read_terms(std::string_view text, bool& more) {
  std::vector<Term> out;
  for (const std::string_view part : parts(text, ',')) {
    more = trimmed(part) == "...";
    if (!more) out.push_back(read_term(trimmed(part)));
  }
  return out;
}

Guard read_guard(std::string_view text) {
  if (text.starts_with("opset<")) return {Guard::Kind::kBefore, {}, {}, number_in(text.substr(6))};
  if (const auto at = text.find('='); at != text.npos) return {Guard::Kind::kEquals, text.substr(0, at), text.substr(at + 1)};
  if (text.ends_with('?')) return {Guard::Kind::kGiven, text.substr(0, text.size() - 1)};
  if (text.starts_with("no")) return {Guard::Kind::kHasNot, {}, {}, number_in(text.substr(2))};
  return {Guard::Kind::kHas, {}, {}, number_in(text.substr(3))};
}

Line read_line(std::string_view text) {
  Line line;
  const std::vector<std::string_view> sections = parts(text, '|');
  const auto arrow = sections[0].find("->");
  if (arrow > 0) line.inputs = read_terms(sections[0].substr(0, arrow), line.more_inputs);
  line.outputs = read_terms(sections[0].substr(arrow + 2), line.more_outputs);
  for (std::string_view section : std::span(sections).subspan(1)) {
    section = trimmed(section);
    std::vector<Guard>* into = &line.guards;
    if (section.size() > 1 && section[1] == ':') {
      into = &line.of_sign[section[0]];
      section = trimmed(section.substr(2));
    }
    for (const std::string_view guard : parts(section, ' ')) into->push_back(read_guard(guard));
  }
  return line;
}

struct Entry {
  std::vector<Line> lines;
  LabelsBy by = nullptr;
};

const std::unordered_map<std::string_view, Entry>& axes_table() {
  static const auto* const made = [] {
    auto* out = new std::unordered_map<std::string_view, Entry>;
#define AXES(op, text) (*out)[op].lines.push_back(read_line(text));
#define AXES_BY(op, function) (*out)[op].by = function;
#include "onnx_bridge/operators/op_axes.inc"
#undef AXES
#undef AXES_BY
    return out;
  }();
  return *made;
}

// What op_traits.inc says is enough for.
const Entry* entry_by_traits(const OperatorTraits& traits) {
  static const Entry elementwise{{read_line("*,...->*")}}, reduction{{}, by_reduced};
  if (traits.has(Trait::kElementwise)) return &elementwise;
  return traits.has(Trait::kReduction) ? &reduction : nullptr;
}

const Entry* entry_of(std::string_view domain, std::string_view op_type) {
  std::string name(domain);
  if (!name.empty()) name += '.';
  name += op_type;
  if (const auto it = axes_table().find(name); it != axes_table().end()) return &it->second;
  const OperatorTraits* traits = traits_of(domain, op_type);
  return traits ? entry_by_traits(*traits) : nullptr;
}

bool holds(const OpView& op, const Guard& guard) {
  switch (guard.kind) {
    case Guard::Kind::kGiven:
      return op.attribute(guard.name) != nullptr;
    case Guard::Kind::kHas:
    case Guard::Kind::kHasNot:
      return op.has({guard.input}) == (guard.kind == Guard::Kind::kHas);
    case Guard::Kind::kBefore:
      return op.opset() < guard.input;
    case Guard::Kind::kEquals:
      break;
  }
  if (const auto text = text_of(op, guard.name)) return *text == guard.value;
  return int_of(op, guard.name).value_or(0) == number_in(guard.value);
}

// The labels of a line, where the ranks fit.
class LineLabels {
 public:
  LineLabels(const OpView& op, const Line& line) : op_(op), line_(line) {}

  std::optional<OpLabels> labels() && {
    if (std::any_of(line_.guards.begin(), line_.guards.end(), [&](const Guard& g) { return !holds(op_, g); })) return std::nullopt;
    if (!find_axis()) return std::nullopt;
    OpLabels out;
    if (!read(false, out.inputs) || !read(true, out.outputs)) return std::nullopt;
    return out;
  }

 private:
  const Term* term(Port port) const {
    const std::vector<Term>& terms = port.output ? line_.outputs : line_.inputs;
    const auto i = static_cast<std::size_t>(port.index);
    if (i < terms.size()) return &terms[i];
    return (port.output ? line_.more_outputs : line_.more_inputs) && !terms.empty() ? &terms.back() : nullptr;
  }
  static std::size_t place(const Term& term, char sign) {
    return static_cast<std::size_t>(std::find_if(term.signs.begin(), term.signs.end(), [&](const Sign& s) { return s.sign == sign; }) -
                                    term.signs.begin());
  }

  // How many axes are before and behind the attribute `axis`, as the first value counts them that has that axis itself.
  bool find_axis() {
    for (const bool output : {false, true})
      for (int i = 0; i < (output ? op_.outputs() : op_.inputs()); ++i) {
        const Term* term = this->term({i, output});
        if (!term || term->may_miss || !op_.has({i, output})) continue;
        const std::size_t at = place(*term, '<'), end = std::min(place(*term, '>'), place(*term, '}'));
        const bool up_to_end = at < term->signs.size() && end < term->signs.size() && term->signs[end].sign == '}';
        if (at >= term->signs.size() || (!up_to_end && end != at + 2) || term->signs[at + 1].is_rest()) continue;
        const auto rank = op_.rank({i, output});
        auto axis = int_of(op_, "axis");
        if (!rank || !axis) return false;
        if (*axis < 0) *axis += *rank;
        if (*axis < 0 || *axis >= *rank + (up_to_end ? 1 : 0)) return false;
        before_ = static_cast<int>(*axis) - static_cast<int>(at);
        behind_ = *rank - static_cast<int>(*axis) - (up_to_end ? 0 : 1);
        return before_ >= 0;
      }
    return true;
  }

  bool read(bool output, std::vector<AxisLabels>& into) {
    for (int i = 0; i < (output ? op_.outputs() : op_.inputs()); ++i) {
      into.emplace_back();
      if (!op_.has({i, output})) continue;
      const Term* term = this->term({i, output});
      if (!term) return false;
      if (term->says_nothing()) continue;
      const auto rank = op_.rank({i, output});
      if (!rank || !read(*term, *rank, into.back())) return false;
    }
    return true;
  }

  bool read(const Term& term, int rank, AxisLabels& into) {
    if (term.scalar) return rank == 0;
    int fixed = 0;
    const Sign* rest = nullptr;
    for (const Sign& sign : term.signs) {
      if (sign.is_rest()) rest = &sign;
      fixed += length(sign);
    }
    const int left = rank - fixed;
    if (rest ? left < 0 : term.may_miss ? left > 0 : left != 0) return false;
    for (const Sign& sign : term.signs) {
      const int count = &sign == rest ? left : length(sign);
      for (int k = 0; k < count; ++k) into.push_back(label(sign, sign.sign == '<' ? k : count - 1 - k));
    }
    if (left < 0) into.erase(into.begin(), into.begin() - left);
    return true;
  }

  int length(const Sign& sign) const {
    if (sign.is_rest()) return 0;
    return sign.sign == '<' ? before_ : sign.sign == '>' || sign.sign == '}' ? behind_ : 1;
  }

  AxisLabel label(const Sign& sign, int place) {
    if (sign.sign == '.' || sign.sign == '~') return {};
    if (const auto it = line_.of_sign.find(sign.sign); it != line_.of_sign.end())
      if (std::any_of(it->second.begin(), it->second.end(), [&](const Guard& g) { return !holds(op_, g); })) return {};
    return {sign.sign * 64 + (sign.names() ? 0 : place) + 1, sign.together(), sign.alike};
  }

  const OpView& op_;
  const Line& line_;
  int before_ = 0, behind_ = 0;
};

std::optional<OpLabels> labels_of(const OpView& op, const Entry& entry) {
  if (entry.by) return entry.by(op);
  for (const Line& line : entry.lines)
    if (auto labels = LineLabels(op, line).labels()) return labels;
  return std::nullopt;
}

// Which axes have one entry for all, and whether the others can be of the same size.
bool settle(const OpView& op, AxisLink& link, bool alike) {
  std::vector<AxisAt*> all;
  for (AxisAt& at : link.inputs) all.push_back(&at);
  for (AxisAt& at : link.outputs) all.push_back(&at);
  const auto size = [&](const AxisAt* at) { return op.size(at->port, at->axis); };
  const bool ones = std::all_of(all.begin(), all.end(), [&](const AxisAt* at) { return size(at) == 1; });
  const AxisAt* first = nullptr;
  for (AxisAt* at : all) {
    at->one = !ones && size(at) == 1;
    if (at->one) continue;
    if (!first) first = at;
    const auto a = size(first), b = size(at);
    if (a && b ? *a != *b : alike && !op.same_sizes(first->port, first->axis, first->axis + 1, at->port, at->axis, at->axis + 1))
      return false;
  }
  return std::any_of(link.inputs.begin(), link.inputs.end(), [](const AxisAt& at) { return !at.one; }) &&
         std::none_of(link.outputs.begin(), link.outputs.end(), [](const AxisAt& at) { return at.one; });
}

OpAxes linked(const OpView& op, const OpLabels& labels) {
  struct Found {
    AxisLink link;
    bool alike = false, twice = false;
  };
  std::map<int, Found> found;
  const auto see = [&](const std::vector<AxisLabels>& values, bool output) {
    for (std::size_t i = 0; i < values.size(); ++i)
      for (std::size_t k = 0; k < values[i].size(); ++k) {
        const AxisLabel& label = values[i][k];
        if (label.id == 0) continue;
        Found& f = found[label.id];
        const Port port{static_cast<int>(i), output};
        f.twice = f.twice || f.link.of(port);
        f.alike = f.alike || label.alike;
        if (label.together) f.link.apart = false;
        (output ? f.link.outputs : f.link.inputs).push_back({port, static_cast<int>(k)});
      }
  };
  see(labels.inputs, false);
  see(labels.outputs, true);
  OpAxes out{.sizes = labels.sizes};
  for (auto& [id, f] : found)
    if (!f.twice && (!f.link.apart || !f.link.outputs.empty()) && settle(op, f.link, f.alike)) out.links.push_back(std::move(f.link));
  return out;
}

}  // namespace axis_lines

const AxisAt* AxisLink::of(Port port) const {
  for (const AxisAt& at : port.output ? outputs : inputs)
    if (at.port == port) return &at;
  return nullptr;
}

const AxisLink* OpAxes::link(Port port, int axis) const {
  for (const AxisLink& link : links)
    if (const AxisAt* at = link.of(port); at && at->axis == axis) return &link;
  return nullptr;
}

const AxisLink* OpAxes::apart(Port port, int axis) const {
  const AxisLink* found = link(port, axis);
  return found && found->apart ? found : nullptr;
}

std::optional<OpAxes> axes_of(const OpView& op) {
  const axis_lines::Entry* entry = axis_lines::entry_of(op.domain(), op.op_type());
  if (!entry) return std::nullopt;
  const auto labels = axis_lines::labels_of(op, *entry);
  return labels ? std::optional(axis_lines::linked(op, *labels)) : std::nullopt;
}

bool tells_axes(std::string_view domain, std::string_view op_type) { return axis_lines::entry_of(domain, op_type) != nullptr; }

std::vector<std::string_view> operators_with_axes() {
  std::vector<std::string_view> out;
  for (const auto& [name, entry] : axis_lines::axes_table()) out.push_back(name);
  for (const OperatorTraits& traits : all_op_traits())
    if (!axis_lines::axes_table().contains(traits.name) && axis_lines::entry_by_traits(traits)) out.push_back(traits.name);
  std::sort(out.begin(), out.end());
  return out;
}

namespace axis_lines {

const Attribute* with_default(const OpView& op, std::string_view name) {
  if (const Attribute* given = op.attribute(name)) return given;
  const OpSchema* schema = find_schema(op.domain(), op.op_type(), op.opset());
  const OpAttribute* declared = schema ? schema->attribute(name) : nullptr;
  return declared && declared->default_value ? &*declared->default_value : nullptr;
}

}  // namespace axis_lines

std::optional<std::int64_t> int_of(const OpView& op, std::string_view name) {
  const Attribute* found = axis_lines::with_default(op, name);
  const auto* value = found ? std::get_if<std::int64_t>(&found->value) : nullptr;
  return value ? std::optional(*value) : std::nullopt;
}

std::optional<std::string_view> text_of(const OpView& op, std::string_view name) {
  const Attribute* found = axis_lines::with_default(op, name);
  const auto* value = found ? std::get_if<std::string>(&found->value) : nullptr;
  return value ? std::optional(std::string_view(*value)) : std::nullopt;
}

}  // namespace saturate
