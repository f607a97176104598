// Operators that rule files define by a body: schema, facts and reference come from it.
#include <gtest/gtest.h>

#include "onnx_bridge/convert/onnx_egraph.h"
#include "onnx_bridge/model/evaluator.h"
#include "rule_sets.h"
#include "rules/check/check.h"
#include "rules/compile/rule_set.h"

namespace saturate {
namespace {

constexpr std::string_view kShifted = R"(
# x + by, along the last axis also x - by.
forall (sign, value) in (0, Add (X, c)), (1, Concat <axis = -1> (Add (X, c), Sub (X, c)))
operator my.lab.shifted <by: float, both: int = 0> (X) => (Y)
  where both == @sign, float(X)
  let c = by
  => @value
  example X = float[2,3], by = 0.5, both = @sign
)";

std::string error_of_operator(std::string_view text) {
  const auto file = parse_rules(text, "t.rules");
  return file.ok() ? "" : std::string(file.status().message());
}

std::string findings_of(const RuleSet& set) {
  const auto evaluator = make_evaluator({.reference = true});
  std::string out;
  for (const auto& body : set.operators().all()) {
    const RuleCheck check = check_operator_by_running(body->rule(), set.operators(), *evaluator);
    if (!check.findings.empty()) out += to_string(check);
  }
  for (const Rule& rule : set.rules()) {
    const RuleCheck check = check_by_running(rule, *evaluator);
    if (!check.ok()) out += to_string(check);
  }
  return out;
}

TEST(Operators, BuiltInOnesRunAndTheirFactsAreThoseOfTheirBodies) {
  const auto set = RuleSet::builtin();
  ASSERT_TRUE(set.ok()) << set.status().message();
  EXPECT_GT(set->operators().all().size(), 10u);
  const auto evaluator = make_evaluator({.reference = true});
  for (const auto& body : set->operators().all()) {
    const RuleCheck check = check_operator_by_running(body->rule(), set->operators(), *evaluator);
    EXPECT_TRUE(check.findings.empty()) << to_string(check);
    EXPECT_GT(check.examples, 0) << check.rule;
  }
}

TEST(Operators, ARuleMakesAndMatchesThem) {
  const RuleSet set = set_of(std::string(kShifted) + R"(
rule shift (X, c) => (Y)
  Add (X, c)
  where const(c), scalar(c, X), float(X)
  let b = item(c)
  => my.lab.shifted <by = @b> (X)
  example X = float[2,3], c = float[] {0.5}
  counterexample but c = float[1,1,1] {0.5}

rule shifts_meet <a, b> (X) => (Y)  effect reassociates
  my.lab.shifted <by = @a> (my.lab.shifted <by = @b> (X))
  let s = a + b
  => my.lab.shifted <by = @s> (X)
  example X = float[2,3], a = 0.25, b = 0.5
)");
  EXPECT_EQ(findings_of(set), "");
  // A default stands where a rule mentions no attribute: what has the other value is not matched.
  EXPECT_EQ(set.find("shifts_meet")->left[0].attribute("both")->literal.i(), 0);
}

TEST(Operators, FactsFollowTheBodyWithSymbolicSizes) {
  const RuleSet set = set_of(kShifted);
  const auto evaluator = make_evaluator({.reference = true});
  OnnxEGraph g(*evaluator);
  set.define_operators(g);
  Facts f;
  f.kind = Facts::Kind::kTensor;
  f.dtype = DType::kFloat;
  f.shape = std::vector{g.dims().symbol("rows"), g.dims().symbol("columns")};
  const Id x = g.input("x", f);
  const auto made = [&](std::int64_t both) {
    const std::vector<Attribute> attributes{Attribute::of("both", both), Attribute::of("by", 0.5f)};
    OpKey key;
    key.domain = "my.lab";
    key.op_type = "shifted";
    key.attributes = attributes;
    key.outputs = 1;
    return g.add(key, std::array{x});
  };
  EXPECT_EQ(to_string(g.facts(made(0)), g.dims()), "float[rows, columns]");
  EXPECT_EQ(to_string(g.facts(made(1)), g.dims()), "float[rows, 2*columns]");
}

TEST(Operators, ABodyThatDoesNotRunOrIsWrongIsFound) {
  EXPECT_NE(findings_of(set_of("operator my.f (X) => (Y) => MatMul (X, X) example X = float[2,3]")).find("error"), std::string::npos);
  EXPECT_NE(findings_of(set_of("operator my.f (X) => (Y) => Neg (X)")).find("an operator needs an example"), std::string::npos);
  EXPECT_NE(findings_of(set_of("operator my.f (X) => (Y) => Neg (X) example X = float[2] counterexample X = float[3]"))
                .find("takes this counterexample"),
            std::string::npos);
  EXPECT_NE(findings_of(set_of(std::string(kShifted) + "rule r (X) => (Y) Neg (X) => my.lab.shifted <by = 1> (X) example X = float[2]"))
                .find("error"),
            std::string::npos);
}

TEST(Operators, WhatIsWrongIsToldWithItsPlace) {
  EXPECT_EQ(error_of_operator("rule r (X) => (Y) saturate.no_such (X) => Neg (X)"),
            "t.rules:1:19: rule r: there is no operator saturate.no_such; define it before, as in `operator no_such (X) => (Y) => ...`");
  EXPECT_EQ(
      error_of_operator("operator again (X) => (Y) => saturate.again (X)"),
      "t.rules:1:30: rule saturate.again: there is no operator saturate.again; define it before, as in `operator again (X) => (Y) => ...`");
  EXPECT_EQ(error_of_operator("operator f <a: tensor> (X) => (Y) => Neg (X)"),
            "t.rules:1:16: `tensor` is no type of an attribute; known are int, float, string, ints, floats, strings");
  EXPECT_EQ(error_of_operator("operator f <a: int = 0.5> (X) => (Y) => Neg (X)").substr(0, 13), "t.rules:1:22:");
  EXPECT_EQ(error_of_operator("operator ai.onnx.Add (X, Z) => (Y) => Sub (X, Z)"),
            "t.rules:1:10: the operators of ai.onnx are the standard's; give yours another domain");
  EXPECT_EQ(error_of_operator("operator com.microsoft.Mine (X) => (Y) => Neg (X)"),
            "t.rules:1:10: com.microsoft.Mine is an operator of a runtime already; give yours another domain");
  EXPECT_EQ(error_of_operator("operator f (X) => (Y) => Neg (X)\noperator f <a: int> (X) => (Y) => Abs (X)"),
            "t.rules:2:10: saturate.f is defined in t.rules:1 already with other attributes; a further body has the same");
  EXPECT_EQ(error_of_operator("operator sdpa (X) => (Y) => Neg (X)").substr(0, 57),
            "t.rules:1:10: saturate.sdpa is defined in operators.rules");
  EXPECT_EQ(error_of_operator("operator f (X) => (Y) => Neg (X) budget 3"),
            "t.rules:1:10: an operator is what its body says; of the clauses of rules it has examples, counterexamples and a tolerance");
  EXPECT_NE(error_of_operator("operator f <a: int> (X) => (Y) => Neg (X)\nrule r (X) => (Y) saturate.f (X) => Neg (X)")
                .find("needs its attribute `a`"),
            std::string::npos);
  EXPECT_NE(error_of_operator("operator f (X, Z) => (Y) => Add (X, Z)\nrule r (X) => (Y) saturate.f (X) => Neg (X)")
                .find("takes 2 inputs, not 1"),
            std::string::npos);
}

}  // namespace
}  // namespace saturate
