#include "tools/transform/fields.h"

#include <algorithm>

#include "egraph/text/read_json.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "tools/io/option_checks.h"
#include "tools/io/terminal.h"

namespace saturate {
namespace {

using nlohmann::json;

absl::Status error(std::string_view pass, std::string_view field, std::string_view value, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("pass {}: {}: {}{}{}", pass, field, value, value.empty() ? "" : ": ", what));
}

std::string short_text(const json& value) {
  constexpr std::size_t kMost = 80;
  std::string text = json_text(value, -1);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

bool is_whole(const json& value, const Field& field) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) return false;
  return value.get<std::int64_t>() >= field.low;
}

bool is_text(const json& value, const Field& field) {
  if (!value.is_string()) return false;
  return field.allowed.empty() || std::find(field.allowed.begin(), field.allowed.end(), value.get<std::string>()) != field.allowed.end();
}

bool is_dim(const json& value) {
  return (value.is_number_integer() && value.get<std::int64_t>() >= 0) || (value.is_string() && !value.get<std::string>().empty());
}

template <typename Check>
bool all(const json& value, bool object, Check check) {
  return (object ? value.is_object() : value.is_array()) && std::all_of(value.begin(), value.end(), check);
}

bool fits(const Field& field, const json& value) {
  const auto whole = [&](const json& v) { return is_whole(v, field); };
  const auto text = [&](const json& v) { return is_text(v, field); };
  switch (field.type) {
    case FieldType::kFlag:
      return value.is_boolean();
    case FieldType::kWhole:
      return whole(value);
    case FieldType::kNumber:
      return value.is_number();
    case FieldType::kText:
      return text(value);
    case FieldType::kTexts:
      return all(value, false, text);
    case FieldType::kWholes:
      return all(value, false, whole);
    case FieldType::kPairs:
      return all(value, true, text);
    case FieldType::kSizes:
      return all(value, true, whole);
    case FieldType::kShapes:
      return all(value, true, [](const json& shape) { return all(shape, false, is_dim); });
  }
  return false;
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

json word(const std::string& text, bool whole) {
  const auto number = whole ? parse_int(text) : std::nullopt;
  return number ? json(*number) : json(text);
}

// "1,3,h,w" or "1x3xhxw".
json dims_of(const std::string& text) {
  json dims = json::array();
  if (text.empty()) return dims;
  for (const std::string& dim : split(text, text.find(',') == std::string::npos ? 'x' : ',')) dims.push_back(word(dim, true));
  return dims;
}

// NAME=VALUE,NAME=VALUE; of shapes NAME:1,3,224 NAME:... with a '+' between.
json by_name(const Field& field, const std::string& text) {
  const bool shapes = field.type == FieldType::kShapes;
  json out = json::object();
  for (const std::string& item : split(text, shapes ? '+' : ',')) {
    const std::size_t mid = shapes ? item.rfind(':') : item.find('=');
    if (mid == std::string::npos || mid == 0) return item;  // no object: the check says what is allowed
    const std::string value = item.substr(mid + 1);
    out[item.substr(0, mid)] = shapes ? dims_of(value) : word(value, field.type == FieldType::kSizes);
  }
  return out;
}

json value_of(const Field& field, const std::string& text) {
  switch (field.type) {
    case FieldType::kFlag:
      return text == "true" ? json(true) : text == "false" ? json(false) : json(text);
    case FieldType::kWhole:
      return word(text, true);
    case FieldType::kNumber: {
      const json number = read_json(text).value_or(json());
      return number.is_number() ? number : json(text);
    }
    case FieldType::kText:
      return text;
    case FieldType::kTexts:
    case FieldType::kWholes: {
      json out = json::array();
      if (!text.empty())
        for (const std::string& item : split(text, ',')) out.push_back(word(item, field.type == FieldType::kWholes));
      return out;
    }
    case FieldType::kPairs:
    case FieldType::kSizes:
    case FieldType::kShapes:
      return by_name(field, text);
  }
  return text;
}

std::vector<std::string> names_of(const std::vector<Field>& fields) {
  std::vector<std::string> names;
  std::transform(fields.begin(), fields.end(), std::back_inserter(names), [](const Field& f) { return std::string(f.name); });
  return names;
}

}  // namespace

std::string allowed_text(const Field& field) {
  const std::string least = field.low == std::numeric_limits<std::int64_t>::min() ? "" : fmt::format(" from {} on", field.low);
  const std::string words = field.allowed.empty() ? "text" : fmt::format("one of {}", fmt::join(field.allowed, ", "));
  switch (field.type) {
    case FieldType::kFlag:
      return "true or false";
    case FieldType::kWhole:
      return "a whole number" + least;
    case FieldType::kNumber:
      return "a number";
    case FieldType::kText:
      return words;
    case FieldType::kTexts:
      return field.allowed.empty() ? "a list of texts" : fmt::format("a list, each {}", words);
    case FieldType::kWholes:
      return fmt::format("a list of whole numbers{}", least);
    case FieldType::kPairs:
      return field.allowed.empty() ? "texts by name, {\"old\": \"new\"} or old=new" : fmt::format("by name {}", words);
    case FieldType::kSizes:
      return fmt::format("whole numbers{} by name, {{\"n\": 1}} or n=1", least);
    case FieldType::kShapes:
      return "lists of dims by name, {\"x\": [1, 3, \"h\"]} or x:1,3,h";
  }
  return "";
}

absl::StatusOr<Arguments> Arguments::from_json(std::string_view pass, const std::vector<Field>& fields, const json& given) {
  Arguments out;
  out.pass_ = pass;
  for (const auto& [name, value] : given.items()) {
    const auto field = std::find_if(fields.begin(), fields.end(), [&, &wanted = name](const Field& f) { return f.name == wanted; });
    if (field == fields.end()) {
      const std::string near = nearest(name, names_of(fields)), has = fmt::format("{}", fmt::join(names_of(fields), ", "));
      return error(pass, name, short_text(value),
                   fmt::format("no such field; {}", fields.empty() ? "the pass has none"
                                                    : near.empty() ? fmt::format("it has {}", has)
                                                                   : fmt::format("did you mean {}? It has {}", near, has)));
    }
    if (!fits(*field, value)) return error(pass, name, short_text(value), fmt::format("give {}", allowed_text(*field)));
    out.values_[name] = value;
  }
  for (const Field& field : fields) {
    if (out.values_.contains(field.name)) continue;
    if (field.required()) return error(pass, field.name, "not given", fmt::format("give {}", allowed_text(field)));
    out.values_[std::string(field.name)] = *read_json(field.otherwise);
  }
  return out;
}

absl::StatusOr<Arguments> Arguments::from_text(std::string_view pass, const std::vector<Field>& fields, std::string_view text) {
  json given = json::object();
  if (text.starts_with("{")) {
    given = read_json(text).value_or(json());
    if (!given.is_object())
      return absl::InvalidArgumentError(fmt::format("pass {}: {}: no JSON object; give {{\"field\": value}}", pass, text));
    return from_json(pass, fields, given);
  }
  const auto parts = text.empty() ? std::vector<std::string>() : split(text, ';');
  for (const std::string& part : parts) {
    const std::string name = part.substr(0, std::min(part.find('='), part.size()));
    const auto named =
        std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return part.size() > name.size() && f.name == name; });
    if (fields.empty()) return error(pass, "options", part, "the pass has no fields; leave it out");
    const Field& field = named != fields.end() ? *named : fields.front();
    if (given.contains(field.name)) return error(pass, field.name, part, "it is given twice; give it once");
    given[std::string(field.name)] = value_of(field, named != fields.end() ? part.substr(name.size() + 1) : part);
  }
  return from_json(pass, fields, given);
}

absl::Status Arguments::wrong(const char* field, std::string_view value, std::string_view what) const {
  return error(pass_, field, value.empty() ? std::string() : fmt::format("'{}'", value), what);
}

}  // namespace saturate
