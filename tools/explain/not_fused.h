// For reports: places where a fused operator might have been made, and was not.
#pragma once

#include <string>
#include <vector>

#include "extract/optimize/optimize.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/pipeline/setup.h"

namespace saturate {

struct NotFused {
  std::string op_type;    // what might have been made: "Attention"
  std::string where;      // the graph, as in FinishedRun
  std::string value, at;  // the place: a value and the operator that computes it
  std::string rule;       // that comes nearest, or the last of those that found it; "": none comes near
  std::string reason;
  bool found = false;  // equal models have it, and another was chosen
};

// Of the main graph, which begins the list anew, and then of each body. No alternative is priced, and of an operator no more than a few
// dozen places are told: `saturate explain` tells all.
void see_not_fused(const FinishedRun& run, const Setup& setup, std::vector<NotFused>& into);
nlohmann::json to_json(const std::vector<NotFused>& places);

}  // namespace saturate
