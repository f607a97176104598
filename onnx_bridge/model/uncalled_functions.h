// Local functions that nothing in a model calls: no node, no subgraph, no function that is called.
#pragma once

#include "onnx_bridge/model/model.h"

namespace saturate {

// Removes functions that are no longer called: those that `before` did call, and those written for another version of ai.onnx, which
// onnx.checker rejects. Other functions that nothing calls stay.
Model without_uncalled_functions(Model model, const Model& before);

}  // namespace saturate
