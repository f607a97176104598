// Which values string attributes may have, by version of the operator (attribute_values.inc).
#pragma once

#include <cstdint>

#include "onnx_bridge/model/model.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {

enum class ValueUse : std::uint8_t {
  kRead,     // also values that ONNX Runtime takes beside those of the standard
  kWritten,  // those of the standard alone
};
// An attribute of the node whose value this version of its operator does not know; null where there is none.
const Attribute* unknown_value(const Node& node, const OpSchema& schema, ValueUse use);
const Attribute* unknown_value(const Node& node, std::int64_t opset, ValueUse use);

}  // namespace saturate
