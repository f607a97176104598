// Which nodes draw at random: equal to nothing but themselves, never folded, not to be compared.
#pragma once

#include <optional>

#include "onnx_bridge/model/model.h"

namespace saturate {

// The place of the input that says whether the operator draws: Dropout's training_mode. nullopt: it has none.
std::optional<std::size_t> training_place(const Node& node);
// The same, if the node gives it.
std::optional<std::size_t> training_input(const Node& node);
// Whether its operator has Trait::kRandom; one that draws in training only, whether it is given training_mode.
bool may_draw(const Node& node);

}  // namespace saturate
