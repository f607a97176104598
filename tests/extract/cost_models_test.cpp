// Cost models that know sizes: flops, bytes, roofline, fitted, a shared library; and how their quality is told.
#include <gtest/gtest.h>

#include <cmath>

#include "extract/extract.h"
#include "extract/fit/cost_quality.h"
#include "extract/fit/fitted.h"
#include "extract/price/op_times.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/file/io.h"
#include "tests/extract/temporary_file.h"

namespace saturate {
namespace {

// What a model's own graph costs.
double cost_of(const std::string& text, const std::string& name, const CostOptions& options = {}) {
  const auto evaluator = make_evaluator();
  OnnxEGraph g(*evaluator);
  const Model model = parse_model_text(text, "test").value();
  const Lowered lowered = lower(model, g).value();
  const auto cost = load_cost_model(name, options);
  EXPECT_TRUE(cost.ok()) << cost.status();
  return cost.ok() ? original_selection(g, lowered, nullptr, **cost).value().cost : -1;
}

CostOptions at(std::int64_t n) {
  CostOptions options;
  options.symbols["N"] = n;
  return options;
}

constexpr const char* kProduct =
    R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N, 64] x, float[64, 32] w) => (float[N, 32] y) { y = MatMul (x, w) })";

// Dims of one name at several inputs are dims of their own until something proves them equal; their size is the name's all the same.
TEST(CostModels, ANameAtSeveralInputsHasOneSize) {
  const std::string head = R"(<ir_version: 8, opset_import: ["" : 17]> g )";
  const double one = cost_of(head + "(float[N,8] x) => (float[N,8] a) { a = Neg (x) }", "bytes", at(1000));
  const double two =
      cost_of(head + "(float[N,8] x, float[N,8] y) => (float[N,8] a, float[N,8] b) { a = Neg (x) b = Neg (y) }", "bytes", at(1000));
  EXPECT_NEAR(two, 2 * one, 1e-6 * one);
}

// The product proves that K is 28 after the shape of x was read: what was computed of it is a number then, through a matrix of integers,
// too.
TEST(CostModels, SizesProvedLaterAreKnownWhereverTheyStand) {
  const auto evaluator = make_evaluator();
  OnnxEGraph g(*evaluator);
  const Model model = parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, K] x, float[28, 4] w, float[1] one) => (float[N, 4] m, float[M] y) <int64[2] square = {1, 1}, int64[1] flat = {-1}> {
      size = Shape <start: int = 1, end: int = 2> (x)
      matrix = Reshape (size, square)
      back = Reshape (matrix, flat)
      y = Expand (one, back)
      m = MatMul (x, w)
    })",
                                       "test")
                          .value();
  const Lowered lowered = lower(model, g).value();
  g.egraph().rebuild();
  const Facts& y = g.facts(lowered.values.at("y"));
  ASSERT_TRUE(y.shape && y.shape->size() == 1);
  EXPECT_EQ(g.dims().value(y.shape->front()), 28) << to_string(y, g.dims());
}

TEST(SizeCosts, CountWhatTheOperatorDoes) {
  EXPECT_NEAR(cost_of(kProduct, "flops", at(10)), 2 * 10 * 64 * 32, 2);
  EXPECT_NEAR(cost_of(kProduct, "bytes", at(10)), 4 * (10 * 64 + 64 * 32 + 10 * 32), 2);
}

TEST(SizeCosts, ViewsCostAnOperatorOnly) {
  const char* text =
      R"(<ir_version: 8, opset_import: ["" : 17]> g (float[100, 100] x) => (float[10000] y) <int64[1] s = {-1}> { y = Reshape (x, s) })";
  EXPECT_LT(cost_of(text, "flops"), 3);
  EXPECT_LT(cost_of(text, "bytes"), 3);
}

TEST(CostPoints, AreAWeightedMean) {
  CostOptions both;
  both.points = {{{{"N", 10}}, 3}, {{{"N", 1000}}, 1}};
  EXPECT_NEAR(cost_of(kProduct, "flops", both), (3 * cost_of(kProduct, "flops", at(10)) + cost_of(kProduct, "flops", at(1000))) / 4, 1e-3);
  EXPECT_NEAR(cost_of(kProduct, "nodes", both), cost_of(kProduct, "nodes"), 1e-9);
}

OpUse add(double elements, const std::string& dtype = "float") {
  OpUse use;
  use.op = "Add";
  use.inputs = {{elements}, {elements}};
  use.outputs = {{elements}};
  use.constant = {0, 0};
  use.dtype = dtype;
  return use;
}

TEST(RooflineCost, KnowsDtypesAndTheCache) {
  Roofline r{
      .launch = 1e-6, .flops = 1e9, .bandwidth = 1e10, .flops_of = {{"float16", 4e9}}, .cache_bytes = 12000, .cache_bandwidth = 1e11};
  EXPECT_NEAR(r.seconds(sizes_of(add(1e6))), 1e-6 + 1e6 / 1e9 * 1.2, 1e-9);  // 12 MB at 10 GB/s
  EXPECT_NEAR(r.seconds(sizes_of(add(1000))), 1e-6 + 1000 / 1e9, 1e-12);     // in the cache: the sums are slower
  EXPECT_NEAR(r.seconds(sizes_of(add(1000, "float16"))), 1e-6 + 1000 / 4e9, 1e-12);
  const auto again = Roofline::parse(r.to_json());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->to_json(), r.to_json());
  EXPECT_FALSE(Roofline::parse(R"({"flops": 0})").ok());
  EXPECT_FALSE(Roofline::parse(R"({"flop": 1})").ok());
}

TEST(RooflineCost, IsFittedToBestRates) {
  const Roofline r = fit_roofline({{add(1), 1e-6}, {add(1e6), 2e-3}, {add(2e6), 3e-3}, {add(1000), 1e-5}}, 20000);
  EXPECT_DOUBLE_EQ(r.launch, 1e-6);
  EXPECT_DOUBLE_EQ(r.bandwidth, 2e6 * 12 / 3e-3);
  EXPECT_DOUBLE_EQ(r.cache_bandwidth, 1000 * 12 / 1e-5);
  EXPECT_DOUBLE_EQ(r.flops_of.at("float"), 2e6 / 3e-3);
}

std::vector<TimedUse> line(double launch, double per_element) {
  std::vector<TimedUse> rows;
  for (double n = 64; n < 1e6; n *= 3) rows.push_back({add(n), launch + per_element * n});
  return rows;
}

TEST(FittedTimes, FindTheLineThroughTheRowsAndReadItBack) {
  const FittedTimes fitted = FittedTimes::fit(line(2e-6, 3e-9), R"({"machine": {"processor": "x"}})");
  for (const double n : {100.0, 5000.0, 300000.0}) EXPECT_NEAR(fitted.seconds(add(n)) / (2e-6 + 3e-9 * n), 1, 0.05) << n;
  const auto again = FittedTimes::parse(fitted.to_json(), "mine.json");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_DOUBLE_EQ(again->seconds(add(777)), fitted.seconds(add(777)));
  EXPECT_NE(fitted.to_json().find("processor"), std::string::npos);
  OpUse erf = add(1000);
  erf.op = "Erf";
  EXPECT_GT(fitted.seconds(erf), 0);  // never measured: by the roofline
  const test::TemporaryFile file(fitted.to_json(), ".json");
  EXPECT_GT(cost_of(kProduct, file.path()), 0);
}

TEST(FittedTimes, RefuseWhatIsNoFit) {
  for (const char* text : {"{", R"({"roofline": {}})", R"({"roofline": {}, "fitted": {"operators": {"Add": [1, 2]}}})",
                           R"({"roofline": {}, "fitted": {"operators": {"Add": [1, 2, 3, 4, -5]}}})"}) {
    const auto fitted = FittedTimes::parse(text, "mine.json");
    ASSERT_FALSE(fitted.ok()) << text;
    EXPECT_EQ(std::string(fitted.status().message()).rfind("mine.json: ", 0), 0u);
  }
}

TEST(SharedLibraryCost, IsAskedWithSizes) {
  EXPECT_DOUBLE_EQ(cost_of(kProduct, SATURATE_EXAMPLE_COST, at(5)), 5 * 32);
  EXPECT_DOUBLE_EQ(cost_of(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] y) { a = Tanh (x)  y = Neg (a) })",
                           SATURATE_EXAMPLE_COST, at(5)),
                   220);
}

TEST(SharedLibraryCost, ErrorsAreOneLine) {
  EXPECT_NE(std::string(load_cost_model("no/such/lib.so").status().message()).find("no/such/lib.so"), std::string::npos);
  const test::TemporaryFile text("not a library", ".so");
  EXPECT_NE(std::string(load_cost_model(text.path()).status().message()).find("can't be loaded"), std::string::npos);
}

TEST(CostQuality, ErrorsByOperator) {
  const std::vector<Compared> rows{{"Add", 1.05, 1}, {"Add", 1.5, 1}, {"Mul", 2, 4}};
  const auto errors = errors_by_key(rows);
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_NEAR(errors[0].mape, 0.275, 1e-9);
  EXPECT_NEAR(errors[0].within_tenth, 0.5, 1e-9);
  EXPECT_NEAR(errors[1].mape, 0.5, 1e-9);
  EXPECT_EQ(errors[2].key, "");
  EXPECT_NEAR(errors[2].mape, (0.05 + 0.5 + 0.5) / 3, 1e-9);
}

TEST(CostQuality, TauAndRegret) {
  const std::vector<Compared> same{{"", 1, 10}, {"", 2, 20}, {"", 3, 30}}, opposite{{"", 3, 10}, {"", 2, 20}, {"", 1, 30}};
  EXPECT_DOUBLE_EQ(kendall_tau(same), 1);
  EXPECT_DOUBLE_EQ(kendall_tau(opposite), -1);
  EXPECT_DOUBLE_EQ(kendall_tau(std::vector<Compared>{{"", 1, 10}, {"", 1, 20}}), 0);
  EXPECT_NEAR(kendall_tau(std::vector<Compared>{{"", 1, 10}, {"", 2, 20}, {"", 2, 30}}), 2 / std::sqrt(6.0), 1e-9);
  // What a measurement can't tell apart is not held against the model.
  EXPECT_DOUBLE_EQ(kendall_tau(std::vector<Compared>{{"", 1, 10, 0}, {"", 2, 20, 0.01}, {"", 3, 19.9, 0}}), 1);
  EXPECT_EQ(pairs_told_apart(std::vector<Compared>{{"", 1, 10, 0}, {"", 2, 20, 0.01}, {"", 3, 19.9, 0}}), 2u);
  // 0.4 apart, noise of 0.3 and 0.3: 0.42 of the difference.
  EXPECT_EQ(pairs_told_apart(std::vector<Compared>{{"", 1, 10, 0.03}, {"", 2, 10.4, 0.03 / 1.04}}), 0u);
  EXPECT_DOUBLE_EQ(top1_regret(same), 0);
  EXPECT_DOUBLE_EQ(top1_regret(opposite), 2);
}

}  // namespace
}  // namespace saturate
