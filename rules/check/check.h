// The checker of rules: both sides of a rule are ONNX functions, so they are run and compared, on the rule's examples and on random
// instances; counterexamples must be refused and differ; mutants of the rule must be noticed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "onnx_bridge/model/evaluator.h"
#include "rules/compile/rule_set.h"

namespace saturate {

struct CheckOptions {
  int random_instances = 24;  // per example, over dims, dtypes and special values
  std::uint64_t seed = 1;
  bool mutate = true;
  bool fire = true;  // whether a rule matches its own examples in an e-graph
};

struct RuleFinding {
  enum class Severity : std::uint8_t { kError, kWarning, kNote };  // wrong; weak (no counterexample, surviving mutant); not checkable here
  Severity severity = Severity::kError;
  std::string rule, place, what;
  std::string demand = {};  // of a law with several instances: it counts only where none of them meets this demand
};

struct RuleCheck {
  std::string rule;
  int examples = 0, random_instances = 0, counterexamples = 0, mutants = 0, survivors = 0;
  int guards = 0, needed = 0;            // guards that keep the rule true, and those of them that a counterexample shows the need of
  std::vector<std::string> guard_names;  // of native rules
  std::map<std::string, bool> demands;   // what was asked of an example, a counterexample, a guard or a mutant, and whether it is met
  std::int64_t moved = 0, compared = 0;  // elements of quantized results that may be a step apart: those that are, and all
  double largest_difference = 0;         // relative to the largest magnitude of the output
  int rounded = 0;                       // instances by which rounding was measured
  double largest_rounding = 0;           // of a side in its own type, from the other one in double, in units of eps M
  std::vector<RuleFinding> findings;
  bool ok() const;  // no errors
};

RuleCheck check_by_running(const Rule& rule, const Evaluator& evaluator, const CheckOptions& options = {});
// The checks of the instances of one law as one: an example or a counterexample may be for some of them alone, and a guard or a mutant that
// is noticed in one is noticed.
RuleCheck check_of_law(std::span<const RuleCheck> instances);
// The same of a rule in C++, on the graphs that rule files give for it (`native NAME ...`).
RuleCheck check_native_by_running(const NativeRule& rule, std::span<const Rule* const> graphs, const Evaluator& evaluator,
                                  const CheckOptions& options = {});
// A body of an operator that rule files define, on its examples, its counterexamples and random instances: it runs, and the facts that an
// e-graph has of the operator are those of what comes out.
RuleCheck check_operator_by_running(const Rule& body, const RuleOperators& defined, const Evaluator& evaluator,
                                    const CheckOptions& options = {});
// Whether the other rules of the set bring both sides of each example of a rule together, so that it could go: only those that are at work
// wherever it is, and no less exact.
bool is_implied(const Rule& rule, const RuleSet& rules, const Evaluator& evaluator, std::uint64_t seed = 1);
// The left side of a rule as a model, on an example, a counterexample or a random instance of it; of a rule that holds both ways also the
// right side. Inputs have values, as initializers: those whose elements the example writes out are initializers alone.
struct ExampleModel {
  Model model;           // the graph's name is the rule's ("name.back" of the right side)
  bool applies = false;  // else a guard is false
};
std::vector<ExampleModel> example_models(const Rule& rule, const Evaluator& evaluator, int random_instances_per_example,
                                         std::uint64_t seed);
// "rule: 2 examples, 31 random instances, ...", then one line for each finding.
std::string to_string(const RuleCheck& check);

}  // namespace saturate
