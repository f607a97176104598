#include "extract/target/target_json.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "egraph/read_json.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/model/wrong_usage.h"

namespace saturate {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

absl::Status bad(const std::string& message) { return absl::InvalidArgumentError(message); }

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  return error == std::errc() && end == text.data() + text.size() && v > 0 ? std::optional(v) : std::nullopt;
}

absl::StatusOr<std::vector<VersionRange>> parse_versions(std::string_view text) {
  std::vector<VersionRange> out;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    const std::size_t dash = part.find('-');
    VersionRange r;
    const auto low = number(part.ends_with('+') ? part.substr(0, part.size() - 1) : part.substr(0, dash));
    const auto high = dash == std::string_view::npos ? low : number(part.substr(dash + 1));
    if (!low || !high || *high < *low) return bad(fmt::format("'{}' are no versions; wanted e.g. \"7-12,14+\"", std::string(text)));
    r.low = *low;
    if (!part.ends_with('+')) r.high = *high;
    out.push_back(r);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return out;
}

absl::Status check_dtypes(const std::vector<std::string>& dtypes) {
  for (const std::string& d : dtypes)
    if (!parse_dtype(d)) return bad(fmt::format("'{}' is no element type", d));
  return absl::OkStatus();
}

// {"Op": "versions"} or ["Op"].
absl::Status read_standard(const json& value, Target& t) {
  if (value.is_array()) {
    for (const auto& op : value) t.standard[op.get<std::string>()] = {};
    return absl::OkStatus();
  }
  for (const auto& [op, versions] : value.items()) {
    auto ranges = parse_versions(versions.get<std::string>());
    if (!ranges.ok()) return bad(fmt::format("{}: {}", op, std::string(ranges.status().message())));
    t.standard[op] = *std::move(ranges);
  }
  return absl::OkStatus();
}

std::map<std::string, std::vector<std::string>> read_allowed(const json& value) {
  std::map<std::string, std::vector<std::string>> out;
  for (const auto& [name, allowed] : value.items())
    for (const auto& a : allowed) out[name].push_back(a.dump());
  return out;
}

// {"1": ["int8"]}: by the place of an input.
absl::Status read_by_place(const json& value, std::map<int, std::vector<std::string>>& out) {
  for (const auto& [place, dtypes] : value.items()) {
    const std::optional<std::int64_t> number_of = place == "0" ? 0 : number(place);
    if (!number_of) return bad(fmt::format("'{}' is no place of an input", place));
    out[static_cast<int>(*number_of)] = dtypes.get<std::vector<std::string>>();
    if (absl::Status s = check_dtypes(out[static_cast<int>(*number_of)]); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::StatusOr<OperatorLimits> read_limit(const json& entry) {
  OperatorLimits l;
  for (const auto& [key, v] : entry.items()) {
    if (key == "operators")
      l.operators = v.get<std::set<std::string>>();
    else if (key == "except")
      l.except = v.get<std::set<std::string>>();
    else if (key == "rank")
      l.min_rank = l.max_rank = v.get<int>();
    else if (key == "min_rank")
      l.min_rank = v.get<int>();
    else if (key == "max_rank")
      l.max_rank = v.get<int>();
    else if (key == "max_dim")
      l.max_dim = v.get<std::int64_t>();
    else if (key == "max_batch")
      l.max_batch = v.get<std::int64_t>();
    else if (key == "max_heads")
      l.max_heads = v.get<std::int64_t>();
    else if (key == "max_constant")
      l.max_constant = v.get<double>();
    else if (key == "dtypes")
      l.dtypes = v.get<std::vector<std::string>>();
    else if (key == "input_dtypes")
      l.input_dtypes = v.get<std::vector<std::string>>();
    else if (key == "output_dtypes")
      l.output_dtypes = v.get<std::vector<std::string>>();
    else if (key == "dtypes_of_inputs") {
      if (absl::Status s = read_by_place(v, l.dtypes_of_inputs); !s.ok()) return s;
    } else if (key == "min_normalized")
      l.min_normalized = v.get<std::int64_t>();
    else if (key == "static_shapes")
      l.static_shapes = v.get<bool>();
    else if (key == "not_empty")
      l.not_empty = v.get<bool>();
    else if (key == "constant_inputs")
      l.constant_inputs = v.get<std::vector<int>>();
    else if (key == "absent_inputs")
      l.absent_inputs = v.get<std::vector<int>>();
    else if (key == "own_heads")
      l.own_heads = v.get<std::vector<int>>();
    else if (key == "of_self_attention")
      l.of_self_attention = v.get<std::vector<int>>();
    else if (key == "alike")
      l.alike = v.get<std::vector<int>>();
    else if (key == "before")
      l.before = v.get<std::string>();
    else if (key == "attributes")
      l.attributes = read_allowed(v);
    else if (key == "required_attributes")
      l.required_attributes = v.get<std::vector<std::string>>();
    else if (key == "attribute_ranges")
      l.attribute_ranges = v.get<std::map<std::string, std::pair<double, double>>>();
    else if (key == "axis")
      l.axis = v.get<std::vector<int>>();
    else if (key == "because")
      l.because = v.get<std::string>();
    else if (key == "when") {
      absl::StatusOr<OperatorLimits> when = read_limit(v);
      if (!when.ok()) return bad(fmt::format("when: {}", std::string(when.status().message())));
      l.when.push_back(*std::move(when));
    } else
      return bad(fmt::format(
          "unknown key '{}'; known are operators, except, rank, min_rank, max_rank, max_dim, max_batch, max_heads, max_constant, dtypes, "
          "input_dtypes, output_dtypes, dtypes_of_inputs, min_normalized, static_shapes, not_empty, constant_inputs, absent_inputs, "
          "own_heads, of_self_attention, alike, attributes, required_attributes, attribute_ranges, axis, when, before, because",
          key));
  }
  for (const auto* dtypes : {&l.dtypes, &l.input_dtypes, &l.output_dtypes})
    if (absl::Status s = check_dtypes(*dtypes); !s.ok()) return s;
  return l;
}

absl::Status read_limits(const json& value, Target& t) {
  for (const auto& entry : value) {
    absl::StatusOr<OperatorLimits> limit = read_limit(entry);
    if (!limit.ok()) return limit.status();
    t.limits.push_back(*std::move(limit));
  }
  return absl::OkStatus();
}

absl::Status read_wishes(const json& value, Target& t) {
  for (json entry : value) {
    Wish wish;
    if (const auto price = entry.find("price"); price != entry.end()) {
      wish.price = price->get<double>();
      entry.erase(price);
    }
    if (!(wish.price >= 1)) return bad("a wish's price is how many times as much an operator costs: at least 1");
    absl::StatusOr<OperatorLimits> limits = read_limit(entry);
    if (!limits.ok()) return limits.status();
    wish.limits = *std::move(limits);
    t.wishes.push_back(std::move(wish));
  }
  return absl::OkStatus();
}

absl::Status read_units(const json& value, Target& t) {
  for (const auto& entry : value) {
    NodeUnit u;
    for (const auto& [key, v] : entry.items()) {
      if (key == "operators")
        u.operators = v.get<std::set<std::string>>();
      else if (key == "becomes")
        u.becomes = v.get<std::string>();
      else if (key == "inputs")
        u.inputs = v.get<std::vector<std::vector<std::string>>>();
      else if (key == "variadic")
        u.variadic = v.get<bool>();
      else if (key == "quantized")
        u.quantized = v.get<bool>();
      else if (key == "same_parameters")
        u.same_parameters = v.get<bool>();
      else if (key == "constant_inputs")
        u.constant_inputs = v.get<std::set<int>>();
      else if (key == "quantized_at_load")
        u.quantized_at_load = v.get<std::set<int>>();
      else if (key == "quantizes_since")
        u.quantizes_since = v.get<std::string>();
      else if (key == "coarse")
        u.coarse = v.get<bool>();
      else if (key == "attributes")
        u.attributes = read_allowed(v);
      else if (key == "kernel_attributes")
        for (const auto& [name, number] : v.items()) u.kernel_attributes.push_back(Attribute::of(name, number.get<std::int64_t>()));
      else if (key == "versions")
        u.versions = v.get<std::string>();
      else
        return bad(
            fmt::format("node_units: unknown key '{}'; known are operators, becomes, inputs, variadic, quantized, same_parameters, "
                        "constant_inputs, quantized_at_load, quantizes_since, coarse, attributes, kernel_attributes, versions",
                        key));
    }
    if (u.operators.empty() || u.inputs.empty()) return bad("node_units: an entry names operators, and dtypes of their inputs");
    for (const auto& dtypes : u.inputs)
      if (absl::Status s = check_dtypes(dtypes); !s.ok()) return s;
    t.node_units.push_back(std::move(u));
  }
  return absl::OkStatus();
}

// One that is there already, since it holds for every target, is not told twice.
absl::Status read_joins(const json& value, Target& t) {
  for (const auto& j : value) {
    const JoinedAtLoad join{j.at("operator"), j.at("reader"), j.at("becomes"), j.value("versions", std::string())};
    const auto same = [&](const JoinedAtLoad& known) {
      return std::tie(known.op, known.reader, known.becomes) == std::tie(join.op, join.reader, join.becomes);
    };
    if (std::none_of(t.joins.begin(), t.joins.end(), same)) t.joins.push_back(join);
  }
  return absl::OkStatus();
}

// Releases in the order of their versions, whatever their order in the file.
absl::Status read_runtime(const json& value, Target& t) {
  Runtime runtime{value.at("name"), value.value("sources", std::vector<std::string>()), {}};
  for (const auto& [version, what] : value.at("versions").items())
    runtime.releases.push_back({version, what.at("opset"), what.at("ir"), what.value("lacks", std::set<std::string>())});
  std::sort(runtime.releases.begin(), runtime.releases.end(),
            [](const RuntimeRelease& a, const RuntimeRelease& b) { return is_before(a.version, b.version); });
  for (const RuntimeRelease& r : runtime.releases)
    if (const auto known = runtime.at(r.version); !known.ok()) return known.status();
  runtime.usual_release = value.value("usual", std::string());
  if (!runtime.usual_release.empty())
    if (const auto known = runtime.at(runtime.usual_release); !known.ok()) return known.status();
  if (value.contains("installed_with")) runtime.installed_with = value.at("installed_with").get<std::vector<std::string>>();
  t.runtime = std::move(runtime);
  return absl::OkStatus();
}

absl::Status read_key(const std::string& key, const json& value, Target& t) {
  if (key == "name")
    t.name = value.get<std::string>();
  else if (key == "description")
    t.description = value.get<std::string>();
  else if (key == "sources")
    t.sources = value.get<std::vector<std::string>>();
  else if (key == "min_opset")
    t.min_opset = value.get<std::int64_t>();
  else if (key == "max_opset")
    t.max_opset = value.get<std::int64_t>();
  else if (key == "cost_model")
    t.cost_model = value.get<std::string>();
  else if (key == "domains")
    for (const auto& [domain, ops] : value.items()) t.operators[domain] = ops.get<std::set<std::string>>();
  else if (key == "keep_functions")
    t.keep_functions = value.get<bool>();
  else if (key == "standard")
    return read_standard(value, t);
  else if (key == "newest_opset")
    t.newest_opset = value.get<std::map<std::string, std::int64_t>>();
  else if (key == "forbidden")
    t.forbidden.merge(value.get<std::set<std::string>>());
  else if (key == "dtypes")
    for (const auto& [op, dtypes] : value.items()) {
      t.dtypes[op] = dtypes.get<std::vector<std::string>>();
      if (absl::Status s = check_dtypes(t.dtypes[op]); !s.ok()) return bad(fmt::format("{}: {}", op, std::string(s.message())));
    }
  else if (key == "cpu_kernels")
    t.cpu_kernels = value.get<bool>();
  else if (key == "limits")
    return read_limits(value, t);
  else if (key == "wishes")
    return read_wishes(value, t);
  else if (key == "border")
    t.border = value.get<std::set<std::string>>();
  else if (key == "index_ranks")
    for (const auto& i : value) t.index_ranks[i.at("operator")][i.at("input").get<int>()] = {i.at("ranks").at(0), i.at("ranks").at(1)};
  else if (key == "assumes")
    t.assumes = value.get<std::vector<std::string>>();
  else if (key == "load_time_fusions")
    for (const auto& f : value)
      t.load_time_fusions.push_back(
          {f.at("producer"), f.at("consumer"), f.at("becomes"), f.value("constant_operand", false), f.value("versions", std::string())});
  else if (key == "node_units")
    return read_units(value, t);
  else if (key == "joins")
    return read_joins(value, t);
  else if (key == "runtime")
    return read_runtime(value, t);
  else if (key == "fuses_at_load")
    t.fuses_at_load = value.get<bool>();
  else if (key == "images_in_blocks")
    t.images_in_blocks = value.get<bool>();
  else if (key == "quantizes_weights")
    t.quantizes_weights = {value.at("operators").get<std::set<std::string>>(), value.value("versions", std::string())};
  else
    return bad(
        "unknown key; known are extends, name, description, sources, min_opset, max_opset, cost_model, domains, keep_functions, standard, "
        "newest_opset, forbidden, dtypes, cpu_kernels, limits, wishes, border, index_ranks, load_time_fusions, fuses_at_load, "
        "images_in_blocks, node_units, joins, quantizes_weights, runtime, assumes");
  return absl::OkStatus();
}

ordered_json write_allowed(const std::map<std::string, std::vector<std::string>>& attributes) {
  ordered_json out = ordered_json::object();
  for (const auto& [name, allowed] : attributes)
    for (const std::string& a : allowed) out[name].push_back(*read_json<ordered_json>(a));
  return out;
}

ordered_json limits_json(const OperatorLimits& l) {
  ordered_json out = ordered_json::object();
  if (!l.operators.empty()) out["operators"] = l.operators;
  if (!l.except.empty()) out["except"] = l.except;
  if (l.min_rank && l.min_rank == l.max_rank)
    out["rank"] = *l.min_rank;
  else {
    if (l.min_rank) out["min_rank"] = *l.min_rank;
    if (l.max_rank) out["max_rank"] = *l.max_rank;
  }
  if (l.max_dim) out["max_dim"] = *l.max_dim;
  if (l.max_batch) out["max_batch"] = *l.max_batch;
  if (l.max_heads) out["max_heads"] = *l.max_heads;
  if (l.max_constant) out["max_constant"] = *l.max_constant;
  if (!l.dtypes.empty()) out["dtypes"] = l.dtypes;
  if (!l.input_dtypes.empty()) out["input_dtypes"] = l.input_dtypes;
  if (!l.output_dtypes.empty()) out["output_dtypes"] = l.output_dtypes;
  for (const auto& [place, dtypes] : l.dtypes_of_inputs) out["dtypes_of_inputs"][std::to_string(place)] = dtypes;
  if (l.min_normalized) out["min_normalized"] = *l.min_normalized;
  if (l.static_shapes) out["static_shapes"] = true;
  if (l.not_empty) out["not_empty"] = true;
  if (!l.constant_inputs.empty()) out["constant_inputs"] = l.constant_inputs;
  if (!l.absent_inputs.empty()) out["absent_inputs"] = l.absent_inputs;
  if (!l.own_heads.empty()) out["own_heads"] = l.own_heads;
  if (!l.of_self_attention.empty()) out["of_self_attention"] = l.of_self_attention;
  if (!l.alike.empty()) out["alike"] = l.alike;
  if (!l.attributes.empty()) out["attributes"] = write_allowed(l.attributes);
  if (!l.required_attributes.empty()) out["required_attributes"] = l.required_attributes;
  if (!l.attribute_ranges.empty()) out["attribute_ranges"] = l.attribute_ranges;
  if (!l.axis.empty()) out["axis"] = l.axis;
  for (const OperatorLimits& when : l.when) out["when"] = limits_json(when);
  if (!l.before.empty()) out["before"] = l.before;
  if (!l.because.empty()) out["because"] = l.because;
  return out;
}

}  // namespace

std::string versions_text(const std::vector<VersionRange>& ranges) {
  std::string out;
  for (const VersionRange& r : ranges) {
    if (!out.empty()) out += ',';
    out += r.high == std::numeric_limits<std::int64_t>::max() ? fmt::format("{}+", r.low)
           : r.high == r.low                                  ? fmt::format("{}", r.low)
                                                              : fmt::format("{}-{}", r.low, r.high);
  }
  return out;
}

std::string attribute_text(const Attribute& a) {
  switch (a.type) {
    case AttributeType::kInt:
      return json(a.i()).dump();
    case AttributeType::kFloat:
      return json(a.f()).dump();
    case AttributeType::kString:
      return json(a.s()).dump(-1, ' ', false, json::error_handler_t::replace);
    case AttributeType::kInts:
      return json(a.ints()).dump();
    case AttributeType::kFloats:
      return json(a.floats()).dump();
    default:
      return "";
  }
}

namespace {

// An equation of Einsum with its letters renamed in the order in which they come.
std::string with_letters_in_order(const std::string& equation) {
  std::string out;
  std::map<char, char> renamed;
  for (const char c : equation) {
    if (c == ' ') continue;
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    out += letter ? renamed.try_emplace(c, static_cast<char>('a' + renamed.size())).first->second : c;
  }
  return out;
}

}  // namespace

std::string refuse_attributes(const std::map<std::string, std::vector<std::string>>& attributes, const std::vector<Attribute>& given) {
  for (const auto& [name, allowed] : attributes)
    if (const Attribute* a = find_attribute(given, name)) {
      const std::string value = attribute_text(*a);
      const auto same = [&, in_order = name == "equation" ? with_letters_in_order(value) : value](const std::string& other) {
        return (name == "equation" ? with_letters_in_order(other) : other) == in_order;
      };
      if (std::none_of(allowed.begin(), allowed.end(), same))
        return fmt::format("{} is {}, wanted {}", name, value, fmt::join(allowed, " or "));
    }
  return "";
}

namespace {

// What ONNX Runtime does whatever the target: every result may be loaded there, and is judged there.
Target loaded_anywhere() {
  Target t;
  const json loads = *read_json(kLoads);
  for (const auto& [key, value] : loads.items()) (void)read_key(key, value, t);
  return t;
}

}  // namespace

absl::StatusOr<Target> parse_target(const std::string& text, const std::string& place) {
  const auto read = read_json(text);
  if (!read.ok()) return bad(fmt::format("{}: not JSON: {}", place, std::string(read.status().message())));
  const json& file = *read;
  if (!file.is_object()) return bad(fmt::format("{}: not a JSON object; see `saturate targets show ort-cpu` for the form", place));
  Target t = loaded_anywhere();
  if (const auto base = file.find("extends"); base != file.end()) {
    absl::StatusOr<Target> extended = builtin_target(base->is_string() ? base->get<std::string>() : base->dump());
    if (!extended.ok()) return bad(fmt::format("{}: \"extends\": {}", place, std::string(extended.status().message())));
    t = *std::move(extended);
    t.name.clear();
  }
  for (const auto& [key, value] : file.items()) {
    absl::Status read;
    try {
      if (key != "extends") read = read_key(key, value, t);
    } catch (const nlohmann::json::exception& error) {
      read = bad(fmt::format("a value of the wrong type ({})", error.what()));
    }
    if (!read.ok()) return bad(fmt::format("{}: \"{}\": {}", place, key, std::string(read.message())));
  }
  if (t.name.empty()) return bad(fmt::format("{}: \"name\" is missing", place));
  if (t.min_opset > t.max_opset) return bad(fmt::format("{}: min_opset {} is above max_opset {}", place, t.min_opset, t.max_opset));
  return t;
}

namespace {

// Wishes by name. One head at a time, with one mask that all heads add: whole attention operators work on all heads, so they are wished
// away with any number of heads, and so is whatever computes on several heads at once. Views only hand heads on.
constexpr std::pair<std::string_view, std::string_view> kWishes[] = {{"single-heads", R"json([
  {"operators": ["Attention", "com.microsoft::Attention", "com.microsoft::MultiHeadAttention", "com.microsoft::GroupQueryAttention",
                 "com.microsoft::PackedAttention", "com.microsoft::PackedMultiHeadAttention"],
   "max_heads": 0, "price": 1000, "because": "one head at a time"},
  {"except": ["Flatten", "Identity", "Reshape", "Split", "Squeeze", "Transpose", "Unsqueeze"],
   "max_heads": 1, "price": 1000, "because": "one head at a time"},
  {"operators": ["Where"], "dtypes": ["bool", "int32", "int64"], "price": 1000, "because": "masks are added to the scores"}
])json"}};

}  // namespace

std::vector<std::string> known_wishes() {
  std::vector<std::string> out;
  for (const auto& [name, text] : kWishes) out.emplace_back(name);
  return out;
}

absl::Status add_wishes(const std::string& name, Target& target) {
  for (const auto& [known, text] : kWishes)
    if (known == name) return read_wishes(*read_json(text), target);
  return wrong_usage(fmt::format("--prefer {}: no such wish; {}", name, what_instead(name, known_wishes())));
}

std::string target_text(const Target& t) {
  ordered_json out{{"name", t.name},
                   {"description", t.description},
                   {"sources", t.sources},
                   {"min_opset", t.min_opset},
                   {"max_opset", t.max_opset},
                   {"cost_model", t.cost_model},
                   {"domains", ordered_json(t.operators)}};
  if (!t.standard.empty()) {
    out["standard"] = ordered_json::object();
    for (const auto& [op, ranges] : t.standard) out["standard"][op] = versions_text(ranges);
  }
  if (t.keep_functions) out["keep_functions"] = true;
  if (!t.newest_opset.empty()) out["newest_opset"] = t.newest_opset;
  if (t.sources.empty()) out.erase("sources");
  out["forbidden"] = t.forbidden;
  out["dtypes"] = t.dtypes;
  if (t.cpu_kernels) out["cpu_kernels"] = true;
  if (!t.limits.empty()) out["limits"] = ordered_json::array();
  for (const OperatorLimits& l : t.limits) out["limits"].push_back(limits_json(l));
  for (const Wish& wish : t.wishes) {
    out["wishes"].push_back(limits_json(wish.limits));
    out["wishes"].back()["price"] = wish.price;
  }
  if (!t.border.empty()) out["border"] = t.border;
  for (const auto& [op, inputs] : t.index_ranks)
    for (const auto& [input, ranks] : inputs)
      out["index_ranks"].push_back({{"operator", op}, {"input", input}, {"ranks", {ranks.low, ranks.high}}});
  out["load_time_fusions"] = ordered_json::array();
  for (const LoadTimeFusion& f : t.load_time_fusions)
    out["load_time_fusions"].push_back({{"producer", f.producer},
                                        {"consumer", f.consumer},
                                        {"becomes", f.becomes},
                                        {"constant_operand", f.constant_operand},
                                        {"versions", f.versions}});
  out["node_units"] = ordered_json::array();
  for (const NodeUnit& u : t.node_units) {
    out["node_units"].push_back({{"operators", u.operators},
                                 {"becomes", u.becomes},
                                 {"inputs", u.inputs},
                                 {"variadic", u.variadic},
                                 {"quantized", u.quantized},
                                 {"same_parameters", u.same_parameters},
                                 {"constant_inputs", u.constant_inputs},
                                 {"quantized_at_load", u.quantized_at_load},
                                 {"quantizes_since", u.quantizes_since},
                                 {"coarse", u.coarse},
                                 {"attributes", write_allowed(u.attributes)},
                                 {"kernel_attributes", ordered_json::object()},
                                 {"versions", u.versions}});
    for (const Attribute& a : u.kernel_attributes) out["node_units"].back()["kernel_attributes"][a.name] = a.i();
  }
  if (t.fuses_at_load) out["fuses_at_load"] = true;
  if (t.images_in_blocks) out["images_in_blocks"] = true;
  out["joins"] = ordered_json::array();
  for (const JoinedAtLoad& j : t.joins)
    out["joins"].push_back({{"operator", j.op}, {"reader", j.reader}, {"becomes", j.becomes}, {"versions", j.versions}});
  if (!t.quantizes_weights.operators.empty())
    out["quantizes_weights"] = {{"operators", t.quantizes_weights.operators}, {"versions", t.quantizes_weights.versions}};
  if (!t.runtime.releases.empty()) {
    out["runtime"] = {{"name", t.runtime.name}, {"sources", t.runtime.sources}, {"versions", ordered_json::object()}};
    if (t.runtime.installed_with) out["runtime"]["installed_with"] = *t.runtime.installed_with;
    if (!t.runtime.usual_release.empty()) out["runtime"]["usual"] = t.runtime.usual_release;
    for (const RuntimeRelease& r : t.runtime.releases) {
      out["runtime"]["versions"][r.version] = {{"opset", r.opset}, {"ir", r.ir}};
      if (!r.lacks.empty()) out["runtime"]["versions"][r.version]["lacks"] = r.lacks;
    }
  }
  if (!t.assumes.empty()) out["assumes"] = t.assumes;
  return out.dump(2);
}

}  // namespace saturate
