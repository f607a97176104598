#include "onnx_bridge/operators/op_questions.h"

#include <algorithm>

namespace saturate {
namespace {

const OpSchema* newest(std::string_view domain, std::string_view op_type) {
  const auto versions = schema_versions(domain, op_type);
  return versions.empty() ? nullptr : versions.back();
}

}  // namespace

bool gives_places(std::string_view domain, std::string_view op_type) {
  const OpSchema* schema = newest(domain, op_type);
  if (!schema || schema->outputs.empty()) return false;
  const std::string_view type = schema->outputs[0].type;
  if (type == "tensor(int64)") return true;
  const OpSchema::TypeConstraint* constraint = constraint_of(*schema, type);
  return constraint && constraint->types.size() == 1 && constraint->types[0] == "tensor(int64)";
}

std::optional<std::size_t> updates_of(std::string_view domain, std::string_view op_type) {
  const OpSchema* schema = newest(domain, op_type);
  for (std::size_t i = 1; schema && i < schema->inputs.size(); ++i)
    if (schema->inputs[i].name == "updates" || schema->inputs[i].name == "update") return i;
  return std::nullopt;
}

bool is_recurrent(std::string_view op_type) {
  const OpSchema* schema = find_schema("", op_type, kNewestOpset);
  return schema && schema->attribute("hidden_size");
}

bool types_its_result(const OpSchema& schema) {
  if (schema.outputs.empty()) return false;
  const std::string_view type = schema.outputs[0].type;
  const OpSchema::TypeConstraint* constraint = constraint_of(schema, type);
  return constraint && constraint->types.size() > 1 &&
         std::none_of(schema.inputs.begin(), schema.inputs.end(), [&](const OpSchema::Formal& input) { return input.type == type; });
}

}  // namespace saturate
