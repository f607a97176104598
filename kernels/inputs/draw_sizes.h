// Sizes that a model is given as inputs beside the tensors that they are for: shapes, scales, lengths of parts, ends of slices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/inputs/draw_inputs.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// What operators read from such inputs as they are.
std::vector<SizeInput> size_inputs(const Graph& graph);
// Writes numbers over what was drawn for them that give the shapes which the model declares; where it declares none, numbers that change
// nothing.
void fit_sizes(const std::vector<SizeInput>& all, const Sizes& sizes, Inputs& inputs);

}  // namespace saturate
