#include "onnx_bridge/operators/random_nodes.h"

#include "gtest/gtest.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/file/io.h"

namespace saturate {
namespace {

Node drawing(const std::string& op, std::vector<std::string> inputs, const std::string& domain = "") {
  Node node;
  node.op_type = op;
  node.domain = domain;
  node.inputs = std::move(inputs);
  return node;
}

TEST(Chance, OperatorsThatDrawInTrainingDrawWhereTheyAreTold) {
  EXPECT_TRUE(may_draw(drawing("RandomUniform", {})));
  EXPECT_TRUE(may_draw(drawing("Dropout", {"x", "r", "t"})));
  EXPECT_FALSE(may_draw(drawing("Dropout", {"x", "r"})));
  EXPECT_FALSE(may_draw(drawing("Dropout", {"x", "r", ""})));
  EXPECT_FALSE(may_draw(drawing("Dropout", {"x", "r", "t"}, "my.domain")));
  EXPECT_EQ(training_input(drawing("BitmaskBiasDropout", {"x", "b", "", "r", "t"}, "com.microsoft")), 4u);
  EXPECT_FALSE(may_draw(drawing("Relu", {"x"})));
}

// Whether two nodes alike are one class.
bool are_one(const std::string& node, const std::string& training) {
  const std::string head = R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
      g (float[4] x, float[4] b) => (float[4] y, float[4] z) <float r = {0.5}, bool t = {)";
  const auto model = parse_model_text(head + training + "}> { y = " + node + "  z = " + node + " }", "test");
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return false;
  const auto evaluator = make_evaluator();
  OnnxEGraph g(*evaluator);
  const auto lowered = lower(*model, g);
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  return lowered.ok() && g.egraph().find(lowered->values.at("y")) == g.egraph().find(lowered->values.at("z"));
}

TEST(Chance, WhatDrawsIsEqualToNothingElse) {
  EXPECT_FALSE(are_one("Bernoulli (x)", "1"));
  for (const char* node : {"Dropout (x, r, t)", "com.microsoft.BiasDropout (x, b, , r, t)", "com.microsoft.BitmaskDropout (x, r, t)",
                           "com.microsoft.BitmaskBiasDropout (x, b, , r, t)"}) {
    EXPECT_FALSE(are_one(node, "1")) << node;
    EXPECT_TRUE(are_one(node, "0")) << node;
  }
}

}  // namespace
}  // namespace saturate
