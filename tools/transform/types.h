// What is known of the types of a model's values.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// Of every value of the main graph of which something is known. Dims are numbers and names that inputs declare; others are open.
absl::StatusOr<std::map<std::string, ValueType>> inferred_types(const Model& model);

}  // namespace saturate
