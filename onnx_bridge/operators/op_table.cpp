#include "onnx_bridge/operators/op_table.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <deque>
#include <memory>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "egraph/once.h"
#include "onnx_bridge/model/words.h"

namespace saturate {
namespace {

// Written by tools/generate_op_table.py, which says how the lines read.
constexpr std::string_view kStandard =
#include "onnx_bridge/operators/op_table_onnx.inc"
    ;
constexpr std::string_view kMicrosoft =
#include "onnx_bridge/operators/op_table_microsoft.inc"
    ;
int to_limit(std::string_view text) { return text == "*" ? INT_MAX : to_number<int>(text); }

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

Attribute parse_default(std::string name, AttributeType type, std::string_view text) {
  switch (type) {
    case AttributeType::kInt:
      return Attribute::of(std::move(name), to_number<std::int64_t>(text));
    case AttributeType::kFloat:
      return Attribute::of(std::move(name), to_number<float>(text));
    case AttributeType::kString:
      return Attribute::of(std::move(name), std::string(text));
    case AttributeType::kInts: {
      std::vector<std::int64_t> values;
      for (std::string_view v : split(text, ',')) values.push_back(to_number<std::int64_t>(v));
      return Attribute::of(std::move(name), std::move(values));
    }
    case AttributeType::kFloats: {
      std::vector<float> values;
      for (std::string_view v : split(text, ',')) values.push_back(to_number<float>(v));
      return Attribute::of(std::move(name), std::move(values));
    }
    default: {
      std::vector<std::string> values;
      for (std::string_view v : split(text, ',')) values.emplace_back(v);
      return Attribute::of(std::move(name), std::move(values));
    }
  }
}

// Operators are found when the table is made, and read when they are first asked for: a model has some dozen of a thousand.
// Names and types are views into the table's text, which lives as long as the program.
class Table {
 public:
  Table() {
    by_name_.reserve(kUsualOperators);
    for (const std::string_view text : {kStandard, kMicrosoft}) load(text);
  }

  std::span<const OpSchema* const> versions(std::string_view domain, std::string_view name) const {
    const auto it = by_name_.find({domain == "ai.onnx" ? std::string_view() : domain, name});
    if (it == by_name_.end()) return {};
    it->second->once.call([&] { read(*it->second); });
    return it->second->ascending;
  }
  bool has_domain(std::string_view domain) const { return domains_.contains(domain); }

  std::vector<std::string> names(std::string_view domain) const {
    std::vector<std::string> out;
    for (const auto& [name, versions] : by_name_)
      if (name.first == domain) out.emplace_back(name.second);
    std::sort(out.begin(), out.end());
    return out;
  }

 private:
  struct Versions {
    std::vector<std::pair<std::string_view, const std::vector<std::string_view>*>> texts;  // with the sets of types that they name
    Once once;
    std::deque<OpSchema> schemas;
    std::vector<const OpSchema*> ascending;
  };

  // Lines "types ..." come first, then operators, each from a line "op ..." on.
  void load(std::string_view text) {
    std::vector<std::string_view>& sets = sets_.emplace_back();
    while (text.starts_with("types ")) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      sets.push_back(text.substr(6, end - 6));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    while (!text.empty()) {
      const std::size_t end = std::min(text.find("\nop ", 1), text.size());
      std::string_view first = text.substr(0, end);
      take_word(first);
      const std::string_view word = take_word(first), domain = word == "-" ? std::string_view() : word;
      domains_.insert(domain);
      std::unique_ptr<Versions>& versions = by_name_[{domain, take_word(first)}];
      if (!versions) versions = std::make_unique<Versions>();
      versions->texts.emplace_back(text.substr(0, end), &sets);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  static void read(Versions& versions) {
    for (const auto& [text, sets] : versions.texts) versions.ascending.push_back(read(text, *sets, versions.schemas.emplace_back()));
    std::sort(versions.ascending.begin(), versions.ascending.end(),
              [](const OpSchema* a, const OpSchema* b) { return a->since_version < b->since_version; });
  }

  static const OpSchema* read(std::string_view text, const std::vector<std::string_view>& sets, OpSchema& op) {
    for (std::string_view line : split(text, '\n')) {
      const std::string_view kind = take_word(line);
      if (kind == "op")
        read_head(op, line);
      else if (kind == "in")
        op.inputs.push_back(formal(line));
      else if (kind == "out")
        op.outputs.push_back(formal(line));
      else if (kind == "c")
        add_constraint(op, line, sets);
      else if (kind == "a")
        add_attribute(op, line);
    }
    return &op;
  }

  static void read_head(OpSchema& op, std::string_view line) {
    op.domain = take_word(line);
    if (op.domain == "-") op.domain = {};
    op.name = take_word(line);
    op.since_version = to_number<int>(take_word(line));
    op.min_inputs = to_number<int>(take_word(line));
    op.max_inputs = to_limit(take_word(line));
    op.min_outputs = to_number<int>(take_word(line));
    op.max_outputs = to_limit(take_word(line));
    op.deprecated = line == "deprecated";
  }

  static OpSchema::Formal formal(std::string_view line) {
    OpSchema::Formal f;
    f.name = take_word(line);
    f.type = take_word(line);
    f.optional = line == "?";
    f.variadic = line == "*";
    return f;
  }

  static void add_constraint(OpSchema& op, std::string_view line, const std::vector<std::string_view>& sets) {
    const std::string_view name = take_word(line);
    OpSchema::TypeConstraint& made = op.constraints.emplace_back();
    made.name = name;
    made.types = split(sets[to_number<std::size_t>(line)], ' ');
    for (const std::string_view type : made.types)
      if (const auto dtype = dtype_of_tensor(type)) made.tensors |= std::uint64_t{1} << static_cast<int>(*dtype);
  }

  static void add_attribute(OpSchema& op, std::string_view line) {
    OpAttribute a;
    a.name = take_word(line);
    a.type = static_cast<AttributeType>(to_number<int>(take_word(line)));
    const std::string_view flag = take_word(line);
    a.required = flag == "!";
    if (flag == "=") a.default_value = parse_default(std::string(a.name), a.type, line);
    op.attributes.push_back(std::move(a));
  }

  // Names differ in how they begin, how they end, and how long they are; all of them are asked for again and again.
  struct NameHash {
    static std::uint64_t ends(std::string_view s) {
      std::uint64_t first = 0, last = 0;
      const std::size_t n = std::min(s.size(), sizeof first);
      std::memcpy(&first, s.data(), n);
      std::memcpy(&last, s.data() + s.size() - n, n);
      return first * 0x9e3779b97f4a7c15u ^ (last + s.size()) * 0xc2b2ae3d27d4eb4fu;
    }
    std::size_t operator()(const std::pair<std::string_view, std::string_view>& name) const {
      const std::uint64_t h = ends(name.second) + name.first.size() * 0x165667b19e3779f9u;
      return static_cast<std::size_t>(h ^ h >> 29);
    }
  };
  static constexpr std::size_t kUsualOperators = 512;

  std::deque<std::vector<std::string_view>> sets_;  // of each text
  absl::flat_hash_map<std::pair<std::string_view, std::string_view>, std::unique_ptr<Versions>, NameHash> by_name_;
  std::set<std::string_view> domains_;
};

const Table& table() {
  static const Table* const instance = new Table;  // never destroyed: others may ask until the program ends
  return *instance;
}

}  // namespace

const OpAttribute* OpSchema::attribute(std::string_view attribute_name) const {
  const auto it = std::find_if(attributes.begin(), attributes.end(), [&](const OpAttribute& a) { return a.name == attribute_name; });
  return it == attributes.end() ? nullptr : &*it;
}

const OpSchema* find_schema(std::string_view domain, std::string_view name, std::int64_t version) {
  const OpSchema* best = nullptr;
  for (const OpSchema* s : table().versions(domain, name))
    if (s->since_version <= version) best = s;
  return best;
}

std::span<const OpSchema* const> schema_versions(std::string_view domain, std::string_view name) { return table().versions(domain, name); }

std::string operator_name(std::string_view domain, std::string_view op_type) {
  std::string name;
  if (!domain.empty()) name.append(domain).append("::");
  return name.append(op_type);
}

std::vector<std::string> operator_names(std::string_view domain) { return table().names(domain); }
bool is_of_own_domain(std::string_view domain) {
  return !table().has_domain(domain) && domain != "ai.onnx" && domain != "saturate" && domain.find_first_of("# ") == std::string_view::npos;
}

void add_defaults(const OpSchema& schema, std::vector<Attribute>& attributes) {
  for (const OpAttribute& a : schema.attributes)
    if (a.default_value && find_attribute(attributes, a.name) == nullptr) attributes.push_back(*a.default_value);
}

std::optional<DType> dtype_of_tensor(std::string_view type) {
  constexpr std::string_view kTensor = "tensor(";
  if (!type.starts_with(kTensor) || !type.ends_with(')')) return std::nullopt;
  return parse_dtype(type.substr(kTensor.size(), type.size() - kTensor.size() - 1));
}

int ir_version_for_opset(std::int64_t opset) {
  // First opset of each IR version from 3 on.
  constexpr std::array<std::pair<int, int>, 12> kFirst = {
      {{28, 14}, {25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9}, {15, 8}, {12, 7}, {11, 6}, {10, 5}, {9, 4}, {0, 3}}};
  for (const auto& [first, ir] : kFirst)
    if (opset >= first) return ir;
  return 3;
}

}  // namespace saturate
