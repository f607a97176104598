#include "tools/explain/not_fused.h"

#include <algorithm>
#include <utility>

#include "extract/optimize/fused.h"
#include "nlohmann/json.hpp"
#include "tools/explain/run_index.h"
#include "tools/explain/why_not.h"

namespace saturate {
namespace {

// One of each family that `saturate explain --op` knows the places of.
constexpr const char* kAsked[] = {"Attention", "LayerNormalization", "RMSNormalization", "Gelu", "Swish", "RotaryEmbedding"};

struct NotFusedPlace {
  NotFused told;
  double near = 0;  // share of the rule's operators that are there
};

NotFusedPlace seen_of(const std::string& op, const WhyPlace& place) {
  NotFusedPlace seen{{op, place.where, place.value, place.op_type, "", place.reason, place.status == WhyPlace::Status::kNotChosen}, 0};
  if (seen.told.found) {
    seen.told.op_type = place.fused;
    seen.told.rule = place.rules.empty() ? "" : place.rules.back();
    seen.near = 1;
  } else if (!place.nearest.empty()) {
    const WhyMiss& miss = place.nearest.front();
    seen.told.rule = miss.rule;
    seen.told.reason = miss.reason;
    seen.near = miss.total > 0 ? static_cast<double>(miss.matched) / static_cast<double>(miss.total) : 0;
  }
  if (place.quantized) seen.told.reason = kBetweenQuantizers;
  if (seen.told.reason.empty()) seen.told.reason = "no rule comes near";
  return seen;
}

}  // namespace

void see_not_fused(const FinishedRun& run, const Setup& setup, std::vector<NotFused>& into) {
  if (run.where.empty()) into.clear();
  const RunIndex index(run);
  std::vector<NotFusedPlace> all;
  for (const char* op : kAsked) {
    WhyQuery query;
    query.op = op;
    query.brief = true;
    WhyReport report;
    ask_places(run, index, setup, query, report);
    for (const WhyPlace& place : report.places) {
      if (place.status != WhyPlace::Status::kMissed && place.status != WhyPlace::Status::kNotChosen) continue;
      if (!fused_family(place.op_type).empty()) continue;  // a fused operator itself
      NotFusedPlace seen = seen_of(op, place);
      // Of two operators that start from the same place, the one that is nearer.
      const auto same = std::find_if(all.begin(), all.end(), [&](const NotFusedPlace& s) { return s.told.value == place.value; });
      if (same == all.end())
        all.push_back(std::move(seen));
      else if (seen.near > same->near)
        *same = std::move(seen);
    }
  }
  for (NotFusedPlace& seen : all) into.push_back(std::move(seen.told));
}

nlohmann::json to_json(const std::vector<NotFused>& places) {
  nlohmann::json out = nlohmann::json::array();
  for (const NotFused& p : places)
    out.push_back({{"operator", p.op_type},
                   {"where", p.where},
                   {"place", p.value},
                   {"op_type", p.at},
                   {"found", p.found},
                   {"rule", p.rule.empty() ? nlohmann::json(nullptr) : nlohmann::json(p.rule)},
                   {"reason", p.reason}});
  return out;
}

}  // namespace saturate
