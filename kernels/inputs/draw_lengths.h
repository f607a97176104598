// Lengths that a model is given as inputs beside the tokens and the cache that they count.
#pragma once

#include <string>
#include <vector>

#include "kernels/inputs/draw_inputs.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// What the nodes of GroupQueryAttention read.
std::vector<LengthInputs> length_inputs(const Graph& graph);
// Writes lengths over what was drawn for them, so that the last row of a query is the last of its keys: the longest that the cache has room
// for in the first row, any other that has room for the query in further ones.
void fit_lengths(const std::vector<LengthInputs>& all, Inputs& inputs, Random& random);

}  // namespace saturate
