// The parts of the ai.onnx.ml family: one function per source file; and the transforms of scores that they share.
#pragma once

#include <span>
#include <string_view>

#include "kernels/registry.h"

namespace saturate {

// "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT" applied to one row of scores; false: not known.
bool transform_scores(std::string_view name, std::span<double> scores);

void register_ml_encode(Registry& registry);
void register_ml_linear(Registry& registry);
void register_ml_tree(Registry& registry);
void register_ml_training(Registry& registry);
void register_random(Registry& registry);

}  // namespace saturate
