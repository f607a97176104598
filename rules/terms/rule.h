// Rules as data: what a `.rules` file says, parsed and checked against the operators' schemas. README.md tells how to write one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/model.h"
#include "onnx_bridge/operators/assumptions.h"

namespace saturate {

// A place in a rule file, counted from 1.
struct Place {
  int line = 0, column = 0;
};

struct RuleFunction;  // functions.h

// An expression of `where` or `let`.
struct Expr {
  enum class Kind : std::uint8_t { kInt, kReal, kString, kName, kList, kCall, kIndex, kSlice, kNot, kNegate, kBinary };
  Kind kind = Kind::kInt;
  Place place;
  std::string text;  // name, string, operator of kBinary, function of kCall
  std::int64_t integer = 0;
  double real = 0;
  const RuleFunction* function = nullptr;              // kCall
  std::int32_t bound = -1;                             // kName, in a compiled rule: its place in Conditions::bound
  std::vector<std::shared_ptr<const Expr>> arguments;  // kIndex: list, index; kSlice: list, first, last (null where left out)
};
using ExprPtr = std::shared_ptr<const Expr>;
std::shared_ptr<Expr> make_expr(Expr::Kind kind, Place place = {});
std::string to_string(const Expr& expr);

// `name = literal`, `name = @variable` or `name = @_`.
struct RuleAttribute {
  enum class Kind : std::uint8_t { kLiteral, kVariable, kAny };
  Kind kind = Kind::kLiteral;
  Attribute literal;     // named; type as the schema has it
  std::string variable;  // kVariable
  Place place;
};

struct RuleNode {
  std::string domain, op_type;
  std::vector<RuleAttribute> attributes;
  std::vector<std::string> inputs, outputs;  // "" = absent
  Place place;
  // As written; expand() (expand.h) leaves none of them.
  std::string rest;                   // `<..a>`: all attributes that are not mentioned, bound or handed on together
  std::vector<std::size_t> mirrored;  // `(A | B)`: input i and the next one change places in the mirror image of the rule
  bool passes = false;                // `A = Add (S, M) ?`: without M it is S
  const RuleAttribute* attribute(std::string_view name) const;
  bool is_constant() const { return domain.empty() && op_type == "Constant"; }
};

// What a Constant of a body says: numbers without a dtype. On the left it matches by value; on the right it takes the dtype that
// the operator it feeds asks for (float and int64 where nothing asks).
struct RuleConstant {
  bool integers = false;
  bool list = false;  // rank 1; else rank 0
  std::vector<double> reals;
  std::vector<std::int64_t> ints;
  std::size_t size() const { return integers ? ints.size() : reals.size(); }
  double real(std::size_t i) const { return integers ? static_cast<double>(ints[i]) : reals[i]; }
};
// Of a Constant node; nullopt where its attribute is not value_float(s) or value_int(s).
std::optional<RuleConstant> rule_constant(const RuleNode& node);

// One input or attribute variable of an example.
struct ExampleValue {
  std::string name;
  std::optional<Attribute> attribute;  // an attribute variable
  DType dtype = DType::kUndefined;     // a tensor
  Shape dims;
  std::optional<std::vector<double>> values;  // absent: random
  Place place;
};
struct RuleExample {
  std::vector<ExampleValue> values;
  Place place;
};

class RuleOperators;  // operators.h

// What a rule does to rounding (law 9 of rules/README.md).
enum class Effect : std::uint8_t { kExact, kReassociates, kWithinOneStep, kRescales, kApproximates };
std::string_view to_string(Effect effect);

// Effects that rules may have in a run; those that are exact or reassociate always may.
struct EffectChoice {
  std::optional<bool> within_one_step = {};  // nullopt: where the target's runtime does the same when it loads a model
  bool rescales = false, approximates = false;
  bool allows(Effect effect) const;
};
constexpr EffectChoice kAllEffects{true, true, true};

struct Rule {
  std::string name, file, doc;  // the name of an instance: `law[Relu]`, of a law that stands once for several rules
  Place place;
  std::vector<std::string> attribute_variables, inputs, outputs;
  std::vector<std::string> optional;  // inputs that may be absent: `M?`
  std::vector<RuleNode> left, right;
  std::vector<ExprPtr> where;
  std::vector<std::pair<std::string, ExprPtr>> lets;
  bool both_ways = false;
  Effect effect = Effect::kExact;
  std::vector<std::string> assumes;  // names of known assumptions
  bool if_unsupported = false;       // only where the target or the opset lacks the left side's last operator
  bool if_any_unsupported = false;   // and only in models that hold such an operator
  bool moves_quantizers = false;     // away from their operators, or to other scales; not for targets that keep them
  bool if_lacking = false;           // only where the target or the opset lacks it, though the model may hold it
  bool if_refused = false;           // only where the target refuses the left side's last operator at its place, or wishes it away
  std::string yields_to;             // only where the rule of this name is left out; empty: none
  std::optional<std::uint64_t> budget;
  int phase = 0;
  std::optional<double> tolerance;
  std::optional<double> share;     // of a rule within one step: of all elements, at most how many may be a step apart
  std::optional<double> rounding;  // of a rule that reassociates: most that a side may miss the other one's real number by, in eps M
  std::vector<RuleExample> examples, counterexamples;
  std::string source;   // its text in the file
  bool native = false;  // a graph for the native rule of this name, with examples and counterexamples: there is no right side
  // The right side defines the operator that the left side is: its attributes are variables, with their defaults as literals.
  bool defines = false;
  bool function = false;  // and is a function as ONNX has it (own_functions.h)
  bool declares = false;  // the right side, where there is one, tells the types of the operator's outputs and nothing else
  bool derived = false;   // a rule that a function gives: its guards are not the file's
  std::shared_ptr<const RuleOperators> operators;  // that its file may name; null of a rule read from bytes, which is checked
};
// The rule as it is written, of which `name` is an instance: all before `[`.
std::string_view law_of(std::string_view name);
// A rule that reads both ways is two rewrites: one has its name, the other this one, `rule.back`.
std::string back_of(std::string_view rule);
// The rule of which the rewrite of this name is a direction.
std::string_view rule_of_rewrite(std::string_view rewrite);

struct RuleFile {
  std::string name;
  std::vector<std::pair<std::string, std::int64_t>> opsets;
  std::vector<Rule> rules, natives;
  std::vector<Rule> operators;  // bodies of what the file defines
};

// Reads the text of a rule file and checks every rule: names bound, operators and attributes known, functions known.
// kInvalidArgument with "file.rules:31:9: what is wrong; what to do".
absl::StatusOr<RuleFile> parse_rules(std::string_view text, const std::string& file_name);
// The static checks of one rule (parse_rules calls it).
absl::Status check_rule(const Rule& rule, const std::vector<std::pair<std::string, std::int64_t>>& opsets);
// The rule read from right to left (for `<=>`): named `name.back`.
Rule reversed(const Rule& rule);

}  // namespace saturate
