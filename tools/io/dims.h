// Declared dims for people and for programs.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "onnx_bridge/model/model.h"

namespace saturate {

// Names of dims of inputs, outputs and what is known of values, in order.
std::set<std::string> symbols_of(const Graph& graph);
std::string dim_text(const DimSpec& dim);                        // 4 -> "4", batch -> "batch", unknown -> "?"
nlohmann::json dims_json(const std::vector<DimSpec>& declared);  // [4, "batch", null]

}  // namespace saturate
