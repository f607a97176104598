// Why an operator was fused, or was not: for every place where it might have been, the chain of rules, the price, or the nearest miss.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "extract/optimize/optimize.h"
#include "extract/units/node_units.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/pipeline/setup.h"

namespace saturate {

struct RunIndex;  // run_index.h

// Of a place that is quantized: no exact rule takes a value for what it was before it was rounded.
inline constexpr std::string_view kBetweenQuantizers = "quantizers stand between its operators; --approximate may drop them";

struct WhyQuery {
  std::string op = {};     // an operator type, with or without domain
  std::string rule = {};   // or a rule
  std::string value = {};  // or a value of the model
  std::string kind = {};   // or a kind of block (kinds.h)
  bool brief = false;      // no alternative is priced, which is an extraction of its own, and not all places are looked at
  bool family = false;     // of `op`: any operator of its family will do
  bool glance = false;     // brief, and of places where nothing was found no rule is sought that comes near
};

struct WhyMiss {
  std::string rule;
  std::uint32_t matched = 0, total = 0;  // operators of the rule's left side that are there
  std::string at;                        // the value at which the rule would apply
  std::string reason;
};

// The operator that was asked for, where another one of its family covers the place.
struct WhyAsked {
  std::string op_type, reason;
  std::vector<std::string> rules;
  double cost = 0, pinned_cost = 0;
};

struct WhyPlace {
  enum class Because : std::uint8_t { kNone, kOpset, kTarget, kDearer };
  enum class Status { kGiven, kFused, kNotChosen, kMissed, kApplied, kConstant, kNotNeeded };
  Status status = Status::kMissed;
  std::string where;                   // "" in the main graph, else "then_branch of 'If_3'"
  std::string value, op_type;          // the anchor: a value and the operator that computes it
  std::string facts;                   // its type and shape
  std::string fused;                   // the operator that covers it
  std::vector<std::string> rules;      // that led to `fused`, the first to fire first
  std::string reason;                  // of kNotChosen: the target's, or the two costs; of kMissed: where no rule comes near
  Because because = Because::kNone;    // of kNotChosen
  bool quantized = false;              // of kMissed: quantizers stand between its operators
  std::int64_t opset = 0;              // of kOpset: the first that has the operator
  std::optional<UnitAnswer> integers;  // in a quantized model: the integer kernel that the target makes of the operator as it stands
  double cost = 0, pinned_cost = 0;
  std::vector<WhyMiss> nearest;   // nearest first
  std::optional<WhyAsked> asked;  // of kFused: equal models have it, too
};

struct WhyReport {
  OptimizeReport run;
  std::string anchors;  // what was taken as a place: "Softmax"
  std::vector<WhyPlace> places;
};

// Optimizes the model and looks at the places where the query might have applied, in the main graph and in the bodies of If, Loop and Scan.
absl::StatusOr<WhyReport> why_not(const Model& model, const Setup& setup, OptimizeOptions options, const WhyQuery& query);

// The query with `op` as a kind where it is no operator, but a word for one; with `word` as whatever it names: a kind, an operator, a value
// or a rule. wrong_usage() where it is none of them.
absl::StatusOr<WhyQuery> understood(WhyQuery query, const std::string& word, const Model& model, const RuleSet& rules);

// The places of one finished run, added to the report.
void ask_places(const FinishedRun& run, const RunIndex& index, const Setup& setup, const WhyQuery& query, WhyReport& report);

std::string format_why(const WhyReport& report);
nlohmann::json to_json(const WhyReport& report);

}  // namespace saturate
