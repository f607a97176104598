// What became of each kind of block in a model, in a line a kind: `saturate explain MODEL` without a question.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/explain/kinds.h"
#include "tools/explain/why_not.h"

namespace saturate {

struct KindSummary {
  struct Rest {
    std::string what, reason, help;  // "Attention"; in words; the option that helps, or ""
    std::string value;               // the first place
    std::size_t count = 0;
  };
  std::string kind;
  std::size_t expected = 0, found = 0;
  std::map<std::string, std::size_t> operators;  // that the places became
  std::vector<Rest> rest;
};

struct Summary {
  OptimizeReport run;
  std::vector<KindSummary> kinds;  // of which the model has any
};
absl::StatusOr<Summary> summarize(const Model& model, const Setup& setup, OptimizeOptions options);

// Of a question about a kind: each of its operators' places, those of one value once.
void ask_kind(const FinishedRun& run, const RunIndex& index, const Setup& setup, const BlockKind& kind, bool brief, WhyReport& report);

std::string format_kind(const KindSummary& kind);   // without its name
std::string format_whole(const KindSummary& kind);  // with every reason, a line each
// All kinds, one a line; those that the model has not in the last.
std::string format_summary(const Summary& summary);
nlohmann::json to_json(const std::vector<KindSummary>& kinds);

}  // namespace saturate
