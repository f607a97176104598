// What a step of quantized values makes of a model's results. Rules may be right but for such a step (Effect in rules/terms/rule.h).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/compare/compare.h"
#include "kernels/compare/noise.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// What may become of quantized values in an equal model.
enum class StepMoves : std::uint8_t {
  kNone,
  kSome,     // a few of each lie a step off: an integer kernel rounds otherwise than the operator between quantizers
  kLeftOut,  // quantizers are left out, too, where what they give is dequantized at once
};

// Of the elements of a quantized value, those that may lie a step off.
inline constexpr double kShareMoved = 1.0 / 64;

// Whether the operator gives quantized values, in its first output.
bool is_quantizer(const Node& node);
bool has_quantizers(const Model& model);

// The outputs that hold quantized values, and the size of their steps: 1 of integers, the scale of what is dequantized by one scale that is
// constant. Operators that only move or choose elements hand them on.
std::map<std::string, double> steps_of_outputs(const Model& model);

// Of a quantizer that may be left out, and much of what it reads lies beyond its range: its output, and the share of the elements.
struct CutOff {
  std::string quantizer;
  double share = 0;
};
// The one of the original that cuts off the largest share of its elements on these inputs, where that is more than calibration leaves out.
std::optional<CutOff> most_cut_off(const NoiseOf& original);

// Runs the model with quantized values moved by a step: up to a dozen runs teach `noise` (one an output). `enough` is asked after each.
void measure_steps(const NoiseOf& original, StepMoves moves, std::vector<Noise>& noise, const std::function<bool()>& enough);

}  // namespace saturate
