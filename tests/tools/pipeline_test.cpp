#include "tools/pipeline/pipeline.h"

#include <gtest/gtest.h>

#include <functional>

#include "egraph/stop.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/file/io.h"
#include "rules/native/kit.h"

namespace saturate {
namespace {

NativeRule native_rule(std::string name, std::vector<std::string> assumes, const std::function<Pattern(OnnxEGraph&)>& pattern) {
  NativeRule rule = native::to_native(
      {{std::move(name), "drops what it should not", Effect::kExact, pattern,
        [](const native::Views&, const Match& m, native::Unions& unions) { unions.emplace_back(m.root(), m.classes[0]); }}})[0];
  rule.assumes = std::move(assumes);
  return rule;
}

// The model through its one rule.
PipelineResult result_of(const std::string& body, NativeRule rule, std::vector<Inputs> inputs) {
  const auto model =
      parse_model_text("<ir_version: 8, opset_import: [\"\" : 18]>\ng (float[n] x) => (float[n] y) {\n" + body + "\n}\n", "test");
  EXPECT_TRUE(model.ok()) << model.status();
  SetupOptions given;
  given.rule_files = {"none"};
  given.cost = "nodes";
  auto setup = set_up(given);
  EXPECT_TRUE(setup.ok()) << setup.status();
  EXPECT_TRUE(setup->rules.add(std::move(rule)).ok());
  PipelineOptions options;
  options.check.inputs = std::move(inputs);
  return run_pipeline(*model, *setup, options);
}

TEST(Pipeline, BlamesANativeRule) {
  const auto relu = [](OnnxEGraph& g) { return Pattern{{native::variable(), native::node(g, "Relu", {0})}}; };
  const PipelineResult result = result_of("y = Relu (x)", native_rule("relu_is_nothing", {}, relu), {});
  EXPECT_FALSE(result.failure.has_value());
  ASSERT_EQ(result.report.optimize.left_out.size(), 1u);
  EXPECT_EQ(result.report.optimize.left_out[0].rule, "relu_is_nothing");
  EXPECT_EQ(result.report.verify->status, VerifyStatus::kEqual);
  EXPECT_EQ(result.model.graph.nodes[0].op_type, "Relu");
}

// x + (log x - log x): NaN below 0.
TEST(Pipeline, BlamesAnAssumptionOfANativeRule) {
  const auto sum = [](OnnxEGraph& g) {
    return Pattern{{native::variable(), native::variable(), native::node(g, "Sub", {1, 1}), native::node(g, "Add", {0, 2})}};
  };
  const std::string body = "a = Log (x)\nb = Sub (a, a)\ny = Add (x, b)";
  const auto rule = [&] { return native_rule("nothing_is_left", {"no_empty_row"}, sum); };
  const PipelineResult drawn = result_of(body, rule(), {});
  EXPECT_TRUE(drawn.report.optimize.left_out.empty());
  EXPECT_EQ(drawn.report.optimize.assumed.size(), 1u);
  const Inputs below{{"x", Value(Tensor::of<float>(DType::kFloat, {2}, std::vector<float>{-1, 1}))}};
  const PipelineResult given = result_of(body, rule(), {below});
  EXPECT_FALSE(given.failure.has_value());
  ASSERT_EQ(given.report.optimize.left_out.size(), 1u);
  EXPECT_EQ(given.report.optimize.left_out[0].assumption, "no_empty_row");
  EXPECT_EQ(given.model.graph.nodes.size(), 3u);
}

// The names under which rules run are theirs: what is blamed can be left out.
TEST(Pipeline, NativeRulesRunUnderTheirNames) {
  const auto rules = RuleSet::builtin(false);
  ASSERT_TRUE(rules.ok());
  const auto evaluator = make_evaluator({});
  for (const NativeRule& rule : rules->native_rules()) {
    OnnxEGraph g(*evaluator);
    for (const Rewrite& r : rule.make(g, nullptr)) {
      EXPECT_EQ(r.name.substr(0, r.name.find('.')), rule.name);
      EXPECT_TRUE(r.applier != nullptr) << rule.name;
    }
  }
}

// Counts, and tells whether a deadline bounds the stage that asks.
struct WatchingCost : CostModel {
  explicit WatchingCost(bool& bounded) : bounded(bounded) {}
  std::string name() const override { return "watching"; }
  double cost(const OnnxEGraph&, const ENode&, Id) const override {
    bounded = bounded || (StopScope::current() && StopScope::current()->deadline != kNoDeadline);
    return 1;
  }
  double constant_cost(std::size_t) const override { return 0; }
  bool& bounded;
};

// A time that equals the default was given all the same.
TEST(Pipeline, OnlyATimeThatWasGivenBoundsExtraction) {
  const auto model =
      parse_model_text("<ir_version: 8, opset_import: [\"\" : 18]>\ng (float[n] x) => (float[n] y) { y = Relu (x) }", "test");
  ASSERT_TRUE(model.ok()) << model.status();
  for (const std::optional<double> seconds : {std::optional<double>(), std::optional<double>(kSecondsOfRewriting)}) {
    bool bounded = false;
    auto setup = set_up({});
    ASSERT_TRUE(setup.ok()) << setup.status();
    setup->cost = std::make_unique<WatchingCost>(bounded);
    PipelineOptions options;
    options.optimize.limits.seconds = seconds;
    EXPECT_FALSE(run_pipeline(*model, *setup, options).failure.has_value());
    EXPECT_EQ(bounded, seconds.has_value());
  }
}

}  // namespace
}  // namespace saturate
