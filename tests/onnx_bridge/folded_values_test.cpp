// Values of constant classes, within the memory that folding has.
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/file/io.h"

namespace saturate {
namespace {

// A model whose weights have many spellings was refused: all values that were asked for once stayed, until none more had room.
TEST(FoldedValues, NotAllAreKept) {
  constexpr int kCount = 120;  // of 1 MiB each
  std::string text = R"(<ir_version: 8, opset_import: ["" : 17]> g () => (float[512,512] y0) <int64[2] s = {512, 512}, float one = {1}> {
      c = Expand (one, s)  )";
  for (int i = 0; i < kCount; ++i) text += fmt::format("k{0} = Constant <value_float = {0}.5> ()  y{0} = Add (c, k{0})  ", i);
  const auto model = parse_model_text(text + "}", "test");
  ASSERT_TRUE(model.ok()) << model.status();
  const auto evaluator = make_evaluator({.memory = std::size_t{100} << 20});
  OnnxEGraph g(*evaluator);
  const auto lowered = lower(*model, g);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  for (int round = 0; round < 2; ++round)
    for (int i = 0; i < kCount; ++i) {
      const auto value = g.value(lowered->values.at(fmt::format("y{}", i)), ~std::size_t{0});
      ASSERT_TRUE(value) << i;
      EXPECT_EQ(value->data<float>()[7], 1.5f + static_cast<float>(i));
    }
}

}  // namespace
}  // namespace saturate
