// What is known of the types of a model's values.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// Of every value of the main graph of which something is known. Dims are numbers and names that inputs declare; others are open.
absl::StatusOr<std::map<std::string, ValueType>> inferred_types(const Model& model);

// What is written of a value, or else known, with a rank where it is a tensor; nullopt where neither tells one. Inputs and outputs need
// that.
std::optional<ValueInfo> info_with_rank(const Graph& graph, const std::string& value, const std::map<std::string, ValueType>& types);

}  // namespace saturate
