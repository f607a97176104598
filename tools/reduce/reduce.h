// Delta debugging of models (Zeller, Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", TSE 2002): the smallest model that
// still shows a failure. What the failure is, others say.
#pragma once

#include <functional>
#include <string>

#include "onnx_bridge/graph/model_edits.h"

namespace saturate {

struct ReduceOptions {
  std::function<bool(const Model&)> fails;        // whether a model shows the failure
  std::function<ValueTypes(const Model&)> types;  // of the model's values, as far as they are known: only such values can become inputs
  std::function<bool()> stop;                     // asked before each trial: whether to be content with what is there
  std::function<void(const std::string& step, std::size_t nodes, std::size_t trials)> progress;
};

struct Reduced {
  Model model;
  std::size_t trials = 0;  // models that `fails` was asked about
  bool complete = true;    // false: `stop` ended it
};

// `model` shows the failure. The result does, and no single step makes it smaller:
// an output less; a node less, its value an input; a node passed over, its input in the place of its output; a call or a body written out;
// an attribute or an optional input less; a weight as an input; sizes that are numbers, and small ones.
// A model is tried once, and only after the loader has taken it.
Reduced reduce_model(const Model& model, const ReduceOptions& options);

}  // namespace saturate
