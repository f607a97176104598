// Local functions that a model calls, from its nodes, their subgraphs, or other functions that it calls.
#pragma once

#include "onnx_bridge/model/model.h"

namespace saturate {

// The model without functions that nothing in it calls: those that `before` calls, and those written for another version of ai.onnx than
// the model has now (exporters leave helpers behind), for checkers of models refuse them. Other functions that nothing calls stay.
Model without_uncalled_functions(Model model, const Model& before);

}  // namespace saturate
