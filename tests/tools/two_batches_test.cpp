#include "tools/transform/two_batches.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/verify/verify.h"
#include "onnx_bridge/file/io.h"

namespace saturate {
namespace {

// What running two batches at once gives, beside each alone.
VerifyStatus of_two(const std::string& body) {
  const auto model = parse_model_text(
      "<ir_version: 10, opset_import: [\"\" : 20]>\ng (float[2,3] x, float[3] w) => (float[2,3] y)\n<int64[1] rows = {0}> {\n" + body +
          "\n}\n",
      "test");
  EXPECT_TRUE(model.ok()) << model.status();
  TwoBatches two = two_batches(*model, {{"x", 0}}, {{"y", 0}});
  Model together = *model;
  for (Model* m : {&two.apart, &together}) m->graph.outputs[0].type.shape.reset();
  together.graph.inputs = two.inputs;
  together.graph.nodes.insert(together.graph.nodes.begin(), two.joins.begin(), two.joins.end());
  return verify(two.apart, together, {}).status;
}

TEST(TwoBatches, AreEqualWhereEntriesStayApart) { EXPECT_EQ(of_two("a = Mul (x, w)\ny = Softmax <axis = 1> (a)"), VerifyStatus::kEqual); }

TEST(TwoBatches, DifferWhereAnEntryReadsAnother) {
  EXPECT_EQ(of_two("m = ReduceMean (x, rows)\ny = Sub (x, m)"), VerifyStatus::kDifferent);
}

TEST(TwoBatches, ShareInputsWithoutABatch) {
  const auto model = parse_model_text(
      "<ir_version: 10, opset_import: [\"\" : 20]>\ng (float[2,3] x, float[3] w) => (float[2,3] y) {\ny = Mul (x, w)\n}\n", "test");
  ASSERT_TRUE(model.ok());
  const TwoBatches two = two_batches(*model, {{"x", 0}}, {{"y", 0}});
  ASSERT_EQ(two.inputs.size(), 3u);
  EXPECT_EQ(two.inputs[1].name, "w");
  ASSERT_EQ(two.joins.size(), 1u);
  EXPECT_EQ(two.joins[0].inputs, (std::vector<std::string>{two.inputs[0].name, two.inputs[2].name}));
}

}  // namespace
}  // namespace saturate
