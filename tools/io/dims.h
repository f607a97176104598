// Declared dims for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "onnx_bridge/model/model.h"

namespace saturate {

std::string dim_text(const DimSpec& dim);                        // 4 -> "4", batch -> "batch", unknown -> "?"
nlohmann::json dims_json(const std::vector<DimSpec>& declared);  // [4, "batch", null]

}  // namespace saturate
