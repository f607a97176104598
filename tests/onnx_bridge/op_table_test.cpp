#include "onnx_bridge/operators/op_table.h"

#include <gtest/gtest.h>

#include <climits>
#include <thread>

namespace saturate {
namespace {

TEST(OpTable, VersionInForce) {
  ASSERT_NE(find_schema("", "Softmax", 12), nullptr);
  EXPECT_EQ(find_schema("", "Softmax", 12)->since_version, 11);
  EXPECT_EQ(find_schema("", "Softmax", 13)->since_version, 13);
  EXPECT_EQ(find_schema("", "Softmax", kNewestOpset)->since_version, 13);
  EXPECT_EQ(find_schema("", "Gelu", 19), nullptr);
  EXPECT_EQ(find_schema("", "Gelu", 20)->since_version, 20);
  EXPECT_EQ(find_schema("ai.onnx", "Gelu", 20), find_schema("", "Gelu", 20));
  EXPECT_EQ(find_schema("", "NoSuchOperator", 20), nullptr);
  EXPECT_EQ(find_schema("com.nobody", "Gelu", 1), nullptr);
  EXPECT_TRUE(schema_versions("", "NoSuchOperator").empty());
}

TEST(OpTable, DefaultsOfAttributes) {
  EXPECT_EQ(find_schema("", "Softmax", 11)->attribute("axis")->default_value->i(), 1);
  EXPECT_EQ(find_schema("", "Softmax", 13)->attribute("axis")->default_value->i(), -1);
  EXPECT_EQ(find_schema("", "LayerNormalization", 17)->attribute("epsilon")->default_value->f(), 1e-5f);
  EXPECT_EQ(find_schema("", "Elu", 6)->attribute("alpha")->default_value->f(), 1.0f);
  EXPECT_EQ(find_schema("", "Gelu", 20)->attribute("approximate")->default_value->s(), "none");
  EXPECT_EQ(find_schema("", "RNN", 14)->attribute("activations")->default_value->strings(), (std::vector<std::string>{"Tanh", "Tanh"}));
  EXPECT_EQ(find_schema("", "MeanVarianceNormalization", 13)->attribute("axes")->default_value->ints(),
            (std::vector<std::int64_t>{0, 2, 3}));
  EXPECT_EQ(find_schema("", "TreeEnsemble", 5), nullptr);
  EXPECT_TRUE(find_schema("ai.onnx.ml", "TreeEnsemble", 5)->attribute("nodes_splits")->required);
  EXPECT_FALSE(find_schema("", "Transpose", 13)->attribute("perm")->default_value);
  EXPECT_FALSE(find_schema("", "Transpose", 13)->attribute("perm")->required);
  EXPECT_EQ(find_schema("", "Transpose", 13)->attribute("nope"), nullptr);
}

TEST(OpTable, ArityAndFormals) {
  const OpSchema* concat = find_schema("", "Concat", 13);
  EXPECT_EQ(concat->min_inputs, 1);
  EXPECT_EQ(concat->max_inputs, INT_MAX);
  EXPECT_TRUE(concat->inputs[0].variadic);
  EXPECT_TRUE(concat->attribute("axis")->required);
  const OpSchema* clip = find_schema("", "Clip", 13);
  EXPECT_EQ(clip->min_inputs, 1);
  EXPECT_EQ(clip->max_inputs, 3);
  EXPECT_TRUE(clip->inputs[1].optional);
  EXPECT_FALSE(clip->inputs[0].optional);
  const OpSchema* attention = find_schema("", "Attention", 23);
  EXPECT_EQ(attention->min_inputs, 3);
  EXPECT_EQ(attention->max_outputs, 4);
  EXPECT_TRUE(find_schema("", "Upsample", 10)->deprecated);
  EXPECT_FALSE(find_schema("", "Upsample", 9)->deprecated);
}

TEST(OpTable, TypesOfConstraints) {
  const OpSchema* shape = find_schema("", "Shape", 15);
  EXPECT_EQ(shape->outputs[0].type, "T1");
  ASSERT_EQ(shape->constraints.size(), 2u);
  for (const auto& c : shape->constraints)
    if (c.name == "T1") {
      EXPECT_EQ(c.types, (std::vector<std::string_view>{"tensor(int64)"}));
    }
  const auto& types = find_schema("", "Identity", 28)->constraints[0].types;
  EXPECT_NE(std::find(types.begin(), types.end(), "tensor(int2)"), types.end());
  EXPECT_NE(std::find(types.begin(), types.end(), "seq(tensor(float))"), types.end());
}

TEST(OpTable, MicrosoftOperators) {
  for (const char* name : {"Attention",
                           "MultiHeadAttention",
                           "GroupQueryAttention",
                           "RotaryEmbedding",
                           "SkipLayerNormalization",
                           "SkipSimplifiedLayerNormalization",
                           "EmbedLayerNormalization",
                           "BiasGelu",
                           "FastGelu",
                           "Gelu",
                           "QuickGelu",
                           "FusedMatMul",
                           "FusedConv",
                           "FusedGemm",
                           "MatMulNBits",
                           "QLinearAdd",
                           "QLinearMul",
                           "QLinearConv",
                           "DequantizeLinear",
                           "QuantizeLinear",
                           "BiasSplitGelu",
                           "GroupNorm",
                           "PackedAttention",
                           "DecoderMaskedMultiHeadAttention"})
    EXPECT_NE(find_schema("com.microsoft", name, 1), nullptr) << name;
  ASSERT_NE(find_schema("", "SimplifiedLayerNormalization", 11), nullptr);
  const OpSchema* attention = find_schema("com.microsoft", "Attention", 1);
  EXPECT_TRUE(attention->attribute("num_heads")->required);
  EXPECT_EQ(attention->inputs[2].name, "bias");
  EXPECT_TRUE(attention->inputs[2].optional);
  EXPECT_EQ(find_schema("com.microsoft", "SkipLayerNormalization", 1)->max_outputs, 4);
}

TEST(OpTable, VersionsAscend) {
  const auto versions = schema_versions("", "Reshape");
  ASSERT_GE(versions.size(), 6u);
  for (std::size_t i = 1; i < versions.size(); ++i) EXPECT_LT(versions[i - 1]->since_version, versions[i]->since_version);
  EXPECT_EQ(versions.front()->since_version, 1);
}

// onnx/helper.py, VERSION_TABLE.
TEST(OpTable, IrVersions) {
  const std::pair<int, int> table[] = {{1, 3},  {8, 3},  {9, 4},   {10, 5},  {11, 6},  {12, 7},  {14, 7},  {15, 8},  {18, 8},
                                       {19, 9}, {20, 9}, {21, 10}, {22, 10}, {23, 11}, {24, 12}, {25, 13}, {27, 13}, {28, 14}};
  for (const auto& [opset, ir] : table) EXPECT_EQ(ir_version_for_opset(opset), ir) << opset;
}

TEST(OpTable, ManyThreadsAsk) {
  std::vector<std::thread> threads;
  std::vector<const OpSchema*> found(8);
  for (std::size_t i = 0; i < found.size(); ++i) threads.emplace_back([&found, i] { found[i] = find_schema("", "MatMul", 13); });
  for (std::thread& t : threads) t.join();
  for (const OpSchema* s : found) EXPECT_EQ(s, found[0]);
  EXPECT_NE(found[0], nullptr);
}

}  // namespace
}  // namespace saturate
