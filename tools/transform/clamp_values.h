// Float values kept within bounds.
#pragma once

#include <map>
#include <string>

#include "onnx_bridge/model/model.h"

namespace saturate {

// These float values of the graph are at most `most`, and at least -`most`: constants have other numbers, others a Clip behind them.
void clamp_values(Model& model, const std::map<std::string, double>& most);

}  // namespace saturate
