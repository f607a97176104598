#include "extract/target/target_json.h"

#include <algorithm>
#include <charconv>
#include <ranges>
#include <tuple>
#include <variant>

#include "egraph/text/read_json.h"
#include "extract/runtimes/builtin.h"
#include "extract/target/load_pattern.h"
#include "extract/target/quantizers.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/model/wrong_usage.h"

namespace saturate {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

absl::Status bad(const std::string& message) { return absl::InvalidArgumentError(message); }

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
    int index = -1;
    const auto [end, error] = std::from_chars(place.data(), place.data() + place.size(), index);
    if (error != std::errc() || end != place.data() + place.size() || index < 0)
      return bad(fmt::format("'{}' is no place of an input", place));
    out[index] = dtypes.get<std::vector<std::string>>();
    if (absl::Status s = check_dtypes(out[index]); !s.ok()) return s;
  }
  return absl::OkStatus();
}

using Allowed = std::map<std::string, std::vector<std::string>>;
using DtypesByPlace = std::map<int, std::vector<std::string>>;
using Limit =
    std::variant<std::set<std::string> OperatorLimits::*, std::vector<std::string> OperatorLimits::*, std::vector<int> OperatorLimits::*,
                 std::optional<int> OperatorLimits::*, std::optional<std::int64_t> OperatorLimits::*,
                 std::optional<double> OperatorLimits::*, bool OperatorLimits::*, std::string OperatorLimits::*, Allowed OperatorLimits::*,
                 DtypesByPlace OperatorLimits::*, std::map<std::string, std::pair<double, double>> OperatorLimits::*,
                 std::vector<OperatorLimits> OperatorLimits::*>;

// The keys of a limit, in the order in which they are written; "rank" says min_rank and max_rank at once.
constexpr std::pair<std::string_view, Limit> kLimits[] = {
    {"operators", &OperatorLimits::operators},
    {"except", &OperatorLimits::except},
    {"min_rank", &OperatorLimits::min_rank},
    {"max_rank", &OperatorLimits::max_rank},
    {"max_dim", &OperatorLimits::max_dim},
    {"max_batch", &OperatorLimits::max_batch},
    {"max_heads", &OperatorLimits::max_heads},
    {"max_constant", &OperatorLimits::max_constant},
    {"dtypes", &OperatorLimits::dtypes},
    {"input_dtypes", &OperatorLimits::input_dtypes},
    {"output_dtypes", &OperatorLimits::output_dtypes},
    {"dtypes_of_inputs", &OperatorLimits::dtypes_of_inputs},
    {"min_normalized", &OperatorLimits::min_normalized},
    {"static_shapes", &OperatorLimits::static_shapes},
    {"not_empty", &OperatorLimits::not_empty},
    {"constant_inputs", &OperatorLimits::constant_inputs},
    {"absent_inputs", &OperatorLimits::absent_inputs},
    {"own_heads", &OperatorLimits::own_heads},
    {"of_self_attention", &OperatorLimits::of_self_attention},
    {"alike", &OperatorLimits::alike},
    {"attributes", &OperatorLimits::attributes},
    {"required_attributes", &OperatorLimits::required_attributes},
    {"attribute_ranges", &OperatorLimits::attribute_ranges},
    {"axis", &OperatorLimits::axis},
    {"when", &OperatorLimits::when},
    {"before", &OperatorLimits::before},
    {"because", &OperatorLimits::because},
};

// The member that a key of a table says; null where it holds no such key.
template <typename Member, std::size_t N>
const Member* member_of(const std::pair<std::string_view, Member> (&table)[N], std::string_view key) {
  const auto* const found = std::find_if(std::begin(table), std::end(table), [&](const auto& known) { return known.first == key; });
  return found == std::end(table) ? nullptr : &found->second;
}

absl::StatusOr<OperatorLimits> read_limit(const json& entry);

template <typename T>
absl::Status read_value(const json& value, T& into) {
  into = value.get<T>();
  return absl::OkStatus();
}
template <typename T>
absl::Status read_value(const json& value, std::optional<T>& into) {
  into = value.get<T>();
  return absl::OkStatus();
}
absl::Status read_value(const json& value, Allowed& into) {
  into = read_allowed(value);
  return absl::OkStatus();
}
absl::Status read_value(const json& value, std::vector<Attribute>& into) {
  for (const auto& [name, number] : value.items()) into.push_back(Attribute::of(name, number.get<std::int64_t>()));
  return absl::OkStatus();
}
absl::Status read_value(const json& value, DtypesByPlace& into) { return read_by_place(value, into); }
absl::Status read_value(const json& value, std::vector<OperatorLimits>& into) {
  absl::StatusOr<OperatorLimits> when = read_limit(value);
  if (!when.ok()) return bad(fmt::format("when: {}", std::string(when.status().message())));
  into.push_back(*std::move(when));
  return absl::OkStatus();
}

std::string known_limits() {
  std::vector<std::string_view> names{"rank"};
  for (const auto& [name, member] : kLimits) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

absl::StatusOr<OperatorLimits> read_limit(const json& entry) {
  OperatorLimits l;
  for (const auto& [key, value] : entry.items()) {
    const Limit* limit = member_of(kLimits, key);
    if (key == "rank")
      l.min_rank = l.max_rank = value.get<int>();
    else if (!limit)
      return bad(fmt::format("unknown key '{}'; known are {}", key, known_limits()));
    else if (absl::Status s = std::visit([&](auto member) { return read_value(value, l.*member); }, *limit); !s.ok())
      return s;
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

using UnitKey = std::variant<std::set<std::string> NodeUnit::*, std::string NodeUnit::*, std::vector<std::vector<std::string>> NodeUnit::*,
                             bool NodeUnit::*, std::set<int> NodeUnit::*, Allowed NodeUnit::*, std::vector<Attribute> NodeUnit::*>;

// The keys of a unit, in the order in which they are written.
constexpr std::pair<std::string_view, UnitKey> kUnitKeys[] = {
    {"operators", &NodeUnit::operators},
    {"becomes", &NodeUnit::becomes},
    {"inputs", &NodeUnit::inputs},
    {"variadic", &NodeUnit::variadic},
    {"quantized", &NodeUnit::quantized},
    {"same_parameters", &NodeUnit::same_parameters},
    {"constant_inputs", &NodeUnit::constant_inputs},
    {"quantized_at_load", &NodeUnit::quantized_at_load},
    {"quantizes_since", &NodeUnit::quantizes_since},
    {"coarse", &NodeUnit::coarse},
    {"attributes", &NodeUnit::attributes},
    {"kernel_attributes", &NodeUnit::kernel_attributes},
    {"versions", &NodeUnit::versions},
};

absl::StatusOr<NodeUnit> read_unit(const json& entry) {
  NodeUnit u;
  for (const auto& [key, value] : entry.items()) {
    const UnitKey* unit_key = member_of(kUnitKeys, key);
    if (!unit_key) return bad(fmt::format("node_units: unknown key '{}'; known are {}", key, fmt::join(std::views::keys(kUnitKeys), ", ")));
    const json& said = value;
    if (absl::Status s = std::visit([&u, &said](auto member) { return read_value(said, u.*member); }, *unit_key); !s.ok()) return s;
  }
  if (u.operators.empty() || u.inputs.empty()) return bad("node_units: an entry names operators, and dtypes of their inputs");
  for (const auto& dtypes : u.inputs)
    if (absl::Status s = check_dtypes(dtypes); !s.ok()) return s;
  return u;
}

absl::Status read_units(const json& value, Target& t) {
  for (const auto& entry : value) {
    absl::StatusOr<NodeUnit> unit = read_unit(entry);
    if (!unit.ok()) return unit.status();
    t.node_units.push_back(*std::move(unit));
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

using PlainValue = std::variant<std::string Target::*, std::vector<std::string> Target::*, std::set<std::string> Target::*,
                                std::int64_t Target::*, bool Target::*, std::map<std::string, std::int64_t> Target::*>;

// The keys whose values are read as they are.
constexpr std::pair<std::string_view, PlainValue> kPlainKeys[] = {
    {"name", &Target::name},
    {"description", &Target::description},
    {"sources", &Target::sources},
    {"min_opset", &Target::min_opset},
    {"max_opset", &Target::max_opset},
    {"cost_model", &Target::cost_model},
    {"keep_functions", &Target::keep_functions},
    {"newest_opset", &Target::newest_opset},
    {"cpu_kernels", &Target::cpu_kernels},
    {"border", &Target::border},
    {"assumes", &Target::assumes},
    {"fuses_at_load", &Target::fuses_at_load},
    {"images_in_blocks", &Target::images_in_blocks},
};

absl::Status read_fusions(const json& value, Target& t) {
  absl::StatusOr<std::vector<LoadFusion>> all = parse_load_fusions(value.dump());
  if (!all.ok()) return bad(std::string(all.status().message()));
  t.fusions = std::make_shared<const std::vector<LoadFusion>>(*std::move(all));
  return absl::OkStatus();
}

absl::Status read_key(const std::string& key, const json& value, Target& t) {
  if (const PlainValue* plain = member_of(kPlainKeys, key))
    return std::visit([&](auto member) { return read_value(value, t.*member); }, *plain);
  if (key == "domains")
    for (const auto& [domain, ops] : value.items()) t.operators[domain] = ops.get<std::set<std::string>>();
  else if (key == "standard")
    return read_standard(value, t);
  else if (key == "forbidden")
    t.forbidden.merge(value.get<std::set<std::string>>());
  else if (key == "dtypes")
    for (const auto& [op, dtypes] : value.items()) {
      t.dtypes[op] = dtypes.get<std::vector<std::string>>();
      if (absl::Status s = check_dtypes(t.dtypes[op]); !s.ok()) return bad(fmt::format("{}: {}", op, std::string(s.message())));
    }
  else if (key == "limits")
    return read_limits(value, t);
  else if (key == "wishes")
    return read_wishes(value, t);
  else if (key == "index_ranks")
    for (const auto& i : value) t.index_ranks[i.at("operator")][i.at("input").get<int>()] = {i.at("ranks").at(0), i.at("ranks").at(1)};
  else if (key == "load_time_fusions")
    for (const auto& f : value)
      t.load_time_fusions.push_back(
          {f.at("producer"), f.at("consumer"), f.at("becomes"), f.value("constant_operand", false), f.value("versions", std::string())});
  else if (key == "node_units")
    return read_units(value, t);
  else if (key == "joins")
    return read_joins(value, t);
  else if (key == "keeps_quantizers") {
    t.keeps_quantizers = value.get<std::string>();
    if (t.keeps_quantizers != "always" && t.keeps_quantizers != "unless_approximate")
      return bad(fmt::format("keeps_quantizers is '{}'; it is always or unless_approximate", t.keeps_quantizers));
  } else if (key == "runtime")
    return read_runtime(value, t);
  else if (key == "fusions")
    return read_fusions(value, t);
  else if (key == "quantizes_weights")
    t.quantizes_weights = {value.at("operators").get<std::set<std::string>>(), value.value("versions", std::string())};
  else
    return bad(
        "unknown key; known are extends, name, description, sources, min_opset, max_opset, cost_model, domains, keep_functions, standard, "
        "newest_opset, forbidden, dtypes, cpu_kernels, limits, wishes, border, index_ranks, load_time_fusions, fuses_at_load, fusions, "
        "images_in_blocks, keeps_quantizers, node_units, joins, quantizes_weights, runtime, assumes");
  return absl::OkStatus();
}

ordered_json write_allowed(const std::map<std::string, std::vector<std::string>>& attributes) {
  ordered_json out = ordered_json::object();
  for (const auto& [name, allowed] : attributes)
    for (const std::string& a : allowed) out[name].push_back(*read_json<ordered_json>(a));
  return out;
}

ordered_json limits_json(const OperatorLimits& l);

template <typename T>
ordered_json plain(const T& value) {
  return value;
}
ordered_json plain(const Allowed& attributes) { return write_allowed(attributes); }
ordered_json plain(const std::vector<Attribute>& integers) {
  ordered_json out = ordered_json::object();
  for (const Attribute& a : integers) out[a.name] = a.i();
  return out;
}

// What a limit says; null where it says nothing.
template <typename T>
ordered_json written(const T& value) {
  return value == T() ? ordered_json() : plain(value);
}
template <typename T>
ordered_json written(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json();
}
ordered_json written(const DtypesByPlace& dtypes) {
  ordered_json out;
  for (const auto& [place, names] : dtypes) out[std::to_string(place)] = names;
  return out;
}
ordered_json written(const std::vector<OperatorLimits>& when) { return when.empty() ? ordered_json() : limits_json(when.back()); }

ordered_json limits_json(const OperatorLimits& l) {
  ordered_json out = ordered_json::object();
  const bool one_rank = l.min_rank && l.min_rank == l.max_rank;
  for (const auto& [name, member] : kLimits) {
    if (one_rank && name == "max_rank") continue;
    ordered_json value = std::visit([&](auto m) { return written(l.*m); }, member);
    if (!value.is_null()) out[one_rank && name == "min_rank" ? "rank" : std::string(name)] = std::move(value);
  }
  return out;
}

}  // namespace

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

// Wishes by name. Quantizable: what a model has of a runtime's own fusions; rules make none (quantizers.h). One head at a time, with one
// mask that all heads add: whole attention operators work on all heads, so they are wished away with any number of heads, and so is
// whatever computes on several heads at once. Views and quantizers only hand heads on.
constexpr std::pair<std::string_view, std::string_view> kWishes[] = {{"single-heads", R"json([
  {"operators": ["Attention", "com.microsoft::Attention", "com.microsoft::MultiHeadAttention", "com.microsoft::GroupQueryAttention",
                 "com.microsoft::PackedAttention", "com.microsoft::PackedMultiHeadAttention"],
   "max_heads": 0, "price": 1000, "because": "one head at a time"},
  {"except": ["DequantizeLinear", "Flatten", "Identity", "QuantizeLinear", "Reshape", "Split", "Squeeze", "Transpose", "Unsqueeze"],
   "max_heads": 1, "price": 1000, "because": "one head at a time"},
  {"operators": ["Where"], "dtypes": ["bool", "int32", "int64"], "price": 1000, "because": "masks are added to the scores"}])json"},
                                                                     {kQuantizable, R"json([
  {"operators": ["Attention", "com.microsoft::Attention", "com.microsoft::MultiHeadAttention", "com.microsoft::GroupQueryAttention",
                 "com.microsoft::FusedConv", "com.microsoft::FusedGemm", "com.microsoft::FusedMatMul", "com.microsoft::NhwcConv"],
   "absent_inputs": [0], "price": 1000, "because": "quantizers know the convolution or the products in it alone"}])json"}};

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

namespace {

ordered_json unit_json(const NodeUnit& u) {
  ordered_json out = ordered_json::object();
  for (const auto& [name, member] : kUnitKeys) out[std::string(name)] = std::visit([&](auto m) { return plain(u.*m); }, member);
  return out;
}

ordered_json runtime_json(const Runtime& runtime) {
  ordered_json out{{"name", runtime.name}, {"sources", runtime.sources}, {"versions", ordered_json::object()}};
  if (runtime.installed_with) out["installed_with"] = *runtime.installed_with;
  if (!runtime.usual_release.empty()) out["usual"] = runtime.usual_release;
  for (const RuntimeRelease& r : runtime.releases) {
    out["versions"][r.version] = {{"opset", r.opset}, {"ir", r.ir}};
    if (!r.lacks.empty()) out["versions"][r.version]["lacks"] = r.lacks;
  }
  return out;
}

}  // namespace

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
  for (const NodeUnit& u : t.node_units) out["node_units"].push_back(unit_json(u));
  if (t.fuses_at_load) out["fuses_at_load"] = true;
  if (t.fusions)
    for (const LoadFusion& f : *t.fusions) out["fusions"].push_back(*read_json<ordered_json>(f.json));
  if (t.images_in_blocks) out["images_in_blocks"] = true;
  out["joins"] = ordered_json::array();
  for (const JoinedAtLoad& j : t.joins)
    out["joins"].push_back({{"operator", j.op}, {"reader", j.reader}, {"becomes", j.becomes}, {"versions", j.versions}});
  if (!t.quantizes_weights.operators.empty())
    out["quantizes_weights"] = {{"operators", t.quantizes_weights.operators}, {"versions", t.quantizes_weights.versions}};
  if (!t.keeps_quantizers.empty()) out["keeps_quantizers"] = t.keeps_quantizers;
  if (!t.runtime.releases.empty()) out["runtime"] = runtime_json(t.runtime);
  if (!t.assumes.empty()) out["assumes"] = t.assumes;
  return out.dump(2);
}

}  // namespace saturate
