// What was generated, for programs.
#pragma once

#include "nlohmann/json_fwd.hpp"
#include "tools/generate/generate.h"

namespace saturate {

nlohmann::json to_json(const Generation& made);

}  // namespace saturate
