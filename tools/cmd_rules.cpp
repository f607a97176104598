#include <cstdio>

#include "fmt/format.h"
#include "kernels/runtime.h"
#include "nlohmann/json.hpp"
#include "rules/check.h"
#include "rules/functions.h"
#include "tools/cli.h"
#include "tools/table.h"
#include "tools/terminal.h"

namespace saturate {
namespace {

using nlohmann::json;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

int list(const RulesArgs& args, const RuleSet& rules) {
  json all = json::array();
  std::vector<std::vector<std::string>> rows{{"rule", "effect", "from", "what"}};
  const auto add = [&](const std::string& name, Effect effect, const std::vector<std::string>& assumes, const std::string& from,
                       const std::string& doc) {
    const std::string assumed = assumes.empty() ? "" : fmt::format(" (assumes {})", fmt::join(assumes, ", "));
    rows.push_back({name, std::string(to_string(effect)), from, first_line(doc) + assumed});
    all.push_back({{"name", name}, {"effect", std::string(to_string(effect))}, {"assumes", assumes}, {"from", from}, {"doc", doc}});
  };
  for (const Rule& rule : rules.rules())
    add(rule.name, rule.effect, rule.assumes, fmt::format("{}:{}", rule.file, rule.place.line), rule.doc);
  for (const NativeRule& rule : rules.native_rules()) add(rule.name, rule.effect, rule.assumes, "C++", rule.doc);
  if (args.common.json)
    print_json(all);
  else
    print_text(fmt::format("{}{} rules\n", format_table(rows, 4), rows.size() - 1));
  return kExitOk;
}

int show(const RulesArgs& args, const RuleSet& rules) {
  const std::string text = rules.show(args.name);
  if (text.empty()) return fail(kExitFile, args.name, "no such rule", "`saturate rules list` names them");
  if (args.common.json)
    print_json(json({{"name", args.name}, {"text", text}}));
  else
    print_text(text + "\n");
  return kExitOk;
}

std::string_view severity_name(RuleFinding::Severity severity) {
  return severity == RuleFinding::Severity::kError ? "error" : severity == RuleFinding::Severity::kWarning ? "warning" : "note";
}

json check_json(const RuleCheck& check) {
  json findings = json::array();
  for (const RuleFinding& f : check.findings)
    findings.push_back({{"severity", std::string(severity_name(f.severity))}, {"place", f.place}, {"what", f.what}});
  return {{"rule", check.rule},           {"ok", check.ok()},
          {"examples", check.examples},   {"random_instances", check.random_instances},
          {"counters", check.counters},   {"mutants", check.mutants},
          {"survivors", check.survivors}, {"largest_difference", check.largest_difference},
          {"findings", findings}};
}

// Loading has checked names, operators, attributes and functions; here both sides are run. Prints rules with findings, all of them with -v.
int check(const RulesArgs& args, const RuleSet& rules) {
  const std::unique_ptr<Evaluator> evaluator = make_evaluator({.reference = true});
  json all = json::array();
  std::size_t wrong = 0, weak = 0;
  std::string first;
  for (const Rule& rule : rules.rules()) {
    if (args.common.cancel && *args.common.cancel) return fail(kExitInterrupted, "rules check", "interrupted", "");
    const RuleCheck result = check_by_running(rule, *evaluator);
    if (!result.ok() && wrong++ == 0) first = rule.name;
    weak += result.ok() && !result.findings.empty();
    if (args.common.json)
      all.push_back(check_json(result));
    else if (args.common.verbosity > 0 || (!result.findings.empty() && !args.common.quiet()) || !result.ok())
      print_text(to_string(result) + "\n");
  }
  if (args.common.json) print_json(all);
  if (!args.common.json && !args.common.quiet())
    std::printf("%zu rules checked by running: %zu wrong, %zu with remarks\n", rules.rules().size(), wrong, weak);
  if (wrong == 0) return kExitOk;
  return fail(kExitFile, rules.find(first)->file, fmt::format("{} wrong rule{}, the first is {}", wrong, wrong == 1 ? "" : "s", first),
              "the lines above tell what differs");
}

int list_functions(const RulesArgs& args) {
  json all = json::array();
  std::vector<std::vector<std::string>> rows{{"function", "what", "example"}};
  for (const RuleFunction* f : rule_functions()) {
    rows.push_back({fmt::format("{}{}", f->name, f->signature), std::string(f->doc), std::string(f->example)});
    all.push_back({{"name", std::string(f->name)},
                   {"signature", std::string(f->signature)},
                   {"doc", std::string(f->doc)},
                   {"example", std::string(f->example)}});
  }
  args.common.json ? print_json(all) : print_text(format_table(rows, 3));
  return kExitOk;
}

}  // namespace

int rules_command(const RulesArgs& args) {
  std::vector<std::string> files = args.rules;
  if (args.action == "check" && !args.name.empty()) files = {args.name, "none"};
  RuleFilter everything;
  everything.approximates = true;
  for (const Assumption& a : known_assumptions()) everything.assumptions.assumed.emplace_back(a.name);
  absl::StatusOr<RuleSet> rules = load_rules(files, everything);
  if (!rules.ok()) return fail(kExitFile, "", std::string(rules.status().message()), "");
  if (args.action == "list" && args.functions) return list_functions(args);
  if (args.action == "list") return list(args, *rules);
  if (args.action == "show") return show(args, *rules);
  return check(args, *rules);
}

}  // namespace saturate
