// What an optimization did, for people (tables) and for programs (JSON).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "extract/optimize/optimize.h"
#include "kernels/verify/verify.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/io/style.h"

namespace saturate {

// Of docs/report.schema.json: one more with each change that a reader of the old form would misread.
inline constexpr int kReportSchema = 1;

// Operators of one kind that the e-graph holds or might, and that the result does without.
struct Unfused {
  enum class Why : std::uint8_t { kOpset, kTarget, kDearer, kQuantized, kMissed };
  std::string op_type;  // "Attention"; of kMissed and kQuantized what the place is: "attention"
  Why why = Why::kMissed;
  std::int64_t opset = 0;  // of kOpset: the first that has it
  std::string better;      // and the option that allows it: "--target ort-cpu@1.23"
  std::size_t count = 1;
};

struct WholeReport {
  std::string input, output;
  OptimizeReport optimize;
  std::optional<VerifyReport> verify;                         // absent: --no-verify, or the model as it came
  std::vector<std::pair<std::string, double>> stage_seconds;  // in order of running
  std::vector<Unfused> unfused = {};                          // for the screen
};

// The screen (screen.h), behind it tables of what changed; from a verbosity of 2 on also rules and stages. Safe to print.
std::string format_report(const WholeReport& report, int verbosity, const Look& look = {});
// What became of inputs and outputs where another rank was asked for.
std::string io_rank_text(const IoRank& io);
// What there is to say of a verification, in a line.
std::string summary(const VerifyReport& report);
nlohmann::json to_json(const WholeReport& report);
nlohmann::json to_json(const VerifyReport& report);
nlohmann::json to_json(const GraphStats& stats);
// "measured 0.87 [0.85, 0.89] of the original in ONNX Runtime 1.31, 1 thread (12 graphs timed in 28 s)".
std::string measured_text(const Measured& measured);
std::string brief_measured(const Measured& measured);  // without what was timed
std::string_view to_string(VerifyStatus status);
// The rules that fired, most often first.
std::vector<RuleStats> fired_rules(const RunReport& run);
// How often a rule was applied; "3 of 5" where not at all of its matches.
std::string applied_text(const RuleStats& rule);

}  // namespace saturate
