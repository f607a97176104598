// Sizes that a model wants of its inputs because they were written into it when it was traced.
#pragma once

#include <string>
#include <vector>

#include "kernels/inputs/draw_inputs.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// Assignments to try for inputs whose dims are open in name only. Candidates are the integers that stand in the model's shapes, bounds and
// indices, and one more than an index. So are 1 to 3, and what is left when a small factor (batch times heads) is divided out; those that
// stand there most often first. At most `limit`, none where there are more symbols than could be tried.
std::vector<Sizes> sizes_in_model(const Model& model, const std::vector<std::string>& symbols, std::size_t limit);

}  // namespace saturate
