// Laws that stand once for several rules: what each form expands to.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/runtime/runtime.h"
#include "onnx_bridge/model/evaluator.h"
#include "rules/check/check.h"
#include "rules/compile/rule_set.h"

namespace saturate {
namespace {

std::vector<Rule> rules_of(std::string_view text) {
  auto file = parse_rules(text, "t.rules");
  EXPECT_TRUE(file.ok()) << file.status().message();
  return file.ok() ? file->rules : std::vector<Rule>{};
}

std::string error_of_law(std::string_view text) {
  const auto file = parse_rules(text, "t.rules");
  return file.ok() ? "" : std::string(file.status().message());
}

std::vector<std::string> names_of(const std::vector<Rule>& rules) {
  std::vector<std::string> out;
  for (const Rule& r : rules) out.push_back(r.name);
  return out;
}

using Names = std::vector<std::string>;

TEST(Laws, InstancesThatDifferInTheirInputsHaveExamplesOfTheirOwn) {
  const std::string law = R"(
forall (view, attribute, inputs, outside) in (Transpose, perm, (X), (F)), (Reshape, allowzero, (X, s), (F, s))
rule function_of_view <v> @inputs => (Y)
  Relu (@view <@attribute = @v> @inputs) => { F = Relu (X)  Y = @view <@attribute = @v> @outside }
  example X = float[2,3], v = [1,0]; but s = int64[1] {6}, v = 0; but X = float[5,2])";
  const auto rules = rules_of(law + "\n");
  ASSERT_EQ(names_of(rules), (Names{"function_of_view[Transpose]", "function_of_view[Reshape]"}));
  EXPECT_EQ(rules[0].inputs, (Names{"X"}));
  EXPECT_EQ(rules[1].inputs, (Names{"X", "s"}));
  EXPECT_EQ(rules[0].examples.size(), 2u);
  EXPECT_EQ(rules[1].examples.size(), 1u);
  // An example that no instance has the inputs for is refused, not passed over.
  EXPECT_EQ(error_of_law(law + "; but t = int64[1] {6}\n"),
            "t.rules:5:87: this is for no instance of the law: none has just the inputs that it gives");
}

TEST(Laws, ForallMakesARuleOfEachOperator) {
  const auto plain = rules_of(R"(
# Outside.
forall op in Relu, Tanh, com.microsoft.QuickGelu
rule outside <p> (X) => (Y)
  { T = Transpose <perm = @p> (X)
    Y = @op (T) }
  =>
  { U = @op (X)
    Y = Transpose <perm = @p> (U) }
  example X = float[2,3], p = [1,0]

rule after (X) => (Y) { Y = Neg (X) } => { Y = Identity (X) }
)");
  ASSERT_EQ(names_of(plain), (Names{"outside[Relu]", "outside[Tanh]", "outside[com.microsoft.QuickGelu]", "after"}));
  EXPECT_EQ(plain[1].left[1].op_type, "Tanh");
  EXPECT_EQ(plain[2].right[0].domain, "com.microsoft");
  EXPECT_EQ(plain[0].doc, "Outside.");
  EXPECT_TRUE(plain[0].source.starts_with("forall op"));
  EXPECT_EQ(law_of(plain[0].name), "outside");
}

TEST(Laws, ForallBindsSeveralNamesAndMultiplies) {
  const auto rules = rules_of(R"(
forall (op, unit) in (Add, 0), (Mul, 1)
forall t in float, double
rule unit (X, c) => (Y)
  { Y = @op (X, c) }
  where all_equal(c, @unit), broadcasts_to(c, X)
  =>
  { Y = Identity (X) }
  example X = @t[2,3], c = @t[] {@unit}
)");
  ASSERT_EQ(names_of(rules), (Names{"unit[Add,float]", "unit[Add,double]", "unit[Mul,float]", "unit[Mul,double]"}));
  EXPECT_EQ(to_string(*rules[3].where[0]), "all_equal(c, 1)");
  EXPECT_EQ(rules[3].examples[0].values[0].dtype, DType::kDouble);
}

TEST(Laws, ForallTakesClassesOfOperators) {
  const auto rules = rules_of(R"(
forall op in unary_elementwise and odd except Neg, Identity
rule odd (X) => (Y)
  { N = Neg (X)
    Y = @op (N) }
  =>
  { S = @op (X)
    Y = Neg (S) }
  example X = float[2,3]
)");
  const Names names = names_of(rules);
  EXPECT_NE(std::find(names.begin(), names.end(), "odd[Erf]"), names.end());
  EXPECT_EQ(std::find(names.begin(), names.end(), "odd[Neg]"), names.end());
  EXPECT_EQ(std::find(names.begin(), names.end(), "odd[Relu]"), names.end());
  EXPECT_GE(names.size(), 8u);
}

TEST(Laws, AllOtherAttributesAreBoundAndHandedOn) {
  const auto rules = rules_of(R"(
forall op in LeakyRelu, Gelu, Relu
rule outside <p, ..a> (X) => (Y)
  { T = Transpose <perm = @p> (X)
    Y = @op <..a> (T) }
  =>
  { U = @op <..a> (X)
    Y = Transpose <perm = @p> (U) }
  example X = float[2,3], p = [1,0], alpha = 0.3
)");
  ASSERT_EQ(rules.size(), 3u);
  EXPECT_EQ(rules[0].attribute_variables, (Names{"p", "a.alpha"}));
  EXPECT_EQ(rules[0].examples[0].values[2].name, "a.alpha");
  EXPECT_EQ(rules[1].attribute_variables, (Names{"p", "a.approximate"}));
  EXPECT_EQ(rules[1].right[0].attributes[0].variable, "a.approximate");
  EXPECT_EQ(rules[1].examples[0].values.size(), 2u);
  EXPECT_EQ(rules[2].attribute_variables, (Names{"p"}));
}

TEST(Laws, OptionalValuesComeAndGoTogether) {
  const auto rules = rules_of(R"(
opset "" 28, com.microsoft 1
optional past: Pk, Pv, Kt, Vt
optional bias: b
rule into <h, s> (q, k, v, b, Pk, Pv) => (Y, Kt, Vt)
  { Q = Add (q, b) ?
    Y, Kt, Vt = com.microsoft.MultiHeadAttention <num_heads = @h, scale = @s> (Q, k, v, , , , Pk, Pv) }
  where rank(k) == 3, rank(Pk) == 4 and const(b), useful(rank(q) == 3 and rank(b) == 1)
  let n = dim(b, 0)
  =>
  { c = Neg (b)
    d = Identity (c)
    Q = Add (q, d) ?
    Y, Kt, Vt = com.microsoft.MultiHeadAttention <num_heads = @h, scale = @s> (Q, k, v, , , , Pk, Pv) }
  example q = float[1,2,4], k = float[1,2,4], v = float[1,2,4], h = 1, s = 0.5
  example q = float[1,2,4], k = float[1,2,4], v = float[1,2,4], b = float[4], h = 1, s = 0.5
  example q = float[1,2,4], k = float[1,2,4], v = float[1,2,4], Pk = float[1,1,2,4], Pv = float[1,1,2,4], h = 1, s = 0.5
  example q = float[1,2,4], k = float[1,2,4], v = float[1,2,4], b = float[4], Pk = float[1,1,2,4], Pv = float[1,1,2,4], h = 1, s = 0.5
)");
  ASSERT_EQ(names_of(rules), (Names{"into", "into[past]", "into[bias]", "into[past,bias]"}));
  EXPECT_EQ(rules[0].inputs, (Names{"q", "k", "v"}));
  EXPECT_EQ(rules[0].outputs, (Names{"Y"}));
  ASSERT_EQ(rules[0].left.size(), 1u);
  EXPECT_EQ(rules[0].left[0].inputs, (Names{"q", "k", "v"}));
  EXPECT_EQ(rules[0].left[0].outputs, (Names{"Y"}));
  ASSERT_EQ(rules[0].right.size(), 1u);
  ASSERT_EQ(rules[0].where.size(), 2u);
  EXPECT_EQ(to_string(*rules[0].where[1]), "useful(rank(q) == 3)");
  EXPECT_TRUE(rules[0].lets.empty());
  EXPECT_EQ(rules[1].left[0].inputs.size(), 8u);
  EXPECT_EQ(to_string(*rules[1].where[1]), "rank(Pk) == 4");
  EXPECT_EQ(rules[2].left.size(), 2u);
  for (const Rule& r : rules) EXPECT_EQ(r.examples.size(), 1u) << r.name;
}

TEST(Laws, AnOutputThatIsLeftOutStaysWhereTheOperatorAlwaysHasIt) {
  const auto rules = rules_of(R"(
opset "" 28, com.microsoft 1
optional sum: S
rule r (i, w, p, g, b) => (Y, S)
  { Y, , S = com.microsoft.EmbedLayerNormalization (i, , w, p, , g, b) }
  =>
  { W = Gather (w, i)
    P = Gather (p, i)
    Z = Add (W, P)
    S = Identity (Z)
    Y = LayerNormalization (Z, g, b) }
)");
  ASSERT_EQ(names_of(rules), (Names{"r", "r[sum]"}));
  EXPECT_EQ(rules[0].left[0].outputs, (Names{"Y", ""}));
  EXPECT_EQ(rules[0].right.size(), 4u);
  EXPECT_EQ(rules[1].left[0].outputs, (Names{"Y", "", "S"}));
}

TEST(Laws, TheMirrorImageExchangesOperands) {
  const auto rules = rules_of(R"(
rule over (c, x, y, z) => (Y)
  { A = Where (c, x | y)
    Y = Mul (A, z) }
  =>
  { s = Mul (x, z)
    t = Mul (y, z)
    Y = Where (c, s | t) }
  example c = bool[2], x = float[2], y = float[2], z = float[2]
)");
  ASSERT_EQ(names_of(rules), (Names{"over", "over[mirrored]"}));
  EXPECT_EQ(rules[1].left[0].inputs, (Names{"c", "y", "x"}));
  EXPECT_EQ(rules[1].right[2].inputs, (Names{"c", "t", "s"}));
}

TEST(Laws, WhatCommutesIsItsOwnMirrorImage) {
  const auto rules = rules_of(R"(
forall op in Add, Sub
rule r (X, B) => (Y) @op (Abs (X) | B) => @op (X | B) example X = float[2], B = float[2]
)");
  EXPECT_EQ(names_of(rules), (Names{"r[Add]", "r[Sub]", "r[Sub,mirrored]"}));
}

TEST(Laws, AnAssumptionIsMadeOnlyWhereItIsNeeded) {
  const auto rules = rules_of(R"(
rule r (X) => (Y) { Y = Relu (X) } where rank(X) == 2 => { Y = Neg (X) } assume finite_scores unless wide_float(X)
)");
  ASSERT_EQ(names_of(rules), (Names{"r", "r[finite_scores]"}));
  EXPECT_TRUE(rules[0].assumes.empty());
  EXPECT_EQ(to_string(*rules[0].where[1]), "wide_float(X)");
  EXPECT_EQ(rules[1].assumes, (Names{"finite_scores"}));
  EXPECT_EQ(to_string(*rules[1].where[1]), "useful(unproven(wide_float(X)))");
}

TEST(Laws, DefinitionsAreConditionsOverTheirNames) {
  const auto rules = rules_of(R"(
def square(X, n) = rank(X) == 2 and dim(X, 0) == n
rule r (A) => (Y) { Y = Relu (A) } where square(A, 3), not square(A, 1 + 1) => { Y = Identity (A) }
)");
  ASSERT_EQ(rules.size(), 1u);
  EXPECT_EQ(to_string(*rules[0].where[0]), "rank(A) == 2 and dim(A, 0) == 3");
  EXPECT_EQ(to_string(*rules[0].where[1]), "not (rank(A) == 2 and dim(A, 0) == 1 + 1)");
}

TEST(Laws, ADirectionMayHaveConditionsOfItsOwn) {
  const auto both = rules_of(R"(
rule gate (X) => (Y)  backward if_unsupported  backward where float(X)
  Mul (X, Sigmoid (X))
  where rank(X) >= 0
  <=> Swish (X)
  example X = float[2]
)");
  ASSERT_EQ(names_of(both), (Names{"gate", "gate.back"}));
  EXPECT_FALSE(both[0].both_ways || both[0].if_unsupported || both[1].both_ways);
  EXPECT_TRUE(both[1].if_unsupported);
  EXPECT_EQ(both[1].left[0].op_type, "Swish");
  EXPECT_EQ(both[0].where.size(), 1u);
  EXPECT_EQ(both[1].where.size(), 2u);
  EXPECT_EQ(error_of_law("rule r (X) => (Y) backward if_unsupported Neg (X) => Abs (X)"),
            "t.rules:1:19: `backward` is for a rule that reads both ways, `<=>`");
  EXPECT_EQ(error_of_law("rule r (X) => (Y) backward budget 3 Neg (X) <=> Abs (X)"),
            "t.rules:1:28: expected `where`, `if_unsupported`, `if_any_unsupported`, `if_refused` or `moves_quantizers` after `backward`, "
            "found `budget`");
}

TEST(Laws, TwoOperatorsHandOnTheirAttributes) {
  const auto rules = rules_of(R"(
rule r <..a, ..b> (X) => (Y)
  LeakyRelu <..a> (Elu <..b> (X)) => Elu <..b> (LeakyRelu <..a> (X))
  example X = float[2]
)");
  ASSERT_EQ(rules.size(), 1u);
  EXPECT_EQ(rules[0].attribute_variables, (Names{"b.alpha", "a.alpha"}));
  EXPECT_EQ(rules[0].right[0].attributes[0].variable, "a.alpha");
  EXPECT_EQ(rules[0].right[1].attributes[0].variable, "b.alpha");
}

TEST(Laws, WhatIsWrongIsToldWithItsPlace) {
  EXPECT_EQ(error_of_law("def f(X) = rank(Y) == 2"),
            "t.rules:1:1: `Y` is not one of the definition's names; a definition sees nothing else");
  EXPECT_EQ(error_of_law("def rank(X) = dim(X, 0)"), "t.rules:1:1: `rank` has a meaning already; give the definition another name");
  EXPECT_EQ(error_of_law("def f(X) = rank(X)\nrule r (X) => (Y) { Y = Neg (X) } where f(X, X) => { Y = Identity (X) }"),
            "t.rules:2:41: `f` takes 1, not 2 arguments");
  EXPECT_EQ(error_of_law("forall (a, b) in (Add, 1), (Mul)\nrule r (X) => (Y) { Y = @a (X, X) } => { Y = Identity (X) }"),
            "t.rules:1:28: this list has 1 parts for 2 names");
  EXPECT_EQ(error_of_law("forall op in Add except Mul\nrule r (X) => (Y) { Y = @op (X, X) } => { Y = Identity (X) }"),
            "t.rules:1:25: `Mul` is none of what this `forall` is for; remove it");
  EXPECT_EQ(error_of_law("optional a: Z\nrule r (X) => (Y) { Y = Neg (X) } => { Y = Identity (X) }"),
            "t.rules:1:1: rule r: `Z` is no input and no output");
  EXPECT_EQ(error_of_law("rule r (X) => (Y) { Y = Gelu <..a> (X) } => { Y = Identity (X) }"),
            "t.rules:1:25: rule r: `..a` is not declared; add it to the header: `<..a>`");
  EXPECT_EQ(error_of_law("forall op in Relu\nnative n (X) => (Y) { Y = Neg (X) }"),
            "t.rules:2:1: a graph for a native rule stands alone; remove what is before it");
  EXPECT_EQ(error_of_law("def f(a, a) = a"), "t.rules:1:1: two names of `f` are the same; give the second another");
  EXPECT_EQ(error_of_law("rule r (X) => (Y) { Y = Neg (X |) } => { Y = Identity (X) }"),
            "t.rules:1:25: `|` stands between two inputs of Neg; name both");
  std::string many;  // 2^64 instances
  for (int i = 0; i < 64; ++i) many += "forall a" + std::to_string(i) + " in Relu, Neg\n";
  EXPECT_NE(error_of_law(many + "rule r (X) => (Y) { Y = Neg (X) } => { Y = Identity (X) }").find("more than 2000 instances"),
            std::string::npos);
  std::string groups, inputs = "X";
  for (int i = 0; i < 11; ++i) {
    const std::string name = "Z" + std::to_string(i);
    groups += "optional o" + name + ": " + name + "\n";
    inputs += ", " + name;
  }
  EXPECT_NE(error_of_law(groups + "rule r (" + inputs + ") => (Y) { Y = Sum (" + inputs + ") } => { Y = Identity (X) }").find("at most 10"),
            std::string::npos);
  for (const std::string_view twice : {"{0} + {0}", "[{0}, {0}]", "min({0}, {0})"}) {  // 2^64 of them
    std::string doubled = "def f0(a) = a\n";
    for (int i = 1; i <= 64; ++i)
      doubled += fmt::format("def f{}(a) = {}\n", i, fmt::format(fmt::runtime(twice), fmt::format("f{}(a)", i - 1)));
    EXPECT_NE(error_of_law(doubled).find("too many operators"), std::string::npos) << twice;
  }
  EXPECT_NE(error_of_law("forall op in Nonsense\nrule r (X) => (Y) { Y = @op (X) } => { Y = Identity (X) }"), "");
  EXPECT_NE(error_of_law("forall op in Relu, \nrule r (X) => (Y) { Y = @op (X) } => { Y = Identity (X) }"), "");
}

TEST(Laws, ARewriteIsADirectionOfItsRule) {
  EXPECT_EQ(rule_of_rewrite("bias_gelu[com.microsoft.FastGelu]"), "bias_gelu[com.microsoft.FastGelu]");
  EXPECT_EQ(rule_of_rewrite("bias_gelu[com.microsoft.FastGelu].back"), "bias_gelu[com.microsoft.FastGelu]");
  EXPECT_EQ(rule_of_rewrite("neutral"), "neutral");
  EXPECT_EQ(rule_of_rewrite(back_of("neutral")), "neutral");
}

// A counterexample may be for one instance, an example for another; a guard that no instance needs is told once.
TEST(Laws, AreCheckedAsOne) {
  const auto rules = rules_of(R"(
forall op in Sub, Add
rule zero (X, c) => (Y)
  { Y = @op (X, c) }
  where all_zeros(c), broadcasts_to(c, X), rank(X) >= 0
  =>
  { Y = Identity (X) }
  example X = float[2,3], c = float[] {0}
  counterexample X = float[2,3], c = float[] {1}
  counterexample X = float[3], c = float[1,1] {0}
)");
  ASSERT_EQ(rules.size(), 2u);
  const auto evaluator = make_evaluator({.reference = true});
  std::vector<RuleCheck> instances;
  for (const Rule& r : rules) instances.push_back(check_by_running(r, *evaluator));
  const RuleCheck law = check_of_law(instances);
  EXPECT_EQ(law.guards, 3);
  EXPECT_EQ(law.needed, 2);
  ASSERT_EQ(law.findings.size(), 1u) << to_string(law);
  EXPECT_NE(law.findings[0].what.find("rank(X) >= 0"), std::string::npos);
}

TEST(Laws, ARuleThatOthersImplyIsTold) {
  RuleSet set;
  const auto status = set.load_text(R"(
rule twice (X) => (Y) { N = Neg (X)  Y = Neg (N) } => { Y = Identity (X) } example X = float[2,3]
rule four (X) => (Y) { A = Neg (X)  B = Neg (A)  C = Neg (B)  Y = Neg (C) } => { Y = Identity (X) } example X = float[2,3]
rule exact (X) => (Y) { Y = Sub (X, X) } => { Y = Mul (X, X) } effect reassociates
rule by_tan (X) => (Y) { Y = Cos (X) } => { Y = Sin (X) } effect approximates example X = float[2] {0.78539816}
rule by_tan_again (X) => (Y) { Y = Cos (X) } => { Y = Sin (X) } effect reassociates example X = float[2] {0.78539816}
)",
                                    "t.rules");
  ASSERT_TRUE(status.ok()) << status.message();
  const auto evaluator = make_evaluator({.reference = true});
  EXPECT_FALSE(is_implied(*set.find("twice"), set, *evaluator));  // four Negs are too many for it
  EXPECT_TRUE(is_implied(*set.find("four"), set, *evaluator));
  EXPECT_FALSE(is_implied(*set.find("exact"), set, *evaluator));  // nothing shows it
  EXPECT_TRUE(is_implied(*set.find("by_tan"), set, *evaluator));
  EXPECT_FALSE(is_implied(*set.find("by_tan_again"), set, *evaluator));  // the other one is less exact
}

TEST(Laws, ALawsNameIsForAllItsInstances) {
  RuleSet set;
  ASSERT_TRUE(set.load_text("forall op in Relu, Neg\nrule r (X) => (Y) { Y = @op (X) } => { Y = Identity (X) }", "t").ok());
  EXPECT_EQ(set.laws().size(), 1u);
  EXPECT_EQ(set.find("r")->name, "r[Relu]");
  RuleFilter filter;
  filter.except = {"r[Neg]"};
  EXPECT_EQ(set.filtered(filter).rules().size(), 1u);
  filter.except = {"r"};
  EXPECT_EQ(set.filtered(filter).rules().size(), 0u);
}

}  // namespace
}  // namespace saturate
