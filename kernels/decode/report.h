// What was generated, for programs.
#pragma once

#include "kernels/decode/generate.h"
#include "nlohmann/json_fwd.hpp"

namespace saturate {

nlohmann::json to_json(const Generation& made);

}  // namespace saturate
