// Private to onnx_bridge.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// parse_model_text() with data files looked up in `folder` ("": refused).
absl::StatusOr<Model> parse_model_text_in(std::string_view text, const std::string& name_for_errors, const std::string& folder);

// As ONNX text has it: "float", "ints"; "" for kUndefined and what a later standard may add.
std::string_view attribute_type_name(AttributeType type);

}  // namespace saturate
