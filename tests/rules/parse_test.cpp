#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "rules/evaluate/functions.h"
#include "rules/terms/rule.h"

namespace saturate {
namespace {

std::string error_of(std::string_view text) {
  const auto file = parse_rules(text, "t.rules");
  return file.ok() ? "" : std::string(file.status().message());
}

Rule one(std::string_view text) {
  auto file = parse_rules(text, "t.rules");
  EXPECT_TRUE(file.ok()) << file.status().message();
  return file.ok() && file->rules.size() == 1 ? file->rules[0] : Rule{};
}

constexpr std::string_view kTranspose = R"(opset "" 23, com.microsoft 1
# Two transposes are one.
# Always.
rule transpose_transpose <p, q> (X) => (Y)
  { T = Transpose <perm: ints = @p> (X)
    Y = Transpose <perm: ints = @q> (T) }
  let r = compose(p, q)
  =>
  { Y = Transpose <perm: ints = @r> (X) }
  example X = float[2,3,5,7], p = [1,2,0,3], q = [3,0,1,2]
  budget 7 phase 2 tolerance 1e-3 rounding 40 effect reassociates
)";

TEST(ParseRules, ReadsEveryPartOfARule) {
  const Rule r = one(kTranspose);
  EXPECT_EQ(r.name, "transpose_transpose");
  EXPECT_EQ(r.doc, "Two transposes are one.\nAlways.");
  EXPECT_EQ(r.place.line, 4);
  EXPECT_EQ(r.attribute_variables, (std::vector<std::string>{"p", "q"}));
  ASSERT_EQ(r.left.size(), 2u);
  EXPECT_EQ(r.left[0].attributes[0].kind, RuleAttribute::Kind::kVariable);
  EXPECT_EQ(r.left[0].attributes[0].literal.type, AttributeType::kInts);
  ASSERT_EQ(r.lets.size(), 1u);
  EXPECT_EQ(to_string(*r.lets[0].second), "compose(p, q)");
  EXPECT_EQ(r.budget, 7u);
  EXPECT_EQ(r.phase, 2);
  EXPECT_EQ(r.tolerance, 1e-3);
  EXPECT_EQ(r.rounding, 40);
  EXPECT_EQ(r.effect, Effect::kReassociates);
  EXPECT_FALSE(r.both_ways);
  ASSERT_EQ(r.examples.size(), 1u);
  EXPECT_EQ(r.examples[0].values[0].dims, (Shape{2, 3, 5, 7}));
  EXPECT_EQ(r.source.substr(0, 24), "rule transpose_transpose");
}

TEST(ParseRules, AttributesTakeTheTypeOfTheSchema) {
  const Rule r = one(R"(rule a (X) => (Y) { Y = LeakyRelu <alpha = 1> (X) } => { Y = ThresholdedRelu <alpha = 2> (X) })");
  EXPECT_EQ(r.left[0].attributes[0].literal.type, AttributeType::kFloat);
  EXPECT_EQ(r.left[0].attributes[0].literal.f(), 1.0f);
}

std::string side(const std::vector<RuleNode>& nodes) {
  std::string out;
  for (const RuleNode& n : nodes) {
    out += fmt::format("{} = {}{}{}", fmt::join(n.outputs, ", "), n.domain, n.domain.empty() ? "" : ".", n.op_type);
    if (const auto c = rule_constant(n)) {
      out += fmt::format(" {}{}", c->integers ? "int" : "real", c->list ? "s" : "");
      for (std::size_t i = 0; i < c->size(); ++i) out += fmt::format(" {}", c->real(i));
    }
    out += fmt::format(" ({})\n", fmt::join(n.inputs, ", "));
  }
  return out;
}

TEST(ParseRules, ASideIsAnExpressionOrNodes) {
  const Rule r = one(R"(rule a <p> (X, b) => (Y)
    Div (Transpose <perm = @p> (Mul (X, 0.5)), com.microsoft.Gelu (b))
    where rank(X) > 1
    => { A = Abs (Neg (X))
         Y = Max (A, -1, [2, 3], [0.5], inf) })");
  EXPECT_EQ(side(r.left),
            "0.5:3 = Constant real 0.5 ()\nMul:2 = Mul (X, 0.5:3)\nTranspose:1 = Transpose (Mul:2)\n"
            "com:4 = com.microsoft.Gelu (b)\nY = Div (Transpose:1, com:4)\n");
  EXPECT_EQ(side(r.right),
            "Neg:5 = Neg (X)\nA = Abs (Neg:5)\n-:6 = Constant int -1 ()\n[:7 = Constant ints 2 3 ()\n[:8 = Constant reals 0.5 ()\n"
            "inf:9 = Constant real inf ()\nY = Max (A, -:6, [:7, [:8, inf:9)\n");
  EXPECT_EQ(r.where.size(), 1u);
  const auto mirrored = parse_rules("rule a (X, b) => (Y) Sub (Abs (X) | Neg (b)) <=> Neg (Sub (Neg (b) | Abs (X)))", "t.rules");
  ASSERT_EQ(mirrored->rules.size(), 2u);
  EXPECT_EQ(side(mirrored->rules[1].left), "Abs:1 = Abs (X)\nNeg:2 = Neg (b)\nY = Sub (Neg:2, Abs:1)\n");
  EXPECT_EQ(error_of("rule a (X) => (Y, Z) Abs (X) => Neg (X)"),
            "t.rules:1:22: a rule of 2 outputs names each; write nodes in braces, as in `{ Y = Abs (...) }`");
  EXPECT_EQ(error_of("rule a (X) => (Y) Abs (X) => Max (X, [\"a\"])"),
            "t.rules:1:38: an input is a number or a list of numbers, not strings");
  EXPECT_EQ(error_of("rule a (X) => (Y) Abs (X) => Max (X, {1})"),
            "t.rules:1:38: expected an input: a name, a number or an operator, found `{`");
}

TEST(ParseRules, ClausesStandAfterTheHeaderToo) {
  const Rule r = one("rule a (X) => (Y)  effect reassociates  phase last\n  Abs (X) => Neg (X)\n  budget 3\n  example X = float[2]");
  EXPECT_EQ(r.effect, Effect::kReassociates);
  EXPECT_EQ(r.budget, 3u);
  EXPECT_EQ(r.examples.size(), 1u);
  EXPECT_EQ(error_of("rule a (X) => (Y) example X = float[2] Abs (X) => Neg (X)"),
            "t.rules:1:6: the examples of `a` stand after its right side; move them down");
}

TEST(ParseRules, AnExampleDiffersFromTheFirst) {
  const Rule r = one(R"(rule a <k> (X, but) => (Y)
    Softmax <axis = @k> (Add (X, but)) => Abs (X)
    example X = float[2,3], but = float[3], k = 1; but k = 0; but = float[5], X = float[5], k = 0
    counterexample but X = float[7], k = 0; but but = float[])");
  ASSERT_EQ(r.examples.size(), 3u);
  ASSERT_EQ(r.counterexamples.size(), 2u);
  const auto value = [](const RuleExample& e, std::string_view name) {
    const auto it = std::find_if(e.values.begin(), e.values.end(), [&](const ExampleValue& v) { return v.name == name; });
    return it == e.values.end() ? ExampleValue{} : *it;
  };
  EXPECT_EQ(r.examples[1].values.size(), 3u);
  EXPECT_EQ(value(r.examples[1], "X").dims, (Shape{2, 3}));
  EXPECT_EQ(value(r.examples[1], "k").attribute->i(), 0);
  EXPECT_EQ(value(r.examples[2], "but").dims, (Shape{5}));
  EXPECT_EQ(value(r.counterexamples[0], "X").dims, (Shape{7}));
  EXPECT_EQ(value(r.counterexamples[0], "but").dims, (Shape{3}));
  EXPECT_EQ(value(r.counterexamples[1], "but").dims, (Shape{}));
  EXPECT_EQ(r.counterexamples[1].place.column, 45);
  EXPECT_EQ(error_of("rule a (X) => (Y) Abs (X) => Neg (X) counterexample but X = float[2]"),
            "t.rules:1:53: there is no example before this one that it could differ from; write all values");
  EXPECT_EQ(error_of("rule a (X) => (Y) Abs (X) => Neg (X) example X = float[2]; but X = float[1], X = float[3]"),
            "t.rules:1:78: rule a: `X` is given twice");
}

TEST(ParseRules, AbsentInputsOutputsDomainsAndStrings) {
  const Rule r = one(R"(rule a (X, b, M) => (Y)
    { Y = com.microsoft.MultiHeadAttention <num_heads = 3, scale = -0.5> (X, , , b, "", M) }
    => { Y, , S = com.microsoft.SkipLayerNormalization (X, b, M) })");
  EXPECT_EQ(r.left[0].domain, "com.microsoft");
  EXPECT_EQ(r.left[0].inputs, (std::vector<std::string>{"X", "", "", "b", "", "M"}));
  EXPECT_EQ(r.right[0].outputs, (std::vector<std::string>{"Y", "", "S"}));
}

TEST(ParseRules, ExpressionsKeepTheirStructure) {
  const Rule r = one(R"(rule a (X) => (Y) { Y = Neg (X) }
    where rank(X) - 1 - 2 == 3 * (1 + 2) and not const(X) or shape(X)[1:][-1] > 4 // 3, -2 ** 2 == 4, shape(X)[:2] == [1, 2.5e-1] => { Y = Abs (X) })");
  ASSERT_EQ(r.where.size(), 3u);
  EXPECT_EQ(to_string(*r.where[0]), "rank(X) - 1 - 2 == 3 * (1 + 2) and not const(X) or shape(X)[1:][-1] > 4 // 3");
  EXPECT_EQ(to_string(*r.where[1]), "-2 ** 2 == 4");
  EXPECT_EQ(to_string(*r.where[2]), "shape(X)[:2] == [1, 0.25]");
}

TEST(ParseRules, ErrorsSayWhereWhatAndWhatToDo) {
  EXPECT_EQ(error_of("rule a (X) => (Y)\n  { Y = Ad (X, X) } => { Y = Abs (X) }"), "t.rules:2:9: rule a: there is no operator Ad");
  EXPECT_EQ(error_of("rule a (X) => (Y) { Y = Softmax <axes = 1> (X) } => { Y = Abs (X) }"),
            "t.rules:1:34: Softmax has no attribute `axes`; it has: axis");
  EXPECT_EQ(error_of("rule a (X) => (Y) { Y = Softmax <axis = 1.5> (X) } => { Y = Abs (X) }"),
            "t.rules:1:34: attribute `axis` of Softmax is an int, not a float");
  EXPECT_EQ(error_of("rule a (X) => (Y) { Y = Abs (Z) } => { Y = Abs (X) }"),
            "t.rules:1:25: rule a: `Z` is made by no node before it and is no input of the rule; declare or make it");
  EXPECT_EQ(error_of("rule a (X) => (Y) { Y = Abs (X) } => { Y = Neg (Z) }"),
            "t.rules:1:44: rule a: `Z` is bound to nothing on the right side; make it before, or bind it on the left");
  EXPECT_EQ(error_of("rule a (X) => (Y) { Y = Abs (X, X) } => { Y = Neg (X) }"), "t.rules:1:25: rule a: Abs takes 1 inputs, not 2");
  EXPECT_EQ(error_of("rule a (X) => (Y) { Y = Abs (X) } where rnak(X) == 1 => { Y = Neg (X) }"),
            "t.rules:1:41: there is no function `rnak`; did you mean `rank`? (`saturate rules list --functions` names them all)");
  EXPECT_EQ(error_of("rule a (X) => (Y) { Y = Abs (X) } where rank(X, X) == 1 => { Y = Neg (X) }"),
            "t.rules:1:41: `rank` takes (x) -> int, not 2 arguments");
  EXPECT_EQ(error_of("rule a (X) => (Y) { Y = Abs (X) } where rank(W) == 1 => { Y = Neg (X) }"),
            "t.rules:1:46: rule a: `W` is no input, node output, attribute variable or earlier `let` of this rule");
  EXPECT_EQ(error_of("rule a (X) => (Y) { Y = Abs (X) } => { Y = Neg (X) } effect none"),
            "t.rules:1:61: `none` is no effect; write exact, reassociates, within_one_step, rescales or approximates");
  EXPECT_EQ(error_of("rule a (X) => (Y) { Y = Abs (X) } => { Y = Neg (X) } effect within_one_step 1.5"),
            "t.rules:1:77: the share of elements that may be a step apart is a number from 0 to below 1");
  EXPECT_EQ(error_of("rule a (X) => (Y)\n{ Y = Abs (X"), "t.rules:2:13: expected `,` between inputs, found the end of the file");
  EXPECT_EQ(error_of("rule a (X) => (Y) { Y = Abs (X) } => { Y = Neg (X) }\nexample X = float[2], Z = float[1]"),
            "t.rules:2:23: rule a: `Z` is no input of the rule");
  EXPECT_EQ(error_of("rule a (X) => (Y) { Y = Abs (X) } => { Y = Neg (X) } $"),
            "t.rules:1:54: the character `$` has no meaning here; remove it");
}

TEST(ParseRules, RefusesWhatCannotBeMatchedOrBuilt) {
  EXPECT_NE(error_of("rule a (X, Z) => (Y) { A = Abs (X) Y = Abs (Z) } => { Y = Neg (X) }"), "");          // two ends
  EXPECT_NE(error_of("rule a (X, Z) => (Y) { Y = Abs (X) } => { Y = Neg (X) }"), "");                      // Z unused
  EXPECT_NE(error_of("rule a <p> (X) => (Y) { Y = Abs (X) } => { Y = Transpose <perm = @p> (X) }"), "");   // p unbound
  EXPECT_NE(error_of("rule a (X) => (Y) { Y = Softmax <axis = @p> (X) } => { Y = Neg (X) }"), "");         // p undeclared
  EXPECT_NE(error_of("rule a (X) => (Y) { Y = Abs (X) } => { Y = Softmax <axis = @_> (X) }"), "");         // @_ on the right
  EXPECT_NE(error_of("rule a (X) => (Y) { Y = Upsample (X, X) } => { Y = Neg (X) }"), "");                 // deprecated
  EXPECT_NE(error_of("rule a (X) => (Y) { Y = Cast (X) } => { Y = Neg (X) }"), "");                        // `to` is required
  EXPECT_NE(error_of("opset com.microsoft 1\nrule a (X) => (Y) { Y = Abs (X) } => { Y = Neg (X) }"), "");  // domain undeclared
  EXPECT_NE(error_of("rule a (X) => (Y) { Y = Abs (X) } => { Y = Neg (X) } rule a (X) => (Y) { Y = Abs (X) } => { Y = Neg (X) }"), "");
  EXPECT_NE(error_of("rule a <p> (X) => (Y) { Y = Softmax <axis = @p> (X) } <=> { Y = Neg (X) }"), "");  // not reversible
}

TEST(ParseRules, DeepNestingIsAnErrorNotACrash) {
  std::string deep = "rule a (X) => (Y) { Y = Abs (X) } where " + std::string(100000, '(') + "1";
  EXPECT_NE(error_of(deep), "");
  EXPECT_NE(error_of("rule a (X) => (Y) { Y = Abs (X) } where " + std::string(100000, '-') + "1"), "");
  std::string nots = "rule a (X) => (Y) { Y = Abs (X) } where ";
  for (int i = 0; i < 100000; ++i) nots += "not ";
  EXPECT_NE(error_of(nots + "true"), "");
  std::string calls = "rule a (X) => (Y) ";
  for (int i = 0; i < 100000; ++i) calls += "Abs (";
  EXPECT_EQ(error_of(calls), "t.rules:1:524: the operators are nested too deeply; give a step a name in braces");
}

TEST(ParseRules, EveryPrefixOfAFileIsReadOrRefused) {
  for (std::size_t n = 0; n < kTranspose.size(); ++n) (void)error_of(kTranspose.substr(0, n));
  EXPECT_EQ(error_of(""), "");
  EXPECT_EQ(error_of("# nothing\n"), "");
}

TEST(ParseRules, ReversedSwapsTheSides) {
  const Rule r = one("rule a (X) => (Y) { Y = Abs (X) } <=> { Y = Neg (X) }");
  EXPECT_TRUE(r.both_ways);
  const Rule back = reversed(r);
  EXPECT_EQ(back.name, "a.back");
  EXPECT_EQ(back.left[0].op_type, "Neg");
  EXPECT_EQ(back.right[0].op_type, "Abs");
}

TEST(RuleFunctions, AreDocumentedAndFound) {
  std::string previous;
  for (const RuleFunction* f : rule_functions()) {
    EXPECT_EQ(find_rule_function(f->name), f);
    EXPECT_LT(previous, std::string(f->name)) << "two functions of one name";
    previous = f->name;
    EXPECT_TRUE(f->doc.ends_with(".")) << f->name;
    EXPECT_NE(f->signature.find("->"), std::string_view::npos) << f->name;
    EXPECT_NE(f->example.find(std::string(f->name) + "("), std::string_view::npos) << f->name;
    EXPECT_LE(f->min_arguments, f->max_arguments);
  }
}

}  // namespace
}  // namespace saturate
