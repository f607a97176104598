// What rounding does to a model's results: how far the original lies from itself, computed otherwise.
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "kernels/compare/compare.h"
#include "kernels/compare/other_runtime.h"
#include "kernels/inputs/draw_inputs.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// Coarsest float format among inputs, initializers and casts; bodies and functions are looked into where asked.
enum class Bodies : std::uint8_t { kNot, kToo };
DType coarsest_float(const Model& model, Bodies bodies = Bodies::kNot);

struct NoiseOf {
  const Model& model;
  const RunOnce& run;      // of the model
  const OpenModel& open;   // for models beside it, in the same runtime
  SessionOptions options;  // for sessions of ours
  RunLimits limits;
  const Inputs& inputs;
  const std::vector<Value>& outputs;  // what the model makes of them
  bool inputs_stay = false;    // they lie on edges on purpose, between steps or beside constants: what is rounded otherwise is no noise
  bool between_steps = false;  // of quantizers: they are rounded to steps at once
  std::vector<bool> in_16_bits = {};  // by output: it is computed in 16 bits (half_paths.h), so that a run in floats tells its rounding
};

// Runs the model with what its operators compute moved by one unit in the last place, beside its inputs, and with its weights moved by one
// unit in the last place; before that in float, where it computes in 16 bits. Up to fourteen such runs teach `noise` (one an output).
// `enough` is asked after each run.
void measure_noise(const NoiseOf& original, std::vector<Noise>& noise, const std::function<bool()>& enough);
// The same by one run in double precision, which takes some hundred times as long; `noise`: several such lists.
void measure_exactly(const NoiseOf& original, std::initializer_list<std::vector<Noise>*> noise);

// Inputs with their floats moved by up to one unit in the last place, for the run of this number.
Inputs moved_inputs(Inputs inputs, int run);

// Whether the model makes a NaN or an infinity of finite numbers somewhere on these inputs.
bool overflows_somewhere(const Model& model, SessionOptions options, const RunLimits& limits, const Inputs& inputs);
// ... or a 0 by Exp, Sigmoid or Softmax.
bool leaves_its_range(const Model& model, SessionOptions options, const RunLimits& limits, const Inputs& inputs);

}  // namespace saturate
