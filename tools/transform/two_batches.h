// A model on two batches at once, beside the model on each of them alone: equal where the entries of a batch stay apart.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "onnx_bridge/model/model.h"

namespace saturate {

using BatchAxes = std::map<std::string, std::size_t>;  // by input or output

struct TwoBatches {
  Model apart;                    // the model twice, each on its own batch; what they give is joined
  std::vector<ValueInfo> inputs;  // of both batches, and those without a batch once
  std::vector<Node> joins;        // by which the two batches of an input become one: what stands in front of a model on both at once
};

// `inputs`, `outputs`: the axes of the batch; every output has one.
TwoBatches two_batches(const Model& model, const BatchAxes& inputs, const BatchAxes& outputs);

}  // namespace saturate
