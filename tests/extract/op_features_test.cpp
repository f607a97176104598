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

}  // namespace
}  // namespace saturate
