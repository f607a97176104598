#include <fmt/format.h>

#include <algorithm>

#include "rules/check/check_graph.h"

namespace saturate {
namespace {

// Whether a rule is at work wherever `other` is, and no less exact.
bool is_no_weaker(const RuleHead& rule, const Rule& other) {
  const auto assumed = [&](std::string_view name) {
    return std::find(other.assumes.begin(), other.assumes.end(), name) != other.assumes.end();
  };
  return rule.effect <= other.effect && std::all_of(rule.assumes.begin(), rule.assumes.end(), assumed) &&
         (!rule.if_unsupported || other.if_unsupported) && (!rule.if_any_unsupported || other.if_any_unsupported) &&
         (!rule.if_refused || other.if_refused);
}

// Rewrites the left side of one instance with the other rules of the set; whether the rule then has nothing left to unite. nullopt: it does
// not apply.
std::optional<bool> meets_without(const Rule& rule, const RuleSet& rules, const Instance& instance, const RuleExample& example,
                                  const Evaluator& evaluator) {
  OnnxEGraph g(evaluator);
  std::set<std::string> variable = non_constant_names(rule);
  for (const ExampleValue& v : example.values)
    if (!v.attribute && !v.values) variable.insert(v.name);
  if (!LeftSide(rule, instance, g).build(variable).empty()) return std::nullopt;
  g.egraph().rebuild();
  const auto others = rules.compile_when_wanted(g, [&](const RuleHead& r) { return r.name != rule.name && is_no_weaker(r, rule); });
  RunOptions options;
  options.limits.iterations = 12;
  options.limits.nodes = 20'000;
  options.limits.seconds = 2;
  ::saturate::run(g.egraph(), others, options);
  bool found = false;
  for (const Rewrite& rewrite : compile_rule(rule, g, nullptr)) {
    if (rewrite.name != rule.name) continue;
    for (const OwnedMatch& match : search(g.egraph(), rewrite.left, 100)) {
      const Match one{match.classes, match.matched, match.ops};
      if (!rewrite.applier->holds(g.egraph(), one)) continue;
      std::vector<std::pair<Id, Id>> unions;
      rewrite.applier->apply(g.egraph(), one, unions);
      for (const auto& [a, b] : unions)
        if (g.egraph().find(a) != g.egraph().find(b)) return false;
      found |= !unions.empty();
    }
  }
  return found ? std::optional(true) : std::nullopt;
}

}  // namespace

bool is_implied(const Rule& rule, const RuleSet& rules, const Evaluator& evaluator, std::uint64_t seed) {
  constexpr int kInstances = 12;  // of each example: other dims, dtypes and attributes
  std::mt19937_64 random(seed);
  const RuleRunner runner(rule, evaluator);
  bool met = false;
  for (const RuleExample& example : rule.examples) {
    std::vector<Instance> instances{instance_of(rule, example, random)};
    for (Instance& instance : random_instances(rule, example, kInstances, random)) instances.push_back(std::move(instance));
    for (const Instance& instance : instances) {
      if (runner.run(instance).kind != Outcome::Kind::kEqual) continue;
      const std::optional<bool> meets = meets_without(rule, rules, instance, example, evaluator);
      if (meets == false) return false;
      met |= meets.has_value();
    }
  }
  return met;
}

}  // namespace saturate
