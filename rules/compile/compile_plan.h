// What compile_pattern.cpp finds out about a rule, and compile_build.cpp needs to apply it.
#pragma once

#include <map>

#include "onnx_bridge/convert/op_key.h"
#include "rules/compile/compile.h"
#include "rules/evaluate/eval.h"

namespace saturate {

// A value that the right side uses.
struct Operand {
  enum class From : std::uint8_t { kSlot, kRight, kConstant, kLet, kAbsent };
  From from = From::kAbsent;
  std::uint32_t index = 0;  // slot of the match; value of the right side; constant; let
};

struct CompiledRule {
  std::shared_ptr<const Rule> rule;   // this direction of it
  std::vector<std::string> left_out;  // optional inputs that this form of the rule is without
  // Conditions on one input alone are tests of the pattern, which fail before the rest of it is looked for. Else all are asked of a whole
  // match, and tell why it fails.
  bool tests_inputs_early = false;
  std::vector<bool> tested_early;  // by condition
  Pattern pattern;

  // The left side.
  std::vector<std::pair<std::string, std::uint32_t>> slots;  // names that are pattern nodes
  struct AttributeBinding {
    std::string variable;
    std::uint32_t slot;
    std::string attribute;
    std::uint32_t first = kNone;  // of an axis: the operator's first input, whose rank it counts from
  };
  std::vector<AttributeBinding> bindings;
  std::vector<std::pair<const AttributeBinding*, const AttributeBinding*>> bound_twice;  // of one variable: they must agree
  // A literal axis below zero counts from the rank of the operator's first input, `first`.
  struct AxisTest {
    std::uint32_t slot, first;
    std::string op_type;
    Attribute wanted;
  };
  std::vector<AxisTest> axis_tests;
  // A constant matched by value: its rank must not widen what it meets.
  struct RankTest {
    std::uint32_t slot;
    std::vector<std::uint32_t> others;
  };
  std::vector<RankTest> rank_tests;
  // A constant list of axes, some below zero.
  struct AxesTest {
    std::uint32_t slot, first;
    std::vector<std::int64_t> axes;
    bool grows;  // Unsqueeze: axes count in the output's rank
  };
  std::vector<AxesTest> axes_tests;
  // Names that expressions may use and what a match gives them: lets apart, which are computed.
  struct Names {
    std::vector<std::pair<std::string_view, std::uint32_t>> slots;
    std::vector<std::string_view> left_out;
    std::vector<const AttributeBinding*> bindings;
  };
  Names names;
  std::vector<std::pair<std::string, std::uint32_t>> let_slots;  // let names that the (reversed) left side binds: tests

  // The right side, compiled when the rule applies first.
  struct Step {
    const RuleNode* node = nullptr;
    const OpSchema* schema = nullptr;
    std::vector<Operand> operands;
    std::uint32_t first_value = 0;  // its outputs are values first_value, ...
    bool alias = false;             // Identity: its value is its operand
    bool fixed = false;             // attributes do not depend on the match
    OpId op = kNone;                // of a fixed step
  };
  std::vector<Step> steps;
  std::vector<RuleConstant> constants;
  std::uint32_t num_values = 0;
  struct Output {
    std::uint32_t slot = 0;
    int projection = -1;  // >= 0: this output of the tuple at `slot`
    Operand right;
  };
  std::vector<Output> outputs;
};

// `where`, made ready when it is asked first: most rules never match.
struct Conditions {
  // What a match gives a name, by its place. Most matches fail the first condition, so each is looked up when a condition asks for it.
  struct Bound {
    std::uint32_t slot = kNone;
    bool left_out = false;
    std::vector<const CompiledRule::AttributeBinding*> attributes;  // the first that the match has
  };
  std::vector<Bound> bound;
  std::vector<ExprPtr> expressions;  // with these places
};
Conditions conditions_of(const CompiledRule& rule);

// Fills pattern and left-side plan; then the right side. `compiled` stays where it is.
void compile_left(CompiledRule& compiled, OnnxEGraph& g);
void compile_right(CompiledRule& compiled, OnnxEGraph& g);
std::shared_ptr<const RuleApplier> make_applier(std::shared_ptr<CompiledRule> compiled, OnnxEGraph& g, std::shared_ptr<RuleLog> log);

}  // namespace saturate
