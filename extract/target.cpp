#include "extract/target.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "extract/builtin_targets.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace saturate {
namespace {

std::string qualified(const OpKey& key) { return key.domain.empty() ? key.op_type : key.domain + "::" + key.op_type; }

absl::StatusOr<Target> parse_target(const std::string& text, const std::string& place) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false, /*ignore_comments=*/true);
  if (json.is_discarded() || !json.is_object())
    return absl::InvalidArgumentError(fmt::format("{}: not a JSON object; see `saturate targets show ort-cpu` for the form", place));
  Target t;
  try {
    for (const auto& [key, value] : json.items()) {
      if (key == "name")
        t.name = value.get<std::string>();
      else if (key == "description")
        t.description = value.get<std::string>();
      else if (key == "min_opset")
        t.min_opset = value.get<std::int64_t>();
      else if (key == "max_opset")
        t.max_opset = value.get<std::int64_t>();
      else if (key == "cost_model")
        t.cost_model = value.get<std::string>();
      else if (key == "domains")
        for (const auto& [domain, ops] : value.items()) t.operators[domain] = ops.get<std::set<std::string>>();
      else if (key == "forbidden")
        t.forbidden = value.get<std::set<std::string>>();
      else if (key == "dtypes")
        for (const auto& [op, dtypes] : value.items()) t.dtypes[op] = dtypes.get<std::vector<std::string>>();
      else if (key == "forced")
        for (const auto& f : value)
          t.forced.push_back({f.at("producer"), f.at("consumer"), f.at("becomes"), f.value("constant_operand", false),
                              f.value("versions", std::string())});
      else
        return absl::InvalidArgumentError(fmt::format(
            "{}: unknown key '{}'; known are name, description, min_opset, max_opset, cost_model, domains, forbidden, dtypes, forced",
            place, key));
    }
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(fmt::format("{}: a value of the wrong type ({})", place, error.what()));
  }
  for (const auto& [op, dtypes] : t.dtypes)
    for (const std::string& d : dtypes)
      if (!parse_dtype(d)) return absl::InvalidArgumentError(fmt::format("{}: dtypes of {}: '{}' is no element type", place, op, d));
  if (t.name.empty()) return absl::InvalidArgumentError(fmt::format("{}: \"name\" is missing", place));
  if (t.min_opset > t.max_opset)
    return absl::InvalidArgumentError(fmt::format("{}: min_opset {} is above max_opset {}", place, t.min_opset, t.max_opset));
  return t;
}

}  // namespace

bool Target::allows(const OpKey& key, const Facts& first_input, std::int64_t, std::string* why) const {
  auto refuse = [&](std::string reason) {
    if (why) *why = std::move(reason);
    return false;
  };
  const std::string name_of_op = qualified(key);
  if (forbidden.contains(name_of_op)) return refuse(fmt::format("target {} forbids {}", name, name_of_op));
  if (!is_standard(key)) {
    auto it = operators.find(key.domain);
    if (it == operators.end() || !(it->second.contains("*") || it->second.contains(key.op_type)))
      return refuse(fmt::format("target {} has no {}", name, name_of_op));
  }
  if (auto it = dtypes.find(name_of_op); it != dtypes.end()) {
    const std::string dtype = dtype_name(first_input.dtype);
    if (first_input.dtype != DType::kUndefined && std::find(it->second.begin(), it->second.end(), dtype) == it->second.end())
      return refuse(fmt::format("target {} has no {} for {}", name, name_of_op, dtype));
  }
  return true;
}

absl::StatusOr<Target> load_target(const std::string& name_or_path) {
  for (const auto& [name, text] : kBuiltinTargets)
    if (name == name_or_path) return parse_target(std::string(text), std::string(name));
  std::ifstream file(name_or_path);
  if (!file) {
    std::string known;
    for (const auto& [name, text] : kBuiltinTargets) known += (known.empty() ? "" : ", ") + std::string(name);
    return absl::NotFoundError(fmt::format("{}: no such target or file; built in are {}", name_or_path, known));
  }
  std::stringstream text;
  text << file.rdbuf();
  return parse_target(text.str(), name_or_path);
}

std::vector<std::string> builtin_targets() {
  std::vector<std::string> names;
  for (const auto& [name, text] : kBuiltinTargets) names.emplace_back(name);
  return names;
}

}  // namespace saturate
