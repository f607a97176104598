#include "rules/compile/compile.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/runtime/runtime.h"
#include "onnx_bridge/convert/op_key.h"
#include "rules/compile/rule_set.h"
#include "rules/terms/literals.h"
#include "rules/values/fills.h"

namespace saturate {
namespace {

using Ints = std::vector<std::int64_t>;

// An e-graph to which a test adds operators by hand and applies one rule.
class Compile : public testing::Test {
 protected:
  Compile() : evaluator_(make_evaluator()), g_(*evaluator_), log_(std::make_shared<RuleLog>()) {}

  Id input(const std::string& name, DType dtype, std::vector<Dim> shape) {
    Facts f;
    f.kind = Facts::Kind::kTensor;
    f.dtype = dtype;
    f.shape = std::move(shape);
    return g_.input(name, f);
  }
  Id input(const std::string& name, const Ints& shape, DType dtype = DType::kFloat) {
    std::vector<Dim> dims;
    for (std::int64_t d : shape) dims.push_back(g_.dims().constant(d));
    return input(name, dtype, dims);
  }
  Id unranked(const std::string& name) {
    Facts f;
    f.kind = Facts::Kind::kTensor;
    f.dtype = DType::kFloat;
    return g_.input(name, f);
  }
  Id reals(DType dtype, const Ints& dims, std::vector<double> values) { return g_.constant(*tensor_of_reals(dtype, dims, values)); }
  Id ints(const Ints& values) { return g_.constant(Tensor::vector_int64(values)); }
  Id op(std::string_view type, std::vector<Id> children, std::vector<Attribute> attributes = {}, int outputs = 1) {
    std::optional<int> rank;
    if (!children.empty() && g_.facts(children[0]).shape) rank = g_.facts(children[0]).rank();
    return g_.add(make_key("", type, std::move(attributes), outputs, rank), children);
  }
  void apply(std::string_view rule) {
    const auto file = parse_rules(rule, "t.rules");
    ASSERT_TRUE(file.ok()) << file.status().message();
    g_.egraph().rebuild();
    std::vector<Rewrite> rewrites;
    for (const Rule& r : file->rules)
      for (Rewrite& w : compile_rule(r, g_, log_)) rewrites.push_back(std::move(w));
    report_ = run(g_.egraph(), rewrites, {});
    EXPECT_FALSE(g_.egraph().contradiction().has_value()) << g_.egraph().contradiction()->what;
  }
  bool same(Id a, Id b) const { return g_.egraph().find(a) == g_.egraph().find(b); }

  std::unique_ptr<Evaluator> evaluator_;
  OnnxEGraph g_;
  std::shared_ptr<RuleLog> log_;
  RunReport report_;
};

TEST_F(Compile, AnAttributeThatIsNotMentionedHasItsDefault) {
  const Id x = input("x", {2, 3, 5});
  const Id with_default = op("LeakyRelu", {x}), other = op("LeakyRelu", {x}, {Attribute::of("alpha", 0.5f)});
  apply("rule r (X) => (Y) { Y = LeakyRelu (X) } => { Y = Identity (X) }");
  EXPECT_TRUE(same(with_default, x));
  EXPECT_FALSE(same(other, x));
}

// Refuses what has not this rank.
struct OfRank : Refusals {
  explicit OfRank(int rank) : wanted(rank) {}
  bool refuses(const OnnxEGraph& g, const ENode&, Id id) const override { return g.facts(id).rank() != wanted; }
  Ranks ranks(const OpKey&) const override { return {wanted, wanted}; }
  bool of_any_operator() const override { return true; }
  bool by_place(const OpKey&) const override { return false; }
  bool takes_empty(const OpKey&) const override { return true; }
  bool counts_heads() const override { return false; }
  int wanted;
};

TEST_F(Compile, ARuleMayBeForWhatIsRefusedWhereItStands) {
  const Id x = input("x", {2, 3, 5, 7}), y = input("y", {2, 3});
  const Id taken = op("Abs", {x}), refused = op("Abs", {y});
  g_.refuse_by(std::make_shared<OfRank>(4));
  apply("rule r (X) => (Y) if_refused Abs (X) => Neg (X)");
  EXPECT_FALSE(same(taken, op("Neg", {x})));
  EXPECT_TRUE(same(refused, op("Neg", {y})));
}

TEST_F(Compile, RulesForWhatIsRefusedAreLeftOutWhereNothingIs) {
  RuleSet rules;
  ASSERT_TRUE(rules.load_text("rule r (X) => (Y) if_refused Abs (X) => Neg (X)", "t.rules").ok());
  EXPECT_EQ(rules.compile(g_).size(), 0u);
  g_.refuse_by(std::make_shared<OfRank>(4));
  EXPECT_EQ(rules.compile(g_).size(), 1u);
  EXPECT_EQ(rules.compile_when_wanted(g_, [](const RuleHead&) { return true; }).size(), 1u);
}

TEST_F(Compile, AnyAttributeAndBoundAttribute) {
  const Id x = input("x", {2, 3, 5});
  const Id a = op("LeakyRelu", {x}, {Attribute::of("alpha", 0.5f)});
  apply("rule r <p> (X) => (Y) { Y = LeakyRelu <alpha = @p> (X) } let q = @p * 2 => { Y = Elu <alpha = @q> (X) }");
  EXPECT_TRUE(same(a, op("Elu", {x}, {Attribute::of("alpha", 1.0f)})));
}

TEST_F(Compile, ARepeatedAttributeVariableMeansEqualValues) {
  const Id x = input("x", {2, 3});
  const auto leaky = [&](Id of, float alpha) { return op("LeakyRelu", {of}, {Attribute::of("alpha", alpha)}); };
  const Id equal = leaky(leaky(x, 0.5f), 0.5f), unequal = leaky(leaky(x, 0.25f), 0.75f);
  apply("rule r <p> (X) => (Y) { A = LeakyRelu <alpha = @p> (X) Y = LeakyRelu <alpha = @p> (A) } => { Y = Abs (X) }");
  EXPECT_TRUE(same(equal, op("Abs", {x})));
  EXPECT_FALSE(same(unequal, op("Abs", {x})));
}

TEST_F(Compile, ANegativeAxisCountsFromTheRank) {
  const Id x = input("x", {2, 3, 5}), u = unranked("u");
  const Id last = op("Softmax", {x}, {Attribute::of("axis", std::int64_t{2})}),
           first = op("Softmax", {x}, {Attribute::of("axis", std::int64_t{0})});
  const Id open = op("Softmax", {u}, {Attribute::of("axis", std::int64_t{-1})}),
           fixed = op("Softmax", {u}, {Attribute::of("axis", std::int64_t{2})});
  apply("rule r (X) => (Y) { Y = Softmax <axis = -1> (X) } => { Y = LogSoftmax <axis = -1> (X) }");
  EXPECT_TRUE(same(last, op("LogSoftmax", {x}, {Attribute::of("axis", std::int64_t{2})})));
  EXPECT_FALSE(same(first, op("LogSoftmax", {x}, {Attribute::of("axis", std::int64_t{0})})));
  EXPECT_TRUE(same(open, op("LogSoftmax", {u}, {Attribute::of("axis", std::int64_t{-1})})));
  EXPECT_FALSE(same(fixed, op("LogSoftmax", {u}, {Attribute::of("axis", std::int64_t{2})})));
}

TEST_F(Compile, AConstantMatchesByValueWithinItsPrecision) {
  const Id x = input("x", {2, 3}), h = input("h", {2, 3}, DType::kFloat16), i = input("i", {2, 3}, DType::kInt32);
  const Id exact = op("Mul", {x, reals(DType::kFloat, {}, {0.70710678})}), off = op("Mul", {x, reals(DType::kFloat, {}, {0.7072})});
  const Id half = op("Mul", {h, reals(DType::kFloat16, {1}, {0.70710678})}), integer = op("Mul", {i, reals(DType::kInt32, {}, {1})});
  apply("rule r (X) => (Y) { c = Constant <value_float = 0.70710678> () Y = Mul (X, c) } => { Y = Neg (X) }");
  EXPECT_TRUE(same(exact, op("Neg", {x})));
  EXPECT_TRUE(same(half, op("Neg", {h})));
  EXPECT_FALSE(same(off, op("Neg", {x})));
  EXPECT_FALSE(same(integer, op("Neg", {i})));
}

TEST_F(Compile, AConstantThatWidensDoesNotMatch) {
  const Id x = input("x", {3}), u = unranked("u");
  const Id one = op("Mul", {x, reals(DType::kFloat, {1}, {1})}), wide = op("Mul", {x, reals(DType::kFloat, {1, 1}, {1})});
  const Id row = op("Mul", {x, reals(DType::kFloat, {3}, {1, 1, 1})});
  const Id open = op("Mul", {u, reals(DType::kFloat, {1}, {1})}), scalar = op("Mul", {u, reals(DType::kFloat, {}, {1})});
  apply("rule r (X) => (Y) { c = Constant <value_float = 1.0> () Y = Mul (c, X) } => { Y = Identity (X) }");
  EXPECT_TRUE(same(one, x));
  EXPECT_TRUE(same(scalar, u));
  EXPECT_FALSE(same(wide, x));
  EXPECT_FALSE(same(row, x));  // more than one element is no number
  EXPECT_FALSE(same(open, u));
}

TEST_F(Compile, AListOfAxesMatchesByValueAndRank) {
  const Id x = input("x", {2, 3, 5});
  const Id last = op("ReduceMean", {x, ints({2})}), middle = op("ReduceMean", {x, ints({1})}), both = op("ReduceMean", {x, ints({1, 2})});
  apply(
      "rule r (X) => (Y) { a = Constant <value_ints = [-1]> () Y = ReduceMean (X, a) } => { b = Constant <value_ints = [-1]> () Y = "
      "ReduceMax (X, b) }");
  EXPECT_TRUE(same(last, op("ReduceMax", {x, ints({2})})));
  EXPECT_FALSE(same(middle, op("ReduceMax", {x, ints({1})})));
  EXPECT_FALSE(same(both, op("ReduceMax", {x, ints({2})})));
}

TEST_F(Compile, AConstantOnTheRightTakesTheDtypeOfWhatItMeets) {
  const Id h = input("h", {2, 3}, DType::kFloat16);
  const Id y = op("Neg", {h});
  apply("rule r (X) => (Y) { Y = Neg (X) } => { c = Constant <value_float = -1.0> () Y = Mul (X, c) }");
  EXPECT_TRUE(same(y, op("Mul", {h, reals(DType::kFloat16, {}, {-1})})));
}

TEST_F(Compile, AnOutputMayBeANumber) {
  const Id h = input("h", {}, DType::kFloat16), x = input("x", {3});
  const Id scalar = op("Sub", {h, h}), row = op("Sub", {x, x});
  apply("rule r (X) => (Y) { Y = Sub (X, X) } let z = 0.0 => { Y = Identity (z) }");
  EXPECT_TRUE(same(scalar, reals(DType::kFloat16, {}, {0})));
  EXPECT_FALSE(same(row, reals(DType::kFloat, {}, {0})));
  ASSERT_EQ(log_->refusals().size(), 1u);  // rank 1 and 0
  EXPECT_EQ(log_->refusals()[0].rule, "r");
  EXPECT_EQ(log_->refusals()[0].what, "rank 1 and 0");
}

TEST_F(Compile, AbsentInputs) {
  const Id x = input("x", {2, 3}), low = reals(DType::kFloat, {}, {0}), high = reals(DType::kFloat, {}, {6});
  const Id upper = op("Clip", {x, g_.absent(), high}), both = op("Clip", {x, low, high}), none = op("Clip", {x, g_.absent(), g_.absent()});
  apply(R"(rule upper (X, h) => (Y) { Y = Clip (X, , h) } => { Y = Min (X, h) }
           rule none (X) => (Y) { Y = Clip (X) } => { Y = Identity (X) }
           rule lower (X, l, h) => (Y) { Y = Clip (X, l, h) } => { m = Max (X, l) Y = Min (m, h) })");
  EXPECT_TRUE(same(upper, op("Min", {x, high})));
  EXPECT_TRUE(same(none, x));
  EXPECT_TRUE(same(both, op("Min", {op("Max", {x, low}), high})));
  EXPECT_FALSE(same(upper, op("Min", {op("Max", {x}), high})));  // a variable matches no absent input
}

TEST_F(Compile, AVariableMatchesAnAbsentInputWhereAGuardAsks) {
  const Id x = input("x", {2, 3}), high = reals(DType::kFloat, {}, {6});
  const Id upper = op("Clip", {x, g_.absent(), high});
  apply("rule r (X, l, h) => (Y) { Y = Clip (X, l, h) } where absent(l) or item(l) < -1 => { Y = Min (X, h) }");
  EXPECT_TRUE(same(upper, op("Min", {x, high})));
}

TEST_F(Compile, AnOptionalInputMayBeAbsentAtTheEndAndBetween) {
  const Id x = input("x", {2, 3}), low = reals(DType::kFloat, {}, {0}), high = reals(DType::kFloat, {}, {6});
  const Id n = op("Neg", {x});
  const std::vector<std::vector<Id>> bounds = {{}, {low}, {g_.absent(), high}, {low, high}};
  const auto clip = [&](Id of, const std::vector<Id>& by) {
    std::vector<Id> children = {of};
    children.insert(children.end(), by.begin(), by.end());
    return op("Clip", children);
  };
  for (const auto& by : bounds) clip(n, by);
  apply("rule r (X, l?, h?) => (Y) { N = Neg (X) Y = Clip (N, l, h) } => { C = Clip (X, l, h) Y = Neg (C) }");
  for (const auto& by : bounds) EXPECT_TRUE(same(clip(n, by), op("Neg", {clip(x, by)}))) << by.size();
}

TEST_F(Compile, AnOptionalInputCanBeAskedFor) {
  const Id x = input("x", {2, 3}), low = reals(DType::kFloat, {}, {0}), one = reals(DType::kFloat, {}, {1});
  const Id none = op("Clip", {x}), zero = op("Clip", {x, low}), other = op("Clip", {x, one});
  apply("rule r (X, l?) => (Y) { Y = Clip (X, l) } where absent(l) or item(l) == 1 => { Y = Identity (X) }");
  EXPECT_TRUE(same(none, x));
  EXPECT_TRUE(same(other, x));
  EXPECT_FALSE(same(zero, x));
}

TEST_F(Compile, SeveralOutputs) {
  const Id x = input("x", {4, 3});
  const Id tuple = op("Split", {x}, {Attribute::of("axis", std::int64_t{0}), Attribute::of("num_outputs", std::int64_t{2})}, 2);
  const Id a = g_.project(tuple, 0), b = g_.project(tuple, 1), sum = op("Sub", {a, b});
  apply(R"(rule inside (X) => (Y) { A, B = Split <axis = 0, num_outputs = 2> (X) Y = Sub (A, B) } => { Y = Neg (B) }
           rule both (X) => (A, B) { A, B = Split <axis = 0, num_outputs = 2> (X) }
             => { s = Constant <value_ints = [2, 2]> () A, B = Split <axis = 0> (X, s) })");
  EXPECT_TRUE(same(sum, op("Neg", {b})));
  const Id other = op("Split", {x, ints({2, 2})}, {Attribute::of("axis", std::int64_t{0})}, 2);
  EXPECT_TRUE(same(a, g_.project(other, 0)));
  EXPECT_TRUE(same(b, g_.project(other, 1)));
  EXPECT_FALSE(same(a, b));
}

TEST_F(Compile, AnInnerValueMayBeAnOutput) {
  const Id x = input("x", {2, 3}), y = input("y", {2, 3});
  const Id sum = op("Add", {x, y}), root = op("Relu", {sum});
  apply("rule r (A, B) => (Y, S) { S = Add (A, B) Y = Relu (S) } => { S = Sub (A, B) Y = Abs (S) }");
  // Add is commutative: both orders match, so both differences join.
  EXPECT_TRUE(same(sum, op("Sub", {x, y})));
  EXPECT_TRUE(same(root, op("Abs", {op("Sub", {x, y})})));
}

TEST_F(Compile, AListOfDimsIsAShape) {
  const Dim b = g_.dims().symbol("B"), s = g_.dims().symbol("S");
  const Id x = input("x", DType::kFloat, {b, s, g_.dims().constant(6)});
  const Id y = op("Flatten", {x}, {Attribute::of("axis", std::int64_t{2})});
  apply(
      "rule r <a> (X) => (Y) { Y = Flatten <axis = @a> (X) } let l = [product(shape(X)[:@a]), product(shape(X)[@a:])] => { Y = Reshape (X, "
      "l) }");
  const Dim flat[] = {g_.dims().mul(b, s), g_.dims().constant(6)};
  EXPECT_TRUE(same(y, op("Reshape", {x, g_.literal(flat, false)})));
}

TEST_F(Compile, BothDirectionsMeetAndLetsAreTestsBackwards) {
  const Id x = input("x", {2, 3, 5});
  const Id a = op("Transpose", {op("Neg", {x})}, {Attribute::of("perm", Ints{0, 2, 1})});
  const Id b = op("Neg", {op("Transpose", {x}, {Attribute::of("perm", Ints{2, 1, 0})})});
  const Id scaled = op("Mul", {op("Abs", {x}), reals(DType::kFloat, {}, {3})}),
           other = op("Mul", {op("Abs", {x}), reals(DType::kFloat, {}, {4})});
  apply(R"(rule swap <p> (X) => (Y) { N = Neg (X) Y = Transpose <perm = @p> (N) } <=> { T = Transpose <perm = @p> (X) Y = Neg (T) }
           rule scale (X) => (Y) { Y = HardSwish (X) } let r = rank(X) <=> { A = Abs (X) Y = Mul (A, r) })");
  EXPECT_TRUE(same(a, op("Neg", {op("Transpose", {x}, {Attribute::of("perm", Ints{0, 2, 1})})})));
  EXPECT_TRUE(same(b, op("Transpose", {op("Neg", {x})}, {Attribute::of("perm", Ints{2, 1, 0})})));
  EXPECT_TRUE(same(scaled, op("HardSwish", {x})));
  EXPECT_FALSE(same(other, op("HardSwish", {x})));
}

TEST_F(Compile, WhatDoesNotFitTheTypesIsNotBuilt) {
  const Id i = input("i", {2, 3}, DType::kInt32);
  const Id y = op("Neg", {i});
  const std::size_t nodes = g_.egraph().num_nodes();
  apply("rule r (X) => (Y) { Y = Neg (X) } => { Y = Sign (X) } rule s (X) => (Y) { Y = Neg (X) } => { Y = Sqrt (X) }");
  EXPECT_EQ(g_.egraph().num_nodes(), nodes + 1) << "Sign takes integers, Sqrt does not";
  EXPECT_TRUE(same(y, op("Sign", {i})));
}

TEST_F(Compile, AUnionOfDifferentDtypesIsRefusedAndNamed) {
  const Id x = input("x", {2, 3});
  const Id y = op("Neg", {x});
  apply("rule wrong (X) => (Y) { Y = Neg (X) } => { Y = Cast <to = 11> (X) }");
  ASSERT_EQ(log_->refusals().size(), 1u);
  EXPECT_EQ(log_->refusals()[0].rule, "wrong");
  EXPECT_EQ(log_->refusals()[0].what, "dtype float and double");
  EXPECT_FALSE(same(y, x));
}

TEST_F(Compile, SaysWhyNot) {
  const Id x = input("x", {3}), c = reals(DType::kFloat, {3, 1}, {0, 0, 0});
  op("Add", {x, c});
  g_.egraph().rebuild();
  const auto file =
      parse_rules("rule r (X, c) => (Y) { Y = Add (X, c) } where all_zeros(c), broadcasts_to(c, X) => { Y = Identity (X) }", "t");
  const Rewrite r = compile_rule(file->rules[0], g_).front();
  std::vector<std::string> reasons;
  for (const OwnedMatch& m : search(g_.egraph(), r.left))
    reasons.push_back(dynamic_cast<const RuleApplier&>(*r.applier).why_not({m.classes, m.matched, m.ops}));
  EXPECT_NE(std::find(reasons.begin(), reasons.end(),
                      "`broadcasts_to(c, X)` does not hold: it is false (c is float[3, 1] constant, X is float[3])"),
            reasons.end())
      << testing::PrintToString(reasons);
}

TEST(OpKeys, DefaultsSortingAndAxes) {
  const OpKey key = make_key("", "LayerNormalization", {Attribute::of("epsilon", 0.5f)}, 1, 3);
  ASSERT_EQ(key.attributes.size(), 3u);
  EXPECT_EQ(key.attributes[0].name, "axis");
  EXPECT_EQ(key.attributes[0].i(), 2);
  EXPECT_EQ(key.attributes[1].f(), 0.5f);
  EXPECT_EQ(key.attributes[2].name, "stash_type");
  EXPECT_EQ(make_key("", "LayerNormalization", {}, 1, std::nullopt).attributes[0].i(), -1);
}

TEST(TensorOfReals, RoundsToHalfFormatsAsTheStandardSays) {
  const auto bits = [](DType t, double v) { return *tensor_of_reals(t, {}, std::span(&v, 1))->data<std::uint16_t>(); };
  EXPECT_EQ(bits(DType::kFloat16, 1.0), 0x3c00);
  EXPECT_EQ(bits(DType::kFloat16, -2.0), 0xc000);
  EXPECT_EQ(bits(DType::kFloat16, 65504.0), 0x7bff);
  EXPECT_EQ(bits(DType::kFloat16, 65520.0), 0x7c00);  // ties to even: infinity
  EXPECT_EQ(bits(DType::kFloat16, 65519.0), 0x7bff);
  EXPECT_EQ(bits(DType::kFloat16, 0x1p-24), 0x0001);  // the smallest subnormal
  EXPECT_EQ(bits(DType::kFloat16, 0x1p-25), 0x0000);  // a tie, to even
  EXPECT_EQ(bits(DType::kFloat16, 0x1.8p-25), 0x0001);
  EXPECT_EQ(bits(DType::kFloat16, 0x1p-14 - 0x1p-25), 0x0400);  // carries into the smallest normal number
  EXPECT_EQ(bits(DType::kFloat16, 1 + 0x1p-11), 0x3c00);        // a tie, to even
  EXPECT_EQ(bits(DType::kFloat16, 1 + 0x3p-11), 0x3c02);
  EXPECT_EQ(bits(DType::kFloat16, -0.0), 0x8000);
  EXPECT_EQ(bits(DType::kBfloat16, 1.0), 0x3f80);
  EXPECT_EQ(bits(DType::kBfloat16, HUGE_VAL), 0x7f80);
  EXPECT_EQ(bits(DType::kBfloat16, std::nan("")) & 0x7fc0, 0x7fc0);
  EXPECT_FALSE(tensor_of_reals(DType::kInt8, {}, std::vector<double>{128}).ok());
  EXPECT_FALSE(tensor_of_reals(DType::kInt64, {}, std::vector<double>{0x1p63}).ok());
  EXPECT_FALSE(tensor_of_reals(DType::kInt32, {}, std::vector<double>{0.5}).ok());
  EXPECT_FALSE(tensor_of_reals(DType::kFloat, {2}, std::vector<double>{1}).ok());
}

// What proves the condition comes in a later phase, and joins a class that lies below those of the match.
TEST_F(Compile, AConditionIsAskedAgainWhenAClassFarBelowGainsANode) {
  const Attribute perm = Attribute::of("perm", Ints{1, 0});
  const Id x = input("x", {2, 3}), m = input("m", {2, 3});
  const Id held = op("Transpose", {op("Transpose", {op("Ceil", {m})}, {perm})}, {perm});
  const Id sum = op("Add", {x, held});
  EXPECT_FALSE(is_above_lowest(g_, held));
  apply(
      "rule first (X, M) => (Y) { Y = Add (X, M) } where above_lowest(M) => { Y = Sub (X, M) } effect approximates\n"
      "rule then (X) => (Y) { Y = Ceil (X) } where rank(X) == 2 => { Y = Sin (X) } phase 1 effect approximates");
  EXPECT_TRUE(is_above_lowest(g_, held));
  EXPECT_TRUE(same(sum, op("Sub", {x, held})));
}

}  // namespace
}  // namespace saturate
