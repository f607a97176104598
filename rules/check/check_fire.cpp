#include "rules/check/check_graph.h"

namespace saturate {
namespace {

std::string try_to_fire(const Rule& rule, const Instance& instance, const Evaluator& evaluator, const std::set<std::string>& variable) {
  OnnxEGraph g(evaluator);
  if (std::string problem = LeftSide(rule, instance, g).build(variable); !problem.empty()) return problem;
  auto log = std::make_shared<RuleLog>();
  std::string why = "its pattern does not match";
  for (const Rewrite& rewrite : compile_rule(rule, g, log)) {
    if (rewrite.name != rule.name) continue;
    for (const OwnedMatch& found : search(g.egraph(), rewrite.left, 100)) {
      const Match match{found.classes, found.matched, found.ops};
      why = dynamic_cast<const RuleApplier&>(*rewrite.applier).why_not(match);
      if (!why.empty()) continue;
      std::vector<std::pair<Id, Id>> unions;
      rewrite.applier->apply(g.egraph(), match, unions);
      if (!unions.empty()) return {};
      why = log->refusals().empty() ? "its right side cannot be built" : "its sides exclude each other: " + log->refusals().front().what;
    }
  }
  return why;
}

}  // namespace

std::string why_it_does_not_fire(const Rule& rule, const Instance& instance, const RuleExample& example, const Evaluator& evaluator) {
  // Inputs whose elements the example writes out are the constants; where that does not fire, all that may be.
  std::set<std::string> variable = non_constant_names(rule), random = variable;
  for (const ExampleValue& v : example.values)
    if (!v.attribute && !v.values) random.insert(v.name);
  std::string why = try_to_fire(rule, instance, evaluator, random);
  return why.empty() ? why : try_to_fire(rule, instance, evaluator, variable).empty() ? "" : why;
}

}  // namespace saturate
