#include <cstdio>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tools/cli.h"
#include "tools/table.h"

namespace saturate {
namespace {

using nlohmann::json;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

int list(const RulesArgs& args, const RuleSet& rules) {
  json all = json::array();
  std::vector<std::vector<std::string>> rows{{"rule", "effect", "from", "what"}};
  const auto add = [&](const std::string& name, Effect effect, const std::string& from, const std::string& doc) {
    rows.push_back({name, std::string(to_string(effect)), from, first_line(doc)});
    all.push_back({{"name", name}, {"effect", std::string(to_string(effect))}, {"from", from}, {"doc", doc}});
  };
  for (const Rule& rule : rules.rules()) add(rule.name, rule.effect, fmt::format("{}:{}", rule.file, rule.place.line), rule.doc);
  for (const NativeRule& rule : rules.native_rules()) add(rule.name, rule.effect, "C++", rule.doc);
  if (args.common.json)
    std::printf("%s\n", all.dump(2).c_str());
  else
    std::printf("%s%zu rules\n", format_table(rows, 4).c_str(), rows.size() - 1);
  return kExitOk;
}

int show(const RulesArgs& args, const RuleSet& rules) {
  const std::string text = rules.show(args.name);
  if (text.empty()) return fail(kExitFile, args.name, "no such rule", "`saturate rules list` names them");
  if (args.common.json)
    std::printf("%s\n", json({{"name", args.name}, {"text", text}}).dump(2).c_str());
  else
    std::printf("%s\n", text.c_str());
  return kExitOk;
}

}  // namespace

int rules_command(const RulesArgs& args) {
  std::vector<std::string> files = args.rules;
  if (args.action == "check" && !args.name.empty()) files = {args.name, "none"};
  absl::StatusOr<RuleSet> rules = load_rules(files, {}, true);
  if (!rules.ok()) return fail(kExitFile, "", std::string(rules.status().message()), "");
  if (args.action == "list") return list(args, *rules);
  if (args.action == "show") return show(args, *rules);
  // Loading has checked every rule: names bound, operators and attributes known, functions known.
  std::printf("%zu rules read and checked against the operators' schemas\n", rules->rules().size());
  return kExitOk;
}

}  // namespace saturate
