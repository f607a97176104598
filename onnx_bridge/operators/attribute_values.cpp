#include "onnx_bridge/operators/attribute_values.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "onnx_bridge/model/words.h"

namespace saturate {
namespace {

constexpr std::string_view kValues =
#include "onnx_bridge/operators/attribute_values.inc"
    ;

struct ValueRow {
  std::string_view attribute;
  int since = 1;
  std::string_view values;
};

using ValueRows = absl::flat_hash_map<std::string_view, std::vector<ValueRow>>;  // by operator

const ValueRows& value_rows() {
  static const ValueRows* const rows = [] {
    auto* out = new ValueRows;
    for (std::string_view text = kValues; !text.empty();) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.empty() || line.front() == '#') continue;
      const std::string_view op = take_word(line), attribute = take_word(line);
      const int since = to_number<int>(take_word(line));
      (*out)[op].push_back({attribute, since, line});
    }
    return out;
  }();
  return *rows;
}

bool has_value(std::string_view values, std::string_view value, ValueUse use) {
  while (!values.empty()) {
    const std::size_t end = std::min(values.find(','), values.size());
    std::string_view each = values.substr(0, end);
    values.remove_prefix(std::min(end + 1, values.size()));
    if (each.starts_with('+')) {
      if (use == ValueUse::kWritten) continue;
      each.remove_prefix(1);
    }
    if (each == value) return true;
  }
  return false;
}

}  // namespace

const Attribute* unknown_value(const Node& node, const OpSchema& schema, ValueUse use) {
  if (!schema.domain.empty()) return nullptr;
  const auto rows = value_rows().find(schema.name);
  if (rows == value_rows().end()) return nullptr;
  for (const Attribute& a : node.attributes) {
    const auto* value = std::get_if<std::string>(&a.value);
    if (!value || !a.ref.empty()) continue;
    const ValueRow* known = nullptr;
    for (const ValueRow& row : rows->second)
      if (row.attribute == a.name && (!known || row.since <= schema.since_version)) known = &row;
    if (known && !has_value(known->values, *value, use)) return &a;
  }
  return nullptr;
}

const Attribute* unknown_value(const Node& node, std::int64_t opset, ValueUse use) {
  const OpSchema* schema = node.domain.empty() ? find_schema("", node.op_type, opset) : nullptr;
  return schema ? unknown_value(node, *schema, use) : nullptr;
}

}  // namespace saturate
