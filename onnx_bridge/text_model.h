// Private to onnx_bridge.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "onnx_bridge/model.h"

namespace saturate {

// parse_model_text() with data files looked up in `folder` ("": refused).
absl::StatusOr<Model> parse_model_text_in(std::string_view text, const std::string& name_for_errors, const std::string& folder);

}  // namespace saturate
