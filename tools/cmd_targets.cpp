#include <cstdio>

#include "extract/target.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "tools/cli.h"
#include "tools/table.h"

namespace saturate {
namespace {

using nlohmann::json;

json forced_json(const Target& t) {
  json out = json::array();
  for (const ForcedRewrite& f : t.forced)
    out.push_back({{"producer", f.producer}, {"consumer", f.consumer}, {"becomes", f.becomes}, {"constant_operand", f.constant_operand}, {"versions", f.versions}});
  return out;
}

json target_json(const Target& t) {
  return {{"name", t.name},
          {"description", t.description},
          {"min_opset", t.min_opset},
          {"max_opset", t.max_opset},
          {"cost_model", t.cost_model},
          {"domains", t.operators},
          {"forbidden", t.forbidden},
          {"dtypes", t.dtypes},
          {"forced", forced_json(t)}};
}

int list(const TargetsArgs& args) {
  json all = json::array();
  std::vector<std::vector<std::string>> rows{{"target", "opsets", "cost", "description"}};
  for (const std::string& name : builtin_targets()) {
    absl::StatusOr<Target> target = load_target(name);
    if (!target.ok()) return fail(target.status(), name, "");
    rows.push_back({target->name, fmt::format("{}-{}", target->min_opset, target->max_opset), target->cost_model, target->description});
    all.push_back(target_json(*target));
  }
  std::fputs(args.common.json ? (all.dump(2) + "\n").c_str() : format_table(rows, 4).c_str(), stdout);
  return kExitOk;
}

}  // namespace

int targets_command(const TargetsArgs& args) {
  if (args.action == "list") return list(args);
  absl::StatusOr<Target> target = load_target(args.name);
  if (!target.ok()) return fail(kExitFile, "", std::string(target.status().message()), "`saturate targets list` names the built-in ones");
  std::printf("%s\n", target_json(*target).dump(2).c_str());
  return kExitOk;
}

}  // namespace saturate
