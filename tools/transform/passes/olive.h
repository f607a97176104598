// The surgeons of Olive (olive-ai 0.13, GraphSurgeries): each under Olive's name and with Olive's parameters, done by passes of ours.
#pragma once

#include <string_view>
#include <vector>

#include "tools/transform/pass.h"

namespace saturate {

const std::vector<Pass>& surgeons();
const Pass* find_surgeon(std::string_view name);  // upper and lower case are one, as in Olive

// The passes of a JSON text: a list, {"passes": [...]}, {"type": "GraphSurgeries", "surgeries": [...]}, or a whole configuration of Olive,
// whose passes stand by name.
absl::StatusOr<std::vector<nlohmann::json>> pass_items(const nlohmann::json& given);

}  // namespace saturate
