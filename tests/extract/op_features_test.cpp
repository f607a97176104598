#include "extract/sizes/op_features.h"

#include <gtest/gtest.h>

#include <cmath>

namespace saturate {
namespace {

// Operators at ranks that they don't have, with attributes that mean nothing: a number comes out, and nothing beyond the shapes is read.
TEST(OpFeatures, OddRanksAndAttributes) {
  const std::vector<Sizes1D> shapes{{}, {3}, {2, 3}, {2, 3, 4}, {2, 3, 4, 5}, {2, 3, 4, 5, 6}};
  const std::vector<std::vector<Attribute>> attributes{
      {},
      {Attribute::of("perm", std::vector<std::int64_t>{std::int64_t{1} << 40, 1}), Attribute::of("axis", std::int64_t{99})},
      {Attribute::of("perm", std::vector<std::int64_t>{-1, 0}), Attribute::of("transA", std::string("x"))},
      {Attribute::of("perm", std::string("text")), Attribute::of("axis", 1.5f), Attribute::of("num_heads", std::string("x"))}};
  for (const char* op : {"Transpose",
                         "Attention",
                         "com.microsoft::Attention",
                         "com.microsoft::MultiHeadAttention",
                         "com.microsoft::GroupQueryAttention",
                         "Conv",
                         "com.microsoft::FusedConv",
                         "Gemm",
                         "MatMul",
                         "com.microsoft::FusedMatMul",
                         "Concat",
                         "Split",
                         "Gather",
                         "ReduceMean",
                         "Softmax",
                         "Add",
                         "LayerNormalization",
                         "DequantizeLinear",
                         "com.microsoft::QuickGelu",
                         "Tanh"})
    for (const Sizes1D& first : shapes)
      for (const Sizes1D& others : shapes)
        for (const auto& list : attributes)
          for (std::size_t count = 0; count < 4; ++count)
            for (std::size_t outputs = 0; outputs < 3; ++outputs) {
              OpUse use;
              use.op = op;
              use.inputs.assign(count, others);
              if (count > 0) use.inputs[0] = first;
              use.constant.assign(count, 0);
              use.outputs.assign(outputs, first);
              use.attributes = list;
              for (const float f : features_of(use).logs) EXPECT_TRUE(std::isfinite(f)) << op;
              EXPECT_TRUE(std::isfinite(sizes_of(use).flops)) << op;
            }
}

std::vector<int> kinds_of(Sizes1D in, const std::vector<std::int64_t>& perm) {
  OpUse use;
  use.op = "Transpose";
  use.inputs = {in};
  use.constant = {0};
  Sizes1D out;
  for (const std::int64_t p : perm) out.push_back(in[static_cast<std::size_t>(p)]);
  use.outputs = {out};
  use.attributes = {Attribute::of("perm", perm)};
  return features_of(use).kinds;
}

// ONNX Runtime counts axes of one element, too: where more than two blocks of axes move it takes elements one by one, in 8 times the time.
TEST(OpFeatures, TransposesOfMatricesAndOthers) {
  const std::vector<int> tiles = kinds_of({56, 56, 256}, {2, 0, 1}), elements = kinds_of({56, 1, 56, 256}, {1, 3, 0, 2});
  EXPECT_NE(tiles, elements);
  EXPECT_EQ(kinds_of({1, 56, 56, 256}, {0, 3, 1, 2}), tiles);
  EXPECT_EQ(kinds_of({56, 56, 1, 256}, {2, 3, 0, 1}), tiles);
  EXPECT_EQ(kinds_of({4, 8, 16, 32, 32}, {0, 3, 4, 1, 2}), tiles);
  EXPECT_EQ(kinds_of({8, 4, 16, 32}, {1, 3, 2, 0}), elements);
  EXPECT_EQ(kinds_of({1, 128, 8, 64}, {0, 2, 3, 1}), tiles);
  EXPECT_EQ(kinds_of({64, 32, 16}, {2, 1, 0}), elements);
  EXPECT_EQ(kinds_of({64, 32}, {1, 0}), tiles);
  // Runs that stay together, and what moves nothing, take the same whatever the axes of one element do.
  EXPECT_EQ(kinds_of({8, 1, 128, 64}, {2, 1, 0, 3}), kinds_of({1, 8, 128, 64}, {0, 2, 1, 3}));
  EXPECT_EQ(kinds_of({1, 8, 1, 64}, {2, 0, 1, 3}), kinds_of({1, 8, 64}, {0, 1, 2}));
}

}  // namespace
}  // namespace saturate
