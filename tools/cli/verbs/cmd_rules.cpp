#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "fmt/format.h"
#include "kernels/runtime/runtime.h"
#include "nlohmann/json.hpp"
#include "onnx_bridge/file/io.h"
#include "rules/check/check.h"
#include "rules/check/check_respelled.h"
#include "rules/evaluate/functions.h"
#include "tools/cli/cli.h"
#include "tools/cli/verbs/rules_data.h"
#include "tools/io/table.h"
#include "tools/io/terminal.h"

namespace saturate {
namespace {

using nlohmann::json;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Whether a row tells of a word: in a rule's name, effect, file, what it says or what it assumes.
bool tells_of(const std::vector<std::string>& row, std::string word) {
  const auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
  };
  word = lower(std::move(word));
  return std::any_of(row.begin(), row.end(), [&](const std::string& cell) { return lower(cell).find(word) != std::string::npos; });
}

// No law states what a native rule does.
constexpr std::string_view kNative = "checked by running only: it is written in C++";

int list(const RulesArgs& args, const RuleSet& rules) {
  json all = json::array();
  std::vector<std::vector<std::string>> rows{{"rule", "effect", "from", "what"}};
  const auto add = [&](const std::string& name, Effect effect, const std::vector<std::string>& assumes, const std::string& from,
                       const std::string& doc, const std::string& proof) {
    const std::string assumed = assumes.empty() ? "" : fmt::format(" (assumes {})", fmt::join(assumes, ", "));
    std::vector<std::string> row{name, std::string(to_string(effect)), from, first_line(doc) + assumed};
    if (!tells_of(row, args.name)) return;
    if (args.proven) {
      if (!proof.starts_with("proven")) return;
      row.back() = proof;
    }
    rows.push_back(std::move(row));
    all.push_back(
        {{"name", name}, {"effect", std::string(to_string(effect))}, {"assumes", assumes}, {"from", from}, {"doc", doc}, {"proof", proof}});
  };
  const bool tells_proofs = args.proven || args.common.json;  // the table has no column for them
  for (const Rule& rule : rules.rules())
    add(rule.name, rule.effect, rule.assumes, fmt::format("{}:{}", rule.file, rule.place.line), rule.doc,
        tells_proofs ? proof_line(rule) : "");
  for (const NativeRule& rule : rules.native_rules()) add(rule.name, rule.effect, rule.assumes, "C++", rule.doc, std::string(kNative));
  if (all.empty() && args.proven && args.name.empty())
    return fail(kExitUsage, "--proven", "no rule is proven", "bench/prove_rules proves them");
  if (all.empty()) return fail(kExitUsage, args.name, "no rule tells of this", "`saturate rules list` names them all");
  if (args.common.json)
    print_json(all);
  else if (!args.common.quiet())
    print_text(fmt::format("{}{} rules\n", format_table(rows, 4, args.common.look().width), rows.size() - 1));
  return kExitOk;
}

int show(const RulesArgs& args, const RuleSet& rules) {
  const std::string text = rules.show(args.name);
  if (text.empty()) return fail(kExitUsage, args.name, no_such_rule(rules, args.name), "");
  const Rule* rule = rules.find(args.name);
  const std::string proof = rule ? proof_line(*rule) : std::string(kNative);
  if (args.common.json)
    print_json(json({{"name", args.name}, {"text", text}, {"proof", proof}}));
  else if (!args.common.quiet())
    print_text(text + "\n" + proof + (proof.empty() ? "" : "\n"));
  return kExitOk;
}

// Both sides of each rule as nodes, conditions as terms; of the operators that rule files define, their bodies.
int export_rules(const RulesArgs& args, const RuleSet& rules) {
  json all = json::array(), operators = json::array();
  for (const Rule& rule : rules.rules())
    if (args.name.empty() || tells_of({rule.name}, args.name)) all.push_back(rule_data(rule));
  for (const auto& body : rules.operators().all()) operators.push_back(rule_data(body->rule()));
  if (all.empty()) return fail(kExitUsage, args.name, "no rule's name holds this", "`saturate rules list` names them all");
  print_json(json({{"rules", all}, {"operators", operators}}));
  return kExitOk;
}

std::string_view severity_name(RuleFinding::Severity severity) {
  return severity == RuleFinding::Severity::kError ? "error" : severity == RuleFinding::Severity::kWarning ? "warning" : "note";
}

json check_json(const RuleCheck& check) {
  json findings = json::array();
  for (const RuleFinding& f : check.findings)
    findings.push_back({{"severity", std::string(severity_name(f.severity))}, {"place", f.place}, {"what", f.what}});
  return {{"rule", check.rule},
          {"ok", check.ok()},
          {"examples", check.examples},
          {"random_instances", check.random_instances},
          {"counterexamples", check.counterexamples},
          {"guards", check.guards},
          {"needed", check.needed},
          {"mutants", check.mutants},
          {"survivors", check.survivors},
          {"largest_difference", check.largest_difference},
          {"largest_rounding", check.largest_rounding},
          {"moved", check.moved},
          {"compared", check.compared},
          {"findings", findings}};
}

// What all checks found together.
struct CheckTotals {
  std::size_t rules = 0, wrong = 0, weak = 0;
  int guards = 0, needed = 0, mutants = 0, survivors = 0;
  std::string first_wrong;
  json all = json::array();
};

// Prints rules with findings, all of them with -v.
void add_to(CheckTotals& totals, const RuleCheck& result, const RulesArgs& args) {
  ++totals.rules;
  if (!result.ok() && totals.wrong++ == 0) totals.first_wrong = result.rule;
  totals.weak += result.ok() && !result.findings.empty();
  totals.guards += result.guards;
  totals.needed += result.needed;
  totals.mutants += result.mutants;
  totals.survivors += result.survivors;
  if (args.common.json)
    totals.all.push_back(check_json(result));
  else if (args.common.verbosity > 0 || (!result.findings.empty() && !args.common.quiet()) || !result.ok())
    print_text(to_string(result) + "\n");
}

// What is known of the examples as mirror images write them.
struct SpellingTotals {
  std::size_t all = 0, fired = 0, named = 0;
};

// Whether each example of a rule fires as mirror images write it, or a guard is named that is false there.
void add_spellings(const RespelledRule& checked, RuleCheck& out, SpellingTotals& totals) {
  using Severity = RuleFinding::Severity;
  for (const auto& [line, shown] : checked.silences) {
    out.demands[line] |= shown;
    if (!shown)
      out.findings.push_back(
          {Severity::kError, checked.rule, "", fmt::format("no example shows this of its documentation: {}", line), line});
  }
  for (const Respelling& r : checked.respellings) {
    ++totals.all;
    totals.fired += r.fires;
    totals.named += !r.fires && !r.guard.empty();
    if (!r.fires && r.guard.empty())
      out.findings.push_back(
          {Severity::kError, checked.rule, r.place,
           fmt::format("the rule does not fire on its example as {} writes it, {}; see \"Mirror images\" in rules/README.md", r.law,
                       r.graph)});
  }
}

// Loading has checked names, operators, attributes and functions; here both sides are run.
int check(const RulesArgs& args, const RuleSet& rules, const RuleSet& all) {
  const std::unique_ptr<Evaluator> evaluator = make_evaluator({.reference = true});
  const absl::StatusOr<Respeller> respeller = Respeller::make(embedded_respellings(), all, *evaluator);
  if (!respeller.ok()) return fail(kExitFile, "", std::string(respeller.status().message()), "");
  SpellingTotals spellings;
  const CheckOptions options{.random_instances = args.instances, .seed = args.seed};
  CheckTotals totals;
  const auto interrupted = [&] { return args.common.cancel && *args.common.cancel; };
  for (const std::vector<const Rule*>& law : rules.laws()) {
    std::vector<RuleCheck> instances;
    for (const Rule* instance : law) {
      const Rule& rule = *instance;
      if (interrupted()) break;
      instances.push_back(check_by_running(rule, *evaluator, options));
      add_spellings(respeller->check(rule), instances.back(), spellings);
      if (instances.back().ok() && is_implied(rule, rules, *evaluator, args.seed))
        instances.back().findings.push_back({RuleFinding::Severity::kNote, rule.name,
                                             fmt::format("{}:{}:{}: ", rule.file, rule.place.line, rule.place.column),
                                             "other rules bring both sides of its examples together: it may go"});
    }
    if (!interrupted()) add_to(totals, check_of_law(instances), args);
  }
  for (const auto& body : rules.operators().all())
    if (!interrupted()) add_to(totals, check_operator_by_running(body->rule(), rules.operators(), *evaluator, options), args);
  for (const NativeRule& rule : rules.native_rules()) {
    if (interrupted()) break;
    RuleCheck checked = check_native_by_running(rule, rules.cases_of(rule.name), *evaluator, options);
    add_spellings(respeller->check(rule), checked, spellings);
    add_to(totals, checked, args);
  }
  if (interrupted()) return fail(kExitInterrupted, "rules check", "interrupted", "");
  if (args.common.json) print_json(totals.all);
  if (!args.common.json && !args.common.quiet())
    std::printf(
        "%zu rules checked by running: %zu wrong, %zu with remarks; noticed are %d of %d guards switched off, "
        "%d of %d other mutants; %zu of %zu respelled examples fire, of %zu others the guard is named\n",
        totals.rules, totals.wrong, totals.weak, totals.needed, totals.guards, totals.mutants - totals.survivors, totals.mutants,
        spellings.fired, spellings.all, spellings.named);
  if (totals.wrong == 0) return kExitOk;
  const Rule* first = rules.find(totals.first_wrong);
  return fail(kExitFile, first ? first->file : "native rules",
              fmt::format("{} wrong rule{}, the first is {}", totals.wrong, totals.wrong == 1 ? "" : "s", totals.first_wrong),
              "the lines above tell what differs");
}

// One file for each instance: NAME.K.onnx, or NAME.K.not.onnx where a guard is false.
int examples(const RulesArgs& args, const RuleSet& rules) {
  std::error_code failed;
  std::filesystem::create_directories(args.name, failed);
  if (failed) return fail(kExitFile, args.name, "can't make this folder: " + failed.message(), "");
  const std::unique_ptr<Evaluator> evaluator = make_evaluator({.reference = true});
  std::size_t written = 0;
  for (const Rule& rule : rules.rules()) {
    if (args.common.cancel && *args.common.cancel) return fail(kExitInterrupted, "rules examples", "interrupted", "");
    const std::vector<ExampleModel> models = example_models(rule, *evaluator, args.instances, args.seed);
    for (std::size_t k = 0; k < models.size(); ++k) {
      const std::string path = fmt::format("{}/{}.{}{}.onnx", args.name, models[k].model.graph.name, k, models[k].applies ? "" : ".not");
      const absl::StatusOr<std::string> bytes = serialize_model(models[k].model);
      if (!bytes.ok()) return fail(bytes.status(), path, "");
      if (!(std::ofstream(path, std::ios::binary) << *bytes)) return fail(kExitFile, path, "can't write this file", "");
      ++written;
    }
  }
  if (args.common.json)
    print_json(json{{"folder", args.name}, {"models", written}});
  else if (!args.common.quiet())
    std::printf("%zu models\n", written);
  return kExitOk;
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
  if (args.common.json)
    print_json(all);
  else if (!args.common.quiet())
    print_text(format_table(rows, 3));
  return kExitOk;
}

}  // namespace

int rules_command(const RulesArgs& args) {
  std::vector<std::string> files = args.rules;
  if (args.action == "check" && !args.name.empty()) files = {args.name, "none"};
  RuleFilter everything;
  everything.effects = kAllEffects;
  for (const Assumption& a : known_assumptions()) everything.assumptions.assumed.emplace_back(a.name);
  absl::StatusOr<RuleSet> rules = load_rules(files, everything);
  if (!rules.ok()) return fail(kExitFile, "", std::string(rules.status().message()), "");
  if (args.action == "list" && args.functions) return list_functions(args);
  if (args.action == "list") return list(args, *rules);
  if (args.action == "show") return show(args, *rules);
  if (args.action == "export") return export_rules(args, *rules);
  if (args.action == "examples") return examples(args, *rules);
  // Examples are written otherwise for a user's rules, too, and all rules are at work on those.
  absl::StatusOr<RuleSet> all = args.name.empty() ? absl::StatusOr<RuleSet>(RuleSet()) : load_rules({args.name}, everything);
  if (!all.ok()) return fail(kExitFile, "", std::string(all.status().message()), "");
  return check(args, *rules, args.name.empty() ? *rules : *all);
}

}  // namespace saturate
