#include "kernels/verify/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "fmt/format.h"
#include "onnx_bridge/file/io.h"

namespace saturate {
namespace {

Model parse(const std::string& text) {
  auto model = parse_model_text(text, "test");
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : Model();
}

Model graph(const std::string& signature, const std::string& body) {
  return parse("<ir_version: 8, opset_import: [\"\" : 18]>\ng " + signature + " {\n" + body + "\n}\n");
}

std::size_t cases_of(const VerifyReport& report, CaseKind kind) {
  const auto same = [&](const VerifyCase& c) { return c.kind == kind; };
  return static_cast<std::size_t>(std::count_if(report.cases.begin(), report.cases.end(), same));
}

// Parts of a model whose operators have no kernels have thousands of open dims, each in every message.
TEST(Verify, OfManySizesTheFirstAreTold) {
  Sizes sizes{{"a", 1}, {"b", 2}};
  EXPECT_EQ(to_string(sizes), "a=1, b=2");
  for (int i = 0; i < 10000; ++i) sizes[fmt::format("c{}", i)] = i;
  EXPECT_TRUE(to_string(sizes).starts_with("a=1, b=2, c0=0, ")) << to_string(sizes);
  EXPECT_TRUE(to_string(sizes).ends_with(", and 9986 more sizes")) << to_string(sizes);
}

TEST(Verify, EqualModelsAtSeveralSizes) {
  const Model a = graph("(float[n, m] x) => (float[n, m] y)", "t = Add (x, x)\ny = Relu (t)");
  const Model b = graph("(float[n, m] x) => (float[n, m] y)", "r = Relu (x)\ny = Add (r, r)");
  const VerifyReport report = verify(a, b);
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  std::set<Sizes> sizes;
  for (const VerifyCase& c : report.cases) sizes.insert(c.sizes);
  EXPECT_GE(sizes.size(), 3u);
}

TEST(Verify, DifferenceIsNamed) {
  const Model a = graph("(float[n] x) => (float[n] y, float[n] z)", "y = Relu (x)\nz = Exp (x)");
  const Model b = graph("(float[n] x) => (float[n] y, float[n] z)", "y = Relu (x)\nz = Sinh (x)");
  const VerifyReport report = verify(a, b);
  EXPECT_EQ(report.status, VerifyStatus::kDifferent);
  EXPECT_NE(report.message.find("'z'"), std::string::npos) << report.message;
  EXPECT_NE(report.message.find("n="), std::string::npos) << report.message;
  EXPECT_GT(report.max_abs(), 0.1);
}

// Wrong only where a dim is 1 (broadcasting), or only where it isn't.
TEST(Verify, SizesFindBroadcastMistakes) {
  const Model a = graph("(float[n, m] x) => (float y)", "s = Shape (x)\np = ReduceProd <keepdims = 0> (s)\ny = Cast <to = 1> (p)");
  const Model b =
      graph("(float[n, m] x) => (float y)", "s = Shape <start = 1> (x)\np = ReduceProd <keepdims = 0> (s)\ny = Cast <to = 1> (p)");
  EXPECT_EQ(verify(a, b).status, VerifyStatus::kDifferent);
}

// It may be equal: nothing is said against it.
TEST(Verify, AResultThatLacksMemoryIsNoDifference) {
  const std::string made = "(float[1000, 1000] x) => (float[1000, 1000] y)";
  const Model a = graph(made, "y = Relu (x)");
  const Model large = graph(made,
                            "c = Concat <axis = 0> (x, x, x, x, x, x)\ns = Constant <value_ints = [1000, 5000]> ()\nr = Relu (c)\n"
                            "y, z = Split <axis = 0> (r, s)");
  VerifyOptions options;
  options.memory = 20'000'000;
  const VerifyReport report = verify(a, large, options);
  EXPECT_EQ(report.status, VerifyStatus::kNotRun) << report.message;
  EXPECT_NE(report.message.find("--max-memory gives more"), std::string::npos) << report.message;
  options.memory = 200'000'000;
  EXPECT_EQ(verify(a, large, options).status, VerifyStatus::kEqual);
}

TEST(Verify, AFailingResultIsADifference) {
  const Model a = graph("(float[n] x) => (float[n] y)", "y = Relu (x)");
  const Model b = graph("(float[n] x) => (float[n] y)", "s = Constant <value_ints = [2]> ()\ny = Reshape (x, s)");
  EXPECT_EQ(verify(a, b).status, VerifyStatus::kDifferent);
}

TEST(Verify, AMissingOutputIsADifference) {
  const Model a = graph("(float[n] x) => (float[n] y)", "y = Relu (x)");
  const Model b = graph("(float[n] x) => (float[n] z)", "z = Relu (x)");
  const VerifyReport report = verify(a, b);
  EXPECT_EQ(report.status, VerifyStatus::kDifferent);
  EXPECT_NE(report.message.find("'y'"), std::string::npos);
}

TEST(Verify, IndicesAreDrawnInRange) {
  const Model a = graph("(int64[n, m] ids) => (float[n, m, 2] y)",
                        "t = Constant <value = float[3, 2] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}> ()\ny = Gather (t, ids)");
  const VerifyReport report = verify(a, a);
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_EQ(report.refused, 0u);
}

// Reshape to a given shape: only ones are accepted at first, so other styles are tried.
TEST(Verify, ShapesAsInputsAreFoundByTrial) {
  const Model a = graph("(float[6] x, int64[2] shape) => (float[n, m] y)", "y = Reshape (x, shape)");
  const VerifyReport report = verify(a, a);
  EXPECT_TRUE(report.status == VerifyStatus::kEqual || report.status == VerifyStatus::kNotRun);
  const Model b = graph("(float[1] x, int64[2] shape) => (float[n, m] y)", "y = Reshape (x, shape)");
  EXPECT_EQ(verify(b, b).status, VerifyStatus::kEqual);
}

TEST(Verify, AValueThatIsAnOutputTwiceIsComparedInBothPlaces) {
  const Model a = graph("(float[n] x) => (float[n] y, float[n] y, float[n] z)", "y = Relu (x)\nz = Neg (x)");
  const VerifyReport report = verify(a, a);
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_EQ(verify(a, graph("(float[n] x) => (float[n] y, float[n] y, float[n] z)", "y = Relu (x)\nz = Abs (x)")).status,
            VerifyStatus::kDifferent);
}

TEST(Verify, SumsOfSizesAreFound) {
  const Model a =
      graph("(float[past] p, float[seq] s, float[total] m) => (float[total] y)", "t = Concat <axis = 0> (p, s)\ny = Add (t, m)");
  const VerifyReport report = verify(a, a);
  ASSERT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_GE(report.cases.size(), 3u);
  for (const VerifyCase& c : report.cases) EXPECT_EQ(c.sizes.at("total"), c.sizes.at("past") + c.sizes.at("seq"));
}

// As exporters name the dims of a cache, and of a mask beside tokens: apart, though they are equal wherever the model runs.
TEST(Verify, SizesOfTheSameAxisMayBeEqual) {
  const Model a = graph("(float[b0,s] x, float[b1,t] m, float[b2,2,p0] k, float[b3,2,p1] v, float[b4,2,p2] w) => (float[b0,2,p0] y)",
                        "a = Add (k, v)\nb = Add (a, w)\nc = Concat <axis = 1> (x, m)\nd = ReduceSum <keepdims = 1> (c)\ny = Add (b, d)");
  const VerifyReport report = verify(a, a);
  ASSERT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_GE(report.cases.size(), 3u);
  for (const VerifyCase& c : report.cases) EXPECT_EQ(c.sizes.at("p0"), c.sizes.at("p2"));
}

TEST(Verify, AModelThatTakesOneTokenAtATime) {
  const Model a =
      graph("(float[batch, seq] s, float[batch, total] m, float[batch, past] p) => (float[batch, total] y)",
            "shape = Constant <value_ints = [-1, 1]> ()\none = Reshape (s, shape)\nt = Concat <axis = 1> (p, one)\ny = Add (t, m)");
  const VerifyReport report = verify(a, a);
  ASSERT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_GE(report.cases.size(), 3u);
  for (const VerifyCase& c : report.cases) EXPECT_EQ(c.sizes.at("seq"), 1);
}

TEST(Verify, RandomOutputsAreNotCompared) {
  const Model a = graph("(float[8] x) => (float[8] noisy, float[8] y)", "r = RandomNormalLike (x)\nnoisy = Add (x, r)\ny = Relu (x)");
  const Model seeded =
      graph("(float[8] x) => (float[8] noisy, float[8] y)", "r = RandomNormalLike <seed = 1.0> (x)\nnoisy = Add (x, r)\ny = Relu (x)");
  EXPECT_EQ(random_outputs(a), std::vector<std::string>{"noisy"});
  EXPECT_TRUE(random_outputs(seeded).empty());
}

TEST(Verify, ChanceComesOutOfSubgraphs) {
  const Model a = graph("(float[8] x, bool c) => (float[8] y, float[8] z)",
                        "y = If (c) <then_branch = t () => (float[8] a) { a = RandomNormalLike (x) }, else_branch = e () => (float[8] b) { "
                        "b = Relu (x) }>\nz = Relu (x)");
  EXPECT_EQ(random_outputs(a), std::vector<std::string>{"y"});
}

TEST(Verify, TrainingDropoutIsRandomOnlyWhereItTrains) {
  const auto dropout = [](const std::string& flag) {
    return graph("(float[8] x) => (float[8] y)",
                 "r = Constant <value_float = 0.5> ()\nt = Constant <value = bool {" + flag + "}> ()\ny = Dropout (x, r, t)");
  };
  EXPECT_EQ(random_outputs(dropout("1")).size(), 1u);
  EXPECT_TRUE(random_outputs(dropout("0")).empty());
}

TEST(Verify, GivenInputsAreUsed) {
  const Model a = graph("(float[n] x) => (float[n] y)", "y = Relu (x)");
  const Model b =
      graph("(float[n] x) => (float[n] y)", "k = Constant <value_float = 1e4> ()\nc = Mul (k, k)\nr = Relu (x)\ny = Min (r, c)");
  EXPECT_EQ(verify(a, b).status, VerifyStatus::kEqual);
  VerifyOptions options;
  const float big[] = {2e8};
  options.inputs = {Inputs{{"x", Tensor::of<float>(DType::kFloat, {1}, big)}}};
  EXPECT_EQ(verify(a, b, options).status, VerifyStatus::kDifferent);
}

TEST(Verify, NothingThatTheOriginalAcceptsIsSaid) {
  const Model a = graph("(float[2] x, float[3] z) => (float[n] y)", "y = Add (x, z)");
  const VerifyReport report = verify(a, a);
  EXPECT_EQ(report.status, VerifyStatus::kNotRun);
  EXPECT_GT(report.refused, 0u);
  EXPECT_NE(report.message.find("no random inputs"), std::string::npos);
}

// Whatever the inputs, it fails at one node. No input would tell the two models apart, but none was compared either.
TEST(Verify, AModelThatCannotRunIsNotVerified) {
  const Model never = graph("(float[2,3] x) => (float[n,m] y)", "s = Constant <value_ints = [7, 11]> ()\ny = Reshape (x, s)");
  const VerifyReport report = verify(never, never);
  EXPECT_EQ(report.status, VerifyStatus::kNotRun);
  EXPECT_TRUE(report.cases.empty());
}

TEST(Verify, WhatNobodyComparesIsNotEqual) {
  const Model chance = graph("(float[8] x) => (float[8] y)", "y = RandomNormalLike (x)");
  EXPECT_EQ(verify(chance, chance).status, VerifyStatus::kNotRun);
  const Model other = graph("(float[8] x) => (float[4] y)", "y = RandomNormal <shape = [4]> ()");
  EXPECT_EQ(verify(chance, other).status, VerifyStatus::kDifferent);
  const Model nothing = graph("(float[n] x) => (float[m] y)", "a = Constant <value_ints = [0]> ()\ny = Slice (x, a, a)");
  EXPECT_EQ(verify(nothing, nothing).status, VerifyStatus::kNotRun);
}

TEST(Verify, CasesBeyondTheUsual) {
  const Model a = graph("(float[n, m] x, int64[n] i) => (float[n, m] y, int64[n] j)", "y = Neg (x)\nj = Neg (i)");
  const VerifyReport report = verify(a, a);
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_EQ(cases_of(report, CaseKind::kFar), 2u);
  EXPECT_EQ(cases_of(report, CaseKind::kSpecial), 1u);
  EXPECT_EQ(cases_of(report, CaseKind::kEmpty), 2u);
  EXPECT_EQ(cases_of(report, CaseKind::kLong), 3u);
  EXPECT_GE(cases_of(report, CaseKind::kQuiet), 1u);
  EXPECT_GE(cases_of(report, CaseKind::kEdges), 1u);
  VerifyOptions options;
  options.excluded = kNotFinite | kEmptySizes;
  const VerifyReport tame = verify(a, a, options);
  EXPECT_EQ(cases_of(tame, CaseKind::kSpecial) + cases_of(tame, CaseKind::kEmpty), 0u);
}

VerifyStatus status_of(const std::string& signature, const std::string& left, const std::string& right) {
  return verify(graph(signature, left), graph(signature, right)).status;
}

TEST(Verify, IntegersOfBothSignsAndFarFromZero) {
  EXPECT_EQ(status_of("(int32[n] x) => (int32[n] y)", "y = Abs (x)", "y = Identity (x)"), VerifyStatus::kDifferent);
  EXPECT_EQ(status_of("(int32[n] x) => (int32[n] y)", "y = Identity (x)", "f = Cast <to = 1> (x)\ny = Cast <to = 6> (f)"),
            VerifyStatus::kDifferent);
  EXPECT_EQ(status_of("(int64[n] x) => (int64[n] y)", "y = Identity (x)", "f = Cast <to = 6> (x)\ny = Cast <to = 7> (f)"),
            VerifyStatus::kDifferent);
  EXPECT_EQ(status_of("(uint8[n] x) => (uint8[n] y)", "y = Identity (x)", "f = Cast <to = 3> (x)\ng = Abs (f)\ny = Cast <to = 2> (g)"),
            VerifyStatus::kDifferent);
}

TEST(Verify, FloatsFarFromZeroAndNearIt) {
  EXPECT_EQ(status_of("(float[n, 4] x) => (float[n, 4] y)", "y = Identity (x)",
                      "h = Constant <value_float = 1000.0> ()\nl = Constant <value_float = -1000.0> ()\ny = Clip (x, l, h)"),
            VerifyStatus::kDifferent);
  EXPECT_EQ(status_of("(float[4, 4] x) => (float[4, 4] y)", "y = Identity (x)",
                      "e = Constant <value_float = 0.001> ()\na = Abs (x)\ns = Less (a, e)\nz = Constant <value_float = 0.0> ()\n"
                      "y = Where (s, z, x)"),
            VerifyStatus::kDifferent);
  EXPECT_EQ(status_of("(double[n] x, double[n] z) => (double[n] y)", "y = Sub (x, z)",
                      "a = Cast <to = 1> (x)\nb = Cast <to = 1> (z)\nd = Sub (a, b)\ny = Cast <to = 11> (d)"),
            VerifyStatus::kDifferent);
}

// What an equal formula makes of numbers that the original overflows with is not held against it.
TEST(Verify, OverflowOfTheOriginalIsNoDifference) {
  EXPECT_EQ(status_of("(float[n, 4] x) => (float[n, 4] y)",
                      "e = Exp (x)\no = Constant <value_float = 1.0> ()\nd = Add (e, o)\n"
                      "y = Div (e, d)",
                      "y = Sigmoid (x)"),
            VerifyStatus::kEqual);
}

TEST(Verify, WhatTheOriginalKeepsFiniteStaysFinite) {
  const std::string left = "i = IsInf (x)\nk = IsNaN (x)\no = Or (i, k)\nz = Constant <value_float = 0.0> ()\ny = Where (o, z, x)";
  EXPECT_EQ(status_of("(float[4, 4] x) => (float[4, 4] y)", left, "y = Identity (x)"), VerifyStatus::kDifferent);
}

TEST(Verify, SizesOfZero) {
  const std::string signature = "(float[n, 3] x) => (float[n, 3] y)";
  EXPECT_EQ(status_of(signature, "y = Neg (x)",
                      "s = Shape (x)\na = Constant <value_ints = [0, -1, 3]> ()\nr = Reshape (x, a)\nt = Reshape (r, s)\ny = Neg (t)"),
            VerifyStatus::kDifferent);
}

TEST(Verify, InputsWithoutARank) {
  const auto model = [](const std::string& last) {
    return graph("(float x) => (float y)",
                 "w = Constant <value = float[3, 2] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}> ()\n"
                 "m = MatMul (x, w)\n" +
                     last);
  };
  Model right = model("y = Relu (m)"), wrong = model("y = Neg (m)");
  for (Model* m : {&right, &wrong}) m->graph.inputs[0].type.shape.reset();
  const VerifyReport report = verify(right, right);
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_GE(report.cases.size(), 2u);
  EXPECT_EQ(verify(right, wrong).status, VerifyStatus::kDifferent);
  VerifyOptions options;
  options.input_shapes = {{"x", {5, 3}}};
  EXPECT_EQ(verify(right, right, options).status, VerifyStatus::kEqual);
}

// Two indices of one value: which is first is a matter of rounding. Of the largest it is not.
TEST(Verify, TiesOfArgMax) {
  const std::string signature = "(float[n, 2] x) => (int64[n] y)";
  const std::string sums = "s = Constant <value = float[2, 3] {0.1, 0.3, 0.1, 0.7, 0.2, 0.7}> ()\n";
  const std::string left = sums + "m = MatMul (x, s)\ny = ArgMax <axis = 1, keepdims = 0> (m)";
  const std::string nudged = "c = Constant <value = float[3] {0.0, 0.0, 0.0000001}> ()\n" + sums +
                             "m = MatMul (x, s)\n"
                             "k = Add (m, c)\ny = ArgMax <axis = 1, keepdims = 0> (k)";
  EXPECT_EQ(status_of(signature, left, nudged), VerifyStatus::kEqual);
  EXPECT_EQ(status_of(signature, left, sums + "m = MatMul (x, s)\ny = ArgMin <axis = 1, keepdims = 0> (m)"), VerifyStatus::kDifferent);
}

TEST(Verify, MemoryAndTimeEndACase) {
  const Model a = graph("(float[1] x) => (float[1000, 1000] y)",
                        "s = Constant <value_ints = [1000, 1000]> ()\ne = Expand (x, s)\n"
                        "c = Exp (e)\nd = Sin (e)\ny = Add (c, d)");
  VerifyOptions options;
  options.memory = 10'000'000;
  EXPECT_EQ(verify(a, a, options).status, VerifyStatus::kNotRun);
  options.memory = 20'000'000;
  EXPECT_EQ(verify(a, a, options).status, VerifyStatus::kEqual);
  const Model endless = graph("(float x) => (float y)",
                              "n = Constant <value_int = 4000000> ()\n"
                              "y = Loop (n, , x) <body = b (int64 i, bool c, float v) => (bool d, float w) { d = "
                              "Identity (c)\nw = Cos (v) }>");
  options.seconds = 0.1;
  const VerifyReport report = verify(endless, endless, options);
  EXPECT_EQ(report.status, VerifyStatus::kNotRun);
  EXPECT_LT(report.seconds, 3);
  EXPECT_NE(report.message.find("within 0.5 s"), std::string::npos) << report.message;
}

// A row without an entry to see is NaN in the one and zeros in the other.
// What tracing at batch 2 and length 11 with 4 heads leaves behind: 8 = 2 * 4 and 11 stand in a Reshape.
TEST(Verify, SizesThatStandInTheModelAreTried) {
  const Model a = graph("(float[b, s, 12] x) => (float[b, s, 12] y)",
                        "t = Transpose <perm = [1, 0, 2]> (x)\nh = Constant <value_ints = [11, 8, 3]> ()\nr = Reshape (t, h)\n"
                        "e = Exp (r)\nn = Shape (t)\nu = Reshape (e, n)\ny = Transpose <perm = [1, 0, 2]> (u)");
  const Model b = graph("(float[b, s, 12] x) => (float[b, s, 12] y)", "y = Exp (x)");
  const VerifyReport report = verify(a, b);
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  ASSERT_EQ(cases_of(report, CaseKind::kUsual), 2u);
  EXPECT_EQ(report.cases[0].sizes, (Sizes{{"b", 2}, {"s", 11}}));
  const Model wrong = graph("(float[b, s, 12] x) => (float[b, s, 12] y)", "y = Sinh (x)");
  EXPECT_EQ(verify(a, wrong).status, VerifyStatus::kDifferent);
}

// A loop over positions that was unrolled: the last index says how many there were.
TEST(Verify, TheLastIndexSaysHowManyThereAre) {
  const Model a =
      graph("(float[b, s] x) => (float[b] y)",
            "i = Constant <value_int = 12> ()\ng = Gather <axis = 1> (x, i)\nn = Constant <value_floats = [1.0, 2.0, 3.0, 4.0, 5.0, "
            "6.0, 7.0, 8.0, 9.0, 1.0, 2.0, 3.0, 4.0]> ()\nm = MatMul (x, n)\ny = Add (g, m)");
  EXPECT_EQ(verify(a, a).status, VerifyStatus::kEqual);
}

// Of 20 seeds, how many show that the models differ; none may where rows that are masked as a whole are avoided, at `cases` or more.
std::size_t seeds_that_differ(const Model& a, const Model& b, Excluded rows, std::size_t cases) {
  VerifyOptions options;
  std::size_t different = 0;
  for (options.seed = 0; options.seed < 20; ++options.seed) {
    options.excluded = kNotFinite;
    different += verify(a, b, options).status == VerifyStatus::kDifferent;
    options.excluded = kNotFinite | rows;
    const VerifyReport report = verify(a, b, options);
    EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
    EXPECT_GE(report.cases.size(), cases);
  }
  return different;
}

TEST(Verify, InputsThatGiveNanAreAvoidedWhereAssumed) {
  const std::string signature = "(float[n] x, int64[n] m) => (float[n] y)", quotient = "f = Cast <to = 1> (m)\np = Mul (x, f)\n";
  const Model a = graph(signature, quotient + "y = Div (p, f)");
  const Model b = graph(signature, quotient + "d = Div (p, f)\ni = IsNaN (d)\nz = Constant <value_float = 0.0> ()\ny = Where (i, z, d)");
  EXPECT_GT(seeds_that_differ(a, b, kInfiniteRows, 1), 0u);
}

// Masks of either polarity; where every score of a row is hidden, a mask that fills and one that is added differ.
TEST(Verify, RowsThatAreMaskedAsAWholeAreAvoidedWhereAssumed) {
  const std::string signature = "(float[n, 7] x, bool[n, 7] m) => (float[n, 7] y)", fill = "f = Constant <value_float = -10000.0> ()\n",
                    added = "z = Constant <value_float = 0.0> ()\na = Add (x, b)\ny = Softmax (a)";
  for (const bool hides : {false, true}) {
    const Model a = graph(signature, fill + (hides ? "w = Where (m, f, x)" : "w = Where (m, x, f)") + "\ny = Softmax (w)");
    const Model b = graph(signature, fill + added.substr(0, added.find("a = ")) +
                                         (hides ? "b = Where (m, f, z)\n" : "b = Where (m, z, f)\n") + added.substr(added.find("a = ")));
    EXPECT_EQ(seeds_that_differ(a, b, kHiddenRows, 3) > 0, hides);
  }
  const Model wrong = graph(signature, fill + "w = Where (m, f, x)\ny = Softmax (w)");
  VerifyOptions options;
  options.excluded = kHiddenRows;
  EXPECT_EQ(verify(graph(signature, fill + "w = Where (m, x, f)\ny = Softmax (w)"), wrong, options).status, VerifyStatus::kDifferent);
}

// Scores of halves far from 0 overflow where an operator is spelled out, which is an infinity beside those of a mask.
TEST(Verify, ScoresThatAreTakenToBeFiniteMayOverflowInTheResultAlone) {
  const std::string head =
      "<ir_version: 8, opset_import: [\"\" : 18, \"com.microsoft\" : 1]>\n"
      "g (float16[1,3,8] q, float16[1,3,8] k, float16[1,3,8] v) => (float16[1,3,8] y) "
      "<float16[1,1,3,3] m = {0, -inf, -inf, 0, 0, -inf, 0, 0, 0}, float16[3,3] n = {0, -inf, -inf, 0, 0, -inf, 0, 0, 0}> {\n";
  const Model whole = parse(head + "y = com.microsoft.MultiHeadAttention <num_heads = 1, scale = 0.5> (q, k, v, , , m)\n}");
  const Model apart = parse(head +
                            "t = Transpose <perm = [0, 2, 1]> (k)\ns = MatMul (q, t)\nh = Constant <value = float16 {0.5}> ()\n"
                            "u = Mul (s, h)\nw = Add (u, n)\np = Softmax (w)\ny = MatMul (p, v)\n}");
  VerifyOptions options;
  EXPECT_EQ(verify(whole, apart, options).status, VerifyStatus::kDifferent);
  options.excluded = kNotFinite | kLowScores;
  const VerifyReport report = verify(whole, apart, options);
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
}

TEST(Verify, SmallOutputsAreCompared) {
  const std::string scale = "c = Constant <value_float = 0.000001> ()\ny = Mul (s, c)";
  EXPECT_EQ(status_of("(float[n] x) => (float[n] y)", "s = Sigmoid (x)\n" + scale,
                      "s = HardSigmoid (x)\n"
                      "" + scale),
            VerifyStatus::kDifferent);
}

TEST(Verify, ImagesAreLargeOnce) {
  const auto model = [](const std::string& last) {
    return graph("(float[n, 1, h, w] x) => (float[n, 1, h, w] y)",
                 "k = Constant <value = float[1, 1, 1, 1] {2.0}> ()\nc = Conv (x, k)\ns = Shape <start = 3> (x)\n"
                 "f = Cast <to = 1> (s)\nb = Constant <value_float = 40.0> ()\nd = Sub (f, b)\nr = Relu (d)\n" +
                     last);
  };
  const Model right = model("y = Add (c, r)"), wrong = model("z = Sub (r, r)\ny = Add (c, z)");
  EXPECT_EQ(verify(right, right).status, VerifyStatus::kEqual);
  EXPECT_EQ(verify(right, wrong).status, VerifyStatus::kDifferent);
}

// One pixel is refused here, so that a relation of sizes is tried, too: the large image is not one in a batch of 128 for it.
TEST(Verify, TheLargeImageIsAlone) {
  const Model model = graph("(float[n, 1, h, w] x) => (float[n, 1, u, v] y)",
                            "k = Constant <value = float[1, 1, 2, 2] {1.0, 2.0, 3.0, 4.0}> ()\ny = Conv (x, k)");
  const VerifyReport report = verify(model, model);
  ASSERT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  const auto usual = [](const VerifyCase& c) { return c.kind == CaseKind::kUsual; };
  const Sizes& last = std::find_if(report.cases.rbegin(), report.cases.rend(), usual)->sizes;
  EXPECT_EQ(last.at("h"), 64);
  EXPECT_EQ(last.at("n"), 1);
}

// Sums in another order: equal but for rounding, of which the exponentials make much.
TEST(Verify, RoundingThatTheOriginalMagnifiesIsNoDifference) {
  const auto model = [](const std::string& sum) {
    return graph("(float[n, m] a, float[n, m] b, float[n, m] c) => (float[n, m] y)",
                 "k = Constant <value_float = 300000.0> ()\n" + sum + "t = Mul (s, k)\ny = Sin (t)");
  };
  const Model left = model("p = Add (a, b)\ns = Add (p, c)\n"), right = model("p = Add (b, c)\ns = Add (a, p)\n");
  const VerifyReport report = verify(left, right);
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_FALSE(report.notes.empty());
  EXPECT_GT(report.max_abs(), 1e-3);
  EXPECT_EQ(verify(left, model("p = Add (b, c)\ns = Sub (a, p)\n")).status, VerifyStatus::kDifferent);
  VerifyOptions strict;
  strict.tolerances.rtol = 1e-4;
  EXPECT_EQ(verify(left, right, strict).status, VerifyStatus::kDifferent);
}

// Products that lie in the middle between two steps but for their rounding; that the inputs are integers leaves only the weights to be
// moved.
TEST(Verify, RoundingThatQuantizationMagnifiesIsNoDifference) {
  std::string odd, b, c;
  for (int i = 0; i < 64; ++i) {
    odd += fmt::format("{}{:.9g}", i ? ", " : "", 0.3f * static_cast<float>(2 * i + 1));
    b += i ? ", 0.7" : "0.7";
    c += i ? ", 0.238095239" : "0.238095239";
  }
  const auto model = [&](const std::string& product) {
    return graph("(int32[n, 64] x) => (float[n, 64] y) <float[64] a = {" + odd + "}, float[64] b = {" + b + "}, float[64] c = {" + c + "}>",
                 "f = Cast <to = 1> (x)\nt = Mul (f, a)\n" + product +
                     "s = Constant <value = float {0.1}> ()\nz = Constant <value = int8 {0}> ()\n"
                     "q = QuantizeLinear (p, s, z)\ny = DequantizeLinear (q, s, z)");
  };
  const Model left = model("u = Mul (t, b)\np = Mul (u, c)\n");
  const VerifyReport report = verify(left, model("u = Mul (b, c)\np = Mul (t, u)\n"));
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_GT(report.max_abs(), 0.05);
  EXPECT_EQ(verify(left, model("u = Add (b, c)\np = Mul (t, u)\n")).status, VerifyStatus::kDifferent);
}

// A quantizer that rounds what lies in the middle upwards differs from one that rounds it to even there alone, and one that does not cut
// off differs only beyond its range.
TEST(Verify, QuantizersAreAskedAtTheirEdges) {
  const auto model = [](const std::string& body) {
    return graph("(float[n, 7] x) => (int32[n, 7] y)",
                 "s = Constant <value = float {0.25}> ()\nz = Constant <value = int8 {3}> ()\nt = Identity (x)\n" + body);
  };
  const std::string counted = "d = Div (t, s)\n", whole = "h = Constant <value_float = 0.5> ()\ne = Add (d, h)\nr = Floor (e)\n";
  const std::string cut =
      "o = Constant <value_float = 3.0> ()\na = Add (r, o)\nl = Constant <value_float = -128.0> ()\n"
      "g = Constant <value_float = 127.0> ()\nc = Clip (a, l, g)\ny = Cast <to = 6> (c)";
  const Model right = model("q = QuantizeLinear (t, s, z)\ny = Cast <to = 6> (q)");
  const VerifyReport report = verify(right, model(counted + "r = Round (d)\n" + cut));
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_EQ(cases_of(report, CaseKind::kQuantized), 1u);
  const VerifyReport upwards = verify(right, model(counted + whole + cut));
  EXPECT_EQ(upwards.status, VerifyStatus::kDifferent);
  EXPECT_NE(upwards.message.find("at the edges of quantizers"), std::string::npos) << upwards.message;
}

Model quantized_product(double scale, int zero, const std::string& last) {
  std::string weights;
  for (int i = 0; i < 16 * 32; ++i) weights += fmt::format("{}{}", i ? ", " : "", i * 37 % 101 - 50);
  return graph("(float[n, 16] x) => (" + std::string(last.empty() ? "uint8" : "float") + "[n, 32] y) <int8[16, 32] w = {" + weights + "}>",
               fmt::format("s = Constant <value = float {{0.03}}> ()\nz = Constant <value = uint8 {{120}}> ()\n"
                           "v = Constant <value = float {{0.02}}> ()\nt = Constant <value = float {{{:.9g}}}> ()\n"
                           "u = Constant <value = uint8 {{{}}}> ()\nb = Constant <value = int8 {{0}}> ()\n"
                           "a = QuantizeLinear (x, s, z)\nd = DequantizeLinear (a, s, z)\ne = DequantizeLinear (w, v, b)\n"
                           "m = MatMul (d, e)\n{} = QuantizeLinear (m, t, u)\n",
                           scale, zero, last.empty() ? "y" : "q") +
                   last);
}

// A scale that is a little off moves one value of a hundred by a step.
TEST(Verify, QuantizedValuesMayMoveByAStepWhereRulesSaySo) {
  VerifyOptions moves, steps;
  moves.moves = StepMoves::kSome;
  steps.steps = 1;
  for (const char* last :
       {"",
        "c = Constant <value = float {0.1}> ()\nk = Constant <value = uint8 {128}> ()\nf = DequantizeLinear (q, c, k)\ny = Sigmoid (f)"}) {
    const Model a = quantized_product(0.1, 128, last), near = quantized_product(0.10005, 128, last);
    EXPECT_EQ(verify(a, near).status, VerifyStatus::kDifferent);
    for (const VerifyOptions& options : {moves, steps}) {
      const VerifyReport report = verify(a, near, options);
      EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
      EXPECT_EQ(verify(a, quantized_product(0.1, 130, last), options).status, VerifyStatus::kDifferent);
      EXPECT_EQ(verify(a, quantized_product(0.11, 128, last), options).status, VerifyStatus::kDifferent);
    }
  }
  // All of them by a step: more than rules may, and what a user may allow.
  const Model a = quantized_product(0.1, 128, ""), moved = quantized_product(0.1, 129, "");
  EXPECT_EQ(verify(a, moved, moves).status, VerifyStatus::kDifferent);
  const VerifyReport report = verify(a, moved, steps);
  ASSERT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_EQ(report.cases[0].outputs[0].step, 1);
  EXPECT_EQ(report.cases[0].outputs[0].steps, 1);
  EXPECT_EQ(report.cases[0].outputs[0].moved, report.cases[0].outputs[0].elements);
}

// What is quantized is dequantized at once, in the place of its element or in another one.
TEST(Verify, QuantizersMayGoWhereRulesSaySo) {
  const auto model = [](const std::string& body) {
    return graph("(float[n, 8] x, float[8, 8] w) => (float[n, 8] y)",
                 "s = Constant <value = float {0.05}> ()\nz = Constant <value = int8 {3}> ()\n" + body);
  };
  const Model a = model(
      "m = MatMul (x, w)\nq = QuantizeLinear (m, s, z)\nt = Transpose (q)\nd = DequantizeLinear (t, s, z)\n"
      "p = MatMul (w, d)\ny = Transpose (p)");
  const std::string before = "m = MatMul (x, w)\n", after = "t = Transpose (r)\np = MatMul (w, t)\ny = Transpose (p)";
  const Model without = model(before + "r = Identity (m)\n" + after);
  const Model wrong = model(before + "k = Constant <value_float = 0.2> ()\nr = Add (m, k)\n" + after);
  VerifyOptions options;
  options.excluded = kNotFinite | kBeyondQuantizers;
  EXPECT_EQ(verify(a, without, options).status, VerifyStatus::kDifferent);
  options.moves = StepMoves::kLeftOut;
  const VerifyReport report = verify(a, without, options);
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_EQ(verify(a, wrong, options).status, VerifyStatus::kDifferent);
}

// Too small an image leaves nothing, and a Reshape that copies a size by 0 may then fail: noted, and other sizes decide.
TEST(Verify, SizesThatLeaveNothingAreNoted) {
  const std::string signature = "(float[n, 4, w] x) => (float[n, k, l] y)", pool = "p = MaxPool <kernel_shape = [2], strides = [2]> (x)\n";
  const Model a = graph(signature, pool + "y = Relu (p)");
  const Model b = graph(
      signature, pool +
                     "s = Shape (p)\nf = Constant <value_ints = [-1]> ()\nt = Shape <start = 2> (p)\nm = Constant <value_ints = [4]> ()\n"
                     "c = Concat <axis = 0> (f, m, t)\nr = Reshape <allowzero = 1> (p, c)\ny = Relu (r)");
  VerifyOptions options;
  options.excluded = kEmptySizes;
  const VerifyReport report = verify(a, b, options);
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_FALSE(report.notes.empty());
  EXPECT_FALSE(report.cases.empty());
}

TEST(Verify, NanThroughoutIsNoted) {
  const Model a = graph("(float[n] x) => (float[n] y)", "z = Sub (x, x)\ny = Div (z, z)");
  const VerifyReport report = verify(a, a);
  EXPECT_EQ(report.status, VerifyStatus::kEqual);
  ASSERT_FALSE(report.notes.empty());
  EXPECT_NE(report.notes[0].find("NaN"), std::string::npos);
}

TEST(Verify, InputsAreKeptWhereAsked) {
  const Model a = graph("(float[n, 3] x) => (float[n, 3] y)", "y = Relu (x)");
  VerifyOptions options;
  options.keep_inputs = true;
  const VerifyReport report = verify(a, a, options);
  ASSERT_EQ(report.inputs.size(), report.cases.size());
  for (std::size_t i = 0; i < report.cases.size(); ++i)
    EXPECT_EQ(report.inputs[i].at("x").tensor().dims()[0], report.cases[i].sizes.at("n"));
  EXPECT_TRUE(verify(a, a).inputs.empty());
}

TEST(Verify, CancelStops) {
  const Model a = graph("(float[n] x) => (float[n] y)", "y = Relu (x)");
  const std::atomic<bool> cancel{true};
  VerifyOptions options;
  options.cancel = &cancel;
  EXPECT_EQ(verify(a, a, options).status, VerifyStatus::kCancelled);
}

}  // namespace
}  // namespace saturate
