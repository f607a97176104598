#include "extract/target/load_pattern.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "egraph/text/read_json.h"
#include "extract/runtimes/builtin.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/convert/op_key.h"

namespace saturate {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : all_(text), text_(text) {}

  absl::StatusOr<LoadPattern> whole() {
    LoadPattern out;
    if (!term(out) || !wrong_.empty()) return fault();
    blanks();
    if (!text_.empty()) return wrong("nothing more"), fault();
    return out;
  }

 private:
  absl::Status fault() const {
    return absl::InvalidArgumentError(fmt::format("pattern '{}': wanted {} before '{}'", all_, wrong_, text_.substr(0, 20)));
  }
  bool wrong(std::string_view wanted) {
    if (wrong_.empty()) wrong_ = wanted;
    return false;
  }

  void blanks() {
    while (!text_.empty() && text_.front() == ' ') text_.remove_prefix(1);
  }
  bool skip(std::string_view mark) {
    blanks();
    if (!text_.starts_with(mark)) return false;
    text_.remove_prefix(mark.size());
    return true;
  }

  // "name", "Op", "com.microsoft::Op"; empty where none is there.
  std::string word() {
    blanks();
    std::size_t n = 0;
    const auto is_part = [&](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == ':' || c == '.'; };
    while (n < text_.size() && is_part(text_[n])) {
      // A colon ends the name of an attribute, two are part of an operator's.
      if (text_[n] == ':' && !(text_.substr(n).starts_with("::") || (n > 0 && text_[n - 1] == ':'))) break;
      ++n;
    }
    const std::string out(text_.substr(0, n));
    text_.remove_prefix(n);
    return out;
  }

  bool term(LoadPattern& out) {
    blanks();
    if (text_.empty()) return wrong("an operator, a value or a number");
    if (text_.starts_with("...")) {
      text_.remove_prefix(3);
      out.what = LoadPattern::What::kRest;
      return true;
    }
    if (const char c = text_.front(); c == '-' || std::isdigit(static_cast<unsigned char>(c))) return number(out);
    std::string first = word();
    if (first.empty()) return wrong("an operator, a value or a number");
    if (skip("=")) out.name = std::move(first), first = word();
    out.operators.push_back(first);
    while (skip("|")) out.operators.push_back(word());
    for (const std::string& name : out.operators) out.operator_bits |= operator_bit("", name);
    if (skip("[") && !attributes(out)) return false;
    if (skip("(")) return inputs(out);
    if (out.operators.size() > 1 || !out.name.empty()) return wrong("the inputs of an operator");
    out.name = out.operators.front();
    out.operators.clear();
    out.constant = skip("!");
    if (const std::size_t dot = out.name.find('.'); dot != std::string::npos) {
      out.output = static_cast<std::size_t>(std::atoi(out.name.c_str() + dot + 1));
      out.name.resize(dot);
    }
    return true;
  }

  bool number(LoadPattern& out) {
    out.what = LoadPattern::What::kNumber;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), out.number);
    if (error != std::errc()) return wrong("a number");
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return true;
  }

  bool attributes(LoadPattern& out) {
    do {
      if (skip("*")) {
        out.attributes_of = word();
        continue;
      }
      const std::string name = word();
      if (name.empty() || !skip(":")) return wrong("an attribute as name:value");
      const std::size_t end = text_.starts_with("[") ? text_.find(']') + 1 : std::min(text_.find(','), text_.find(']'));
      if (end == std::string_view::npos || end == 0) return wrong("a value of the attribute");
      out.attributes[name] = {std::string(text_.substr(0, end))};
      text_.remove_prefix(end);
    } while (skip(","));
    return skip("]") || wrong("]");
  }

  bool inputs(LoadPattern& out) {
    out.what = LoadPattern::What::kOperator;
    do {
      if (!term(out.children.emplace_back())) return false;
    } while (skip(","));
    return skip(")") || wrong(")");
  }

  std::string_view all_, text_;
  std::string wrong_;
};

void keep_order(LoadPattern& pattern) {
  pattern.in_order = true;
  for (LoadPattern& child : pattern.children) keep_order(child);
}

bool has_other_outputs(const LoadPattern& pattern) {
  return pattern.output > 0 || std::any_of(pattern.children.begin(), pattern.children.end(), has_other_outputs);
}

}  // namespace

bool is_of_choices(const LoadFusion& fusion) {
  const auto& made = fusion.becomes.children;
  const auto is_operator = [](const LoadPattern& p) { return p.what == LoadPattern::What::kOperator; };
  return !fusion.in_order && fusion.may_stay.empty() && !has_other_outputs(fusion.pattern) &&
         std::none_of(made.begin(), made.end(), is_operator);
}

absl::StatusOr<LoadPattern> parse_load_pattern(std::string_view text) { return Parser(text).whole(); }

namespace {

absl::StatusOr<std::vector<LoadFusion>> load_fusions_in(const nlohmann::json& list) {
  using Names = std::vector<std::string>;
  std::vector<LoadFusion> out;
  for (const auto& f : list) {
    LoadFusion& fusion = out.emplace_back();
    fusion.text = f.at("pattern"), fusion.becomes_text = f.at("becomes");
    absl::StatusOr<LoadPattern> pattern = parse_load_pattern(fusion.text), becomes = parse_load_pattern(fusion.becomes_text);
    if (!pattern.ok()) return pattern.status();
    if (!becomes.ok()) return becomes.status();
    fusion.pattern = *std::move(pattern), fusion.becomes = *std::move(becomes);
    fusion.ranks = f.value("ranks", std::map<std::string, std::vector<int>>());
    fusion.last_axis = f.value("last_axis", std::map<std::string, std::string>());
    fusion.one_element = f.value("one_element", Names());
    fusion.all_sizes_known = f.value("all_sizes_known", Names());
    fusion.swaps_last_two = f.value("swaps_last_two", Names());
    fusion.same_shape = f.value("same_shape", Names());
    fusion.same_type = f.value("same_type", std::map<std::string, std::string>());
    fusion.same_rank = f.value("same_rank", std::map<std::string, std::string>());
    fusion.per_filter = f.value("per_filter", std::map<std::string, std::string>());
    fusion.may_stay = f.value("may_stay", Names());
    fusion.basic = f.value("basic", false);
    fusion.in_order = f.value("in_order", false);
    if (fusion.in_order) keep_order(fusion.pattern);
    fusion.at_least = f.value("at_least", std::map<std::string, double>());
    fusion.beside = f.value("beside", std::map<std::string, int>());
    fusion.since = f.value("since", std::string()), fusion.before = f.value("before", std::string());
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<LoadFusion>> parse_load_fusions(std::string_view list) {
  const auto all = read_json(std::string(list));
  if (!all.ok()) return all.status();
  auto out = load_fusions_in(*all);
  for (std::size_t i = 0; out.ok() && i < out->size(); ++i) (*out)[i].json = all->at(i).dump();
  return out;
}

const std::vector<LoadFusion>& known_load_fusions() {
  static const std::vector<LoadFusion> known = *load_fusions_in(read_json(std::string(kFusions))->at("fusions"));
  return known;
}

std::vector<const LoadFusion*> load_fusions_of(const Target& target) {
  std::vector<const LoadFusion*> out;
  if (target.fusions)
    for (const LoadFusion& fusion : *target.fusions) out.push_back(&fusion);
  if (!target.fuses_at_load || target.fusions) return out;
  const auto is_made = [&](const LoadFusion& f) {
    if (!target.release) return f.before.empty();
    const std::string& version = target.release->version;
    return (f.since.empty() || !is_before(version, f.since)) && (f.before.empty() || is_before(version, f.before));
  };
  for (const LoadFusion& fusion : known_load_fusions())
    if (is_made(fusion)) out.push_back(&fusion);
  return out;
}

namespace {

Attribute attribute_of(const std::string& name, const std::string& text) {
  const auto value = *read_json(text);
  if (value.is_array()) return Attribute::of(name, value.get<std::vector<std::int64_t>>());
  if (value.is_string()) return Attribute::of(name, value.get<std::string>());
  if (value.is_number_float()) return Attribute::of(name, value.get<float>());
  return Attribute::of(name, value.get<std::int64_t>());
}

}  // namespace

OpKey fused_key(const LoadPattern& becomes, const std::vector<Attribute>* others, std::optional<int> rank) {
  std::vector<Attribute> attributes;
  for (const auto& [name, text] : becomes.attributes) attributes.push_back(attribute_of(name, text.front()));
  if (others)
    for (const Attribute& a : *others)
      if (!becomes.attributes.contains(a.name)) attributes.push_back(a);
  const std::string_view name = becomes.operators.front();
  const std::size_t colon = name.find("::");
  const bool foreign = colon != std::string_view::npos;
  OpKey key = make_key(foreign ? name.substr(0, colon) : "", foreign ? name.substr(colon + 2) : name, std::move(attributes), 1, rank);
  key.role = UnitRole::kFused;
  return key;
}

}  // namespace saturate
