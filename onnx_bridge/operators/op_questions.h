// What the standard's schemas tell of an operator when they are asked, so that nobody lists the operators.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "onnx_bridge/operators/op_table.h"

namespace saturate {

// Its (first) result holds places, counts or sizes: nothing else is int64 whatever the inputs are.
bool gives_places(std::string_view domain, std::string_view op_type);
// The input whose elements are written over some of the first one's, or joined with them.
std::optional<std::size_t> updates_of(std::string_view domain, std::string_view op_type);
// Of the standard's: goes through its steps one by one, and multiplies by its recurrent weights in each.
bool is_recurrent(std::string_view op_type);
// No input has the type of the (first) result: an attribute names it, or the version of the operator.
bool types_its_result(const OpSchema& schema);
// Of a type that the schema names "T"; null: a type that is spelled out.
inline const OpSchema::TypeConstraint* constraint_of(const OpSchema& schema, std::string_view type) {
  for (const auto& c : schema.constraints)
    if (c.name == type) return &c;
  return nullptr;
}

// Of a Node, an OpKey, a RuleNode.
template <typename T>
bool gives_places(const T& node) {
  return gives_places(node.domain, node.op_type);
}
template <typename T>
std::optional<std::size_t> updates_of(const T& node) {
  return updates_of(node.domain, node.op_type);
}

}  // namespace saturate
