// Functions that rule files define in ONNX text: operators, two rules, and local functions of a model.
#include <gtest/gtest.h>

#include "kernels/runtime/runtime.h"
#include "rule_sets.h"
#include "rules/check/check.h"
#include "rules/compile/rule_set.h"
#include "rules/language/own_functions.h"

namespace saturate {
namespace {

// As the standard writes LeakyRelu.
constexpr std::string_view kLeaky = R"(
function my.dom.Leaky <alpha: float = 0.1> (X) => (Y) {
  Alpha = Constant <value_float: float = @alpha> ()
  AlphaCast = CastLike (Alpha, X)
  Zero = Constant <value = float {0.0}> ()
  ZeroCast = CastLike (Zero, X)
  XLessThanZero = Less (X, ZeroCast)
  AlphaMulX = Mul (AlphaCast, X)
  Y = Where (XLessThanZero, AlphaMulX, X)
}
  example X = float[2,3,5], alpha = 0.3
)";

std::string error_of_function(std::string_view text) {
  RuleSet set;
  return std::string(set.load_text(text, "t.rules").message());
}

std::string names_of_rules(const RuleSet& set) {
  std::string out;
  for (const Rule& rule : set.rules()) out += (out.empty() ? "" : " ") + rule.name;
  return out;
}

// What the checker says of all rules and functions.
std::string remarks_on(const RuleSet& set) {
  const auto evaluator = make_evaluator({.reference = true});
  std::string out;
  for (const auto& body : set.operators().all()) {
    const RuleCheck check = check_operator_by_running(body->rule(), set.operators(), *evaluator);
    if (!check.findings.empty()) out += to_string(check);
  }
  for (const Rule& rule : set.rules()) {
    const RuleCheck check = check_by_running(rule, *evaluator);
    if (!check.findings.empty()) out += to_string(check);
  }
  return out;
}

TEST(OwnFunctions, AreRulesInBothDirections) {
  const RuleSet set = set_of(kLeaky);
  EXPECT_EQ(names_of_rules(set), "my.dom.Leaky[expanded] my.dom.Leaky[found]");
  EXPECT_EQ(remarks_on(set), "");
  const Rule& found = *set.find("my.dom.Leaky[found]");
  EXPECT_EQ(found.inputs, (std::vector<std::string>{"X", "Alpha"}));
  EXPECT_EQ(found.right.back().op_type, "Leaky");
}

TEST(OwnFunctions, ANumberMayBearTheNameOfItsAttribute) {
  const RuleSet set = set_of(R"(
function my.dom.Scaled <scale: float> (X) => (Y) {
  scale = Constant <value_float = @scale> ()
  Y = Mul (X, scale)
}
  example X = float[2,3], scale = 0.5
)");
  EXPECT_EQ(remarks_on(set), "");
  EXPECT_EQ(set.rules().size(), 2u);
}

TEST(OwnFunctions, OptionalInputsSeveralOutputsListsAndNestedCalls) {
  const RuleSet set = set_of(std::string(kLeaky) + R"(
function my.dom.Norm <axis: int = -1, axes: ints, digits: int = 2> (X, W?) => (Y, Mean) {
  axes = Constant <value_ints = @axes> ()
  Mean = ReduceMean <keepdims = 1> (X, axes)
  digits = Constant <value_int = @digits> ()
  D = Mul (Sub (X, Mean), CastLike (digits, X))
  Y = Clip (Softmax <axis = @axis> (D), W)
}
  example X = float[2,3,5], axes = [1]; X = float[2,3,5], W = float[] {0.2}, axes = [0], digits = 3

function my.dom.Both (X) => (Y) {
  A = my.dom.Leaky <alpha = 0.5> (X)
  Y, = my.dom.Norm <axes = [1]> (A)
}
  example X = float[2,3]
)");
  EXPECT_EQ(names_of_rules(set),
            "my.dom.Leaky[expanded] my.dom.Leaky[found] my.dom.Norm[expanded] my.dom.Norm[found] my.dom.Both[expanded] my.dom.Both[found]");
  EXPECT_EQ(remarks_on(set), "");
}

TEST(OwnFunctions, WhatABodyDoesNotTellIsNotFound) {
  // Of an input that it does not read, of a copy, of what reads no input.
  EXPECT_EQ(names_of_rules(set_of("function a.b.F (X, Z) => (Y) { Y = Neg (X) } example X = float[2], Z = float[3]")), "a.b.F[expanded]");
  EXPECT_EQ(names_of_rules(set_of("function a.b.F (X) => (Y) { Y = Identity (X) } example X = float[2]")), "a.b.F[expanded]");
  const RuleSet constant = set_of("function a.b.F <v: float> () => (Y) { Y = Constant <value_float = @v> () } example v = 2.5");
  EXPECT_EQ(names_of_rules(constant), "a.b.F[expanded]");
  EXPECT_EQ(remarks_on(constant), "");
}

TEST(OwnFunctions, TheOutputThatIsMadeOfAllFindsTheFunction) {
  const RuleSet set = set_of("function a.b.F (X) => (Y, Z) { Y = Neg (X)  Z = Exp (Y) } example X = float[2,3]");
  EXPECT_EQ(names_of_rules(set), "a.b.F[expanded] a.b.F[found]");
  EXPECT_EQ(remarks_on(set), "");
  // Integers have a negative and no exponential: a part that runs does not say that the function does.
  EXPECT_EQ(names_of_rules(set_of("function a.b.G (X) => (Y, Z) { Y = Neg (X)  Z = Exp (X) } example X = float[2,3]")), "a.b.G[expanded]");
}

TEST(OwnFunctions, ADoubleThatNoAttributeHoldsIsNotTaken) {
  const RuleSet set = set_of(kLeaky);
  bool asks = false;
  for (const ExprPtr& guard : set.find("my.dom.Leaky[found]")->where) asks |= to_string(*guard) == "exact_in_float(Alpha)";
  EXPECT_TRUE(asks);
}

TEST(OwnFunctions, BecomeLocalFunctions) {
  const RuleSet set = set_of(kLeaky);
  const Rule& leaky = set.operators().all().front()->rule();
  const auto f = onnx_function(leaky, 18, {});
  ASSERT_TRUE(f.ok()) << f.status().message();
  EXPECT_EQ(f->domain, "my.dom");
  ASSERT_EQ(f->attribute_defaults.size(), 1u);
  EXPECT_EQ(f->attribute_defaults[0].f(), 0.1f);
  std::string ops;
  for (const Node& n : f->nodes) ops += n.op_type + " ";
  EXPECT_EQ(ops, "Constant Constant CastLike Less CastLike Mul Where ");
  EXPECT_EQ(f->nodes[0].attributes[0].ref, "alpha");
  EXPECT_NE(
      std::string(onnx_function(leaky, 14, {}).status().message()).find("function my.dom.Leaky cannot be written: CastLike: opset 14"),
      std::string::npos);
}

TEST(OwnFunctions, MistakesAreToldWithTheirPlace) {
  EXPECT_EQ(error_of_function("function F (X) => (Y) { Y = Neg (X) }"),
            "t.rules:1:10: domain saturate is a known one; give the function a domain of its own, as in `function my.dom.F`");
  EXPECT_EQ(error_of_function("function ai.onnx.Add (X) => (Y) { Y = Neg (X) }"),
            "t.rules:1:10: the operators of ai.onnx are the standard's; give yours another domain");
  EXPECT_EQ(error_of_function("function com.microsoft.F (X) => (Y) { Y = Neg (X) }"),
            "t.rules:1:10: domain com.microsoft is a known one; give the function a domain of its own, as in `function my.dom.F`");
  EXPECT_EQ(error_of_function("function a.b.F (X) => (Y) {\n  Y = a.b.F (X)\n}"),
            "t.rules:2:7: function a.b.F: its body calls the function itself; functions of ONNX are not recursive");
  EXPECT_EQ(
      error_of_function("function a.b.F (X) => (Y) {\n  Y = a.b.G (X)\n}\nfunction a.b.G (X) => (Y) { Y = a.b.F (X) }"),
      "t.rules:2:7: function a.b.F: there is no function a.b.G before this one; define it first, or declare it by `operator a.b.G (...) => "
      "(...)`");
  EXPECT_EQ(error_of_function("function a.b.F <k: int> (X) => (Y) {\n  Y = Softmax <axis = @j> (X)\n}"),
            "t.rules:2:16: function a.b.F: `@j` is no attribute of the function; it has: k");
  EXPECT_EQ(error_of_function("function a.b.F <k: float> (X) => (Y) {\n  Y = Softmax <axis = @k> (X)\n}"),
            "t.rules:2:16: function a.b.F: `axis` takes another type than `@k` has");
  EXPECT_EQ(error_of_function("function a.b.F (X) => (Y, Z) { Y = Neg (X) }"),
            "t.rules:1:10: function a.b.F: output `Z` is made by no node of the body");
  EXPECT_EQ(error_of_function("function a.b.F <k: int> (X) => (Y) { Y = Neg (X) }"),
            "t.rules:1:17: function a.b.F: attribute `k` is read by no node of the body; remove it, or give it a default");
  EXPECT_EQ(error_of_function("function a.b.F (X) => (Y) { Y = Neg (X) }\nfunction a.b.F (X) => (Y) { Y = Abs (X) }").substr(0, 55),
            "t.rules:2:10: a.b.F is defined in t.rules:1 already");
  EXPECT_EQ(error_of_function("function a.b.F (X) => (Y) where float(X) { Y = Neg (X) }"),
            "t.rules:1:27: a function is its body, whatever it is given; `where` and `let` belong to `operator`");
  EXPECT_EQ(error_of_function("function a.b.F (X) => (Y) { Y = RandomNormalLike (X) }"),
            "t.rules:1:33: function a.b.F: RandomNormalLike draws numbers: two calls differ, so that no rule can say what they are");
  EXPECT_EQ(error_of_function("function a.b.F <t: tensor> (X) => (Y) { Y = Neg (X) }").substr(0, 13), "t.rules:1:20:");
  EXPECT_EQ(error_of_function("function a.b.F (X) => (Y) { Y = saturate.part <offset = 0, count = 1> (X) }").substr(0, 13),
            "t.rules:1:33:");
  EXPECT_EQ(error_of_function("function a.b.F (X) => (Y) { Y = Reshap (X) }").substr(0, 13), "t.rules:1:33:");
}

TEST(OwnFunctions, DomainsHaveOneVersion) {
  RuleSet set;
  ASSERT_TRUE(set.load_text("opset \"\" 23, my.dom 2\nfunction my.dom.F (X) => (Y) { Y = Neg (X) }", "a.rules").ok());
  EXPECT_EQ(set.domain_versions().at("my.dom"), 2);
  EXPECT_EQ(std::string(set.load_text("opset \"\" 23, my.dom 3", "b.rules").message()),
            "b.rules:1:1: domain my.dom has version 3 here and 2 in another file; a model has one of them");
}

TEST(OwnFunctions, ADeclaredOperatorHasTypesAndNoBody) {
  const RuleSet set = set_of(R"(
operator my.dom.Fast <a: float = 1.0> (X, W) => (Y) like MatMul (X, W)
rule fast (X, W) => (Y)
  MatMul (X, W) => my.dom.Fast (X, W)
  example X = float[2,3], W = float[3,5]
)");
  const auto evaluator = make_evaluator({.reference = true});
  OnnxEGraph g(*evaluator);
  set.define_operators(g);
  const auto input = [&](const char* name, const char* rows, std::int64_t columns) {
    Facts f;
    f.kind = Facts::Kind::kTensor;
    f.dtype = DType::kFloat;
    f.shape = std::vector{g.dims().symbol(rows), g.dims().constant(columns)};
    return g.input(name, f);
  };
  OpKey key;
  key.domain = "my.dom";
  key.op_type = "Fast";
  key.attributes = {Attribute::of("a", 1.0f)};
  const std::array inputs{input("x", "n", 3), input("w", "m", 5)};
  EXPECT_EQ(to_string(g.facts(g.add(key, inputs)), g.dims()), "float[n, 5]");
  const RuleCheck check = check_by_running(*set.find("fast"), *evaluator);
  EXPECT_TRUE(check.ok()) << to_string(check);
  EXPECT_NE(to_string(check).find("declared without a body"), std::string::npos);
}

}  // namespace
}  // namespace saturate
