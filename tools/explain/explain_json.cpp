#include "tools/explain/explain_json.h"

#include "extract/optimize/prediction.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tools/explain/summary.h"
#include "tools/pipeline/report.h"

namespace saturate {

using nlohmann::json;

bool wanted(const std::string& op_type, const std::string& asked) {
  return asked.empty() || op_type == asked || op_type.ends_with("." + asked);
}

json report_json(const std::string& path, const OptimizeReport& report, const std::string& op) {
  json made = json::array(), fired = json::array();
  for (const OptimizeReport::Made& m : report.made)
    if (wanted(m.op_type, op)) made.push_back({{"op_type", m.op_type}, {"output", m.output}, {"rule", m.rule}});
  for (const RuleStats& rule : fired_rules(report.run))
    fired.push_back({{"rule", rule.name}, {"matches", rule.matches}, {"applied", rule.applied}});
  return {{"input", path},
          {"made_by_rules", made},
          {"rules", fired},
          {"stop_reason", std::string(to_string(report.run.stop))},
          {"cost_before", report.cost_before},
          {"cost_after", report.cost_after},
          {"cost_unit", report.cost_unit},
          {"predicted", predicted_text(prediction_of(report))},
          {"warnings", report.warnings}};
}

bool asks_nothing(const WhyQuery& q) { return q.op.empty() && q.rule.empty() && q.value.empty() && q.kind.empty(); }

json whole_json(const std::string& path, const WhyReport& why, const std::string& op) {
  json out = report_json(path, why.run, op);
  out.update(to_json(why));
  return out;
}

absl::StatusOr<json> explain_json(const std::string& path, const Model& model, const Setup& setup, const OptimizeOptions& options,
                                  const WhyQuery& given) {
  const absl::StatusOr<WhyQuery> query = understood(given, "", model, setup.rules);
  if (!query.ok()) return query.status();
  if (asks_nothing(*query)) {
    absl::StatusOr<Summary> summary = summarize(model, setup, options);
    if (!summary.ok()) return summary.status();
    json out = report_json(path, summary->run, "");
    out.update(to_json(WhyReport()));
    out["kinds"] = to_json(summary->kinds);
    return out;
  }
  absl::StatusOr<WhyReport> why = why_not(model, setup, options, *query);
  if (!why.ok()) return why.status();
  return whole_json(path, *why, query->op);
}

}  // namespace saturate
