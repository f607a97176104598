// Private to check*.cpp: instances of rules, and running a side of a rule on one.
#pragma once

#include <map>
#include <random>
#include <set>

#include "onnx_bridge/convert/op_key.h"
#include "rules/check/check.h"
#include "rules/evaluate/eval.h"
#include "rules/language/operators.h"

namespace saturate {

// Tensors for the inputs of a rule and values for its attribute variables.
struct Instance {
  std::map<std::string, Tensor> tensors;  // an input that is not here is absent
  std::map<std::string, Attribute> attributes;
  std::string what;  // for messages
};

// How one instance fares.
struct Outcome {
  enum class Kind : std::uint8_t {
    kEqual,
    kDifferent,      // the sides differ by more than the tolerance, or the right side cannot run where the left does
    kNotApplicable,  // a guard is false, a let has no value
    kLeftFails,      // the left side refuses the instance
    kCannotRun,      // no kernel here
  };
  Kind kind = Kind::kEqual;
  std::string why;
  double difference = 0;  // largest, relative to the largest magnitude of the left side's output
  // Of integers that may be a step apart: how many are, and how many there are.
  std::int64_t moved = 0, compared = 0;
};

struct RunOptionsOfRule {
  bool guards = true;
  int dropped_guard = -1;  // this one is taken to hold
};

// Values of one run, as a source of facts for guards.
class InstanceFacts : public FactSource {
 public:
  Id add(const Tensor& t, bool constant);
  Id add_absent();
  const Facts& facts(Id id) const override { return facts_[id]; }
  std::optional<Tensor> value(Id id, std::size_t max_bytes) const override;
  DimTable& dims() const override { return dims_; }
  std::optional<Dim> lower_triangle(Id id) const override;
  bool is_zero_or_one(Id id) const override;
  bool may_be_mask(Id id) const override;
  bool hides_by_infinity(Id id) const override;
  std::optional<Magnitudes> magnitudes(Id id) const override;
  std::optional<Fills> fills(Id id) const override;
  bool is_above_lowest(Id id) const override;
  bool hides_by_numbers(Id id) const override;
  bool is_count(Id id) const override;

 private:
  mutable DimTable dims_;
  std::vector<Facts> facts_;
  std::vector<std::optional<Tensor>> values_;  // also of what is no constant
};

// Any operator that rules may name; one that rule files define is run by its body (check_operators.cpp).
absl::StatusOr<std::vector<Value>> run_operator_of_rule(const Evaluator& evaluator, const RuleOperators* defined, const Node& node,
                                                        const std::vector<Value>& inputs);

// Outputs far below the inputs are what is left after cancellation: they are measured against this much of each input at least.
double cancellation_scale(const Tensor& input);
// What may be apart: relative to the largest magnitude, or in steps of integers; of those, this share alone (and one element of few).
struct Allowed {
  double tolerance = 0, share = 1;
};
Outcome compare_tensors(const std::string& name, const Tensor& left, const Tensor& right, double smallest_scale, Allowed allowed);

class RuleRunner {
 public:
  // `defined`: the operators that the rule may name; those of its file where none are given.
  RuleRunner(const Rule& rule, const Evaluator& evaluator, const RuleOperators* defined = nullptr)
      : rule_(rule), evaluator_(evaluator), defined_(defined ? defined : rule.operators.get()) {}
  using Values = std::map<std::string, Value>;
  // Both sides on one instance, and what it takes to run them again.
  struct Sides {
    Outcome outcome;  // kEqual where both have run; they are not compared yet
    Values left, right;
    Values given, known;  // what the left side and the right side start from
    Environment environment;
    std::map<std::string, DType> output_dtypes;
  };
  Sides sides(const Instance& instance, const RunOptionsOfRule& options = {}) const;
  absl::StatusOr<Values> again(const Sides& sides, bool right) const;
  Outcome run(const Instance& instance, const RunOptionsOfRule& options = {}) const;
  // The right side alone, of a rule that defines an operator. kFailedPrecondition: it does not stand for these values.
  absl::StatusOr<std::vector<Value>> body(Values given, Environment environment) const;

 private:
  absl::StatusOr<Values> run_side(const std::vector<RuleNode>& nodes, Values values, const Environment& environment,
                                  const std::map<std::string, DType>& output_dtypes) const;
  absl::StatusOr<std::vector<Value>> run_node(const RuleNode& node, const Values& values,
                                              const std::map<std::string, RuleConstant>& constants, const Environment& environment) const;
  Outcome compare(const Values& left, const Values& right) const;

  const Rule& rule_;
  const Evaluator& evaluator_;
  const RuleOperators* defined_;
};

// Numbers from here on hide scores: beside them every error in the others would vanish.
constexpr double kFillOfMasks = 1e4;

// How far numbers are from others, in units of eps M.
struct Distance {
  double units = 0;
  std::string why;
  void take(const std::string& name, std::span<const double> from, std::span<const double> to, std::span<const double> scale, double unit,
            std::string_view what);
};
// check_rounding.cpp: how far each side is from the other one in double. M of an element is how far the other side moves there, in double,
// where each operand and each result of its operators moves by eps (in units of it); at least the largest element of the output.
struct Rounding {
  Distance rounded;     // as the rule is used: eps of the coarsest type that the sides hold
  Distance real;        // in double: eps of double, or of what the sides round to by themselves
  bool finite = false;  // whether all numbers are, as the rule is used, and all outputs are floats of the same shapes on both sides
};
// nullopt where the rule does not hold for the instance.
std::optional<Rounding> rounding_of(const Rule& rule, const Evaluator& evaluator, const Instance& instance);
// Whether a side holds numbers that float has rounded, so that the sides are the same real number within eps of float alone.
bool is_identity_within_float(const Rule& rule);
constexpr double kMostRounding = 16;  // eps M, where a rule states no other

// check.cpp: the rule with each condition by itself.
Rule with_single_guards(Rule rule);

// Names that must not be constants for a guard to hold.
std::set<std::string> non_constant_names(const Rule& rule);
Instance instance_of(const Rule& rule, const RuleExample& example, std::mt19937_64& random);
// Variations of an example: other dims, dtypes, special values.
std::vector<Instance> random_instances(const Rule& rule, const RuleExample& example, int count, std::mt19937_64& random);
// The example with numbers near one another, and with any.
std::vector<Instance> near_instances(const Rule& rule, const RuleExample& example, int count, std::mt19937_64& random);
Allowed allowed_by(const Rule& rule, DType dtype);
constexpr double kMostMoved = 0.01;  // of the elements, where a rule within one step states no share

// check_mutants.cpp: changed rules, and what was changed.
struct Mutant {
  Rule rule;
  std::string what;
};
std::vector<Mutant> mutants_of(const Rule& rule);
// check_fire.cpp: "" if the compiled rule applies to its example in an e-graph, else why not.
std::string why_it_does_not_fire(const Rule& rule, const Instance& instance, const RuleExample& example, const Evaluator& evaluator);

}  // namespace saturate
