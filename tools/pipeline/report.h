// What an optimization did, for people (tables) and for programs (JSON).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "tools/pipeline/optimize.h"
#include "tools/verify/verify.h"

namespace saturate {

// The oldest ONNX Runtime that loads a model of this opset, where that is newer than most: "1.23"; else "".
std::string_view runtime_needed(const GraphStats& model);

struct WholeReport {
  std::string input, output;
  OptimizeReport optimize;
  std::optional<VerifyReport> verify;                         // absent: --no-verify
  std::vector<std::pair<std::string, double>> stage_seconds;  // in order of running
};

std::string format_report(const WholeReport& report, int verbosity);
// What there is to say of a verification, in a line.
std::string summary(const VerifyReport& report);
nlohmann::json to_json(const WholeReport& report);
nlohmann::json to_json(const VerifyReport& report);
nlohmann::json to_json(const GraphStats& stats);
std::string_view to_string(VerifyStatus status);
// The rules that fired, most often first.
std::vector<RuleStats> fired_rules(const RunReport& run);

}  // namespace saturate
