#include <cmath>
#include <limits>

#include "kernel_test_util.h"

namespace saturate::test {
namespace {

std::vector<std::int64_t> whole(const Tensor& t) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < t.size(); ++i) out.push_back(*element_as_int(t, i));
  return out;
}
using Whole = std::vector<std::int64_t>;

TEST(Quant, RoundsToEvenAndSaturates) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = floats({7}, {0.5f, 1.5f, 2.5f, -0.5f, 1e9f, -inf, 300.0f});
  EXPECT_EQ(whole(eval({"QuantizeLinear"}, {x, floats({}, {1}), make<std::int8_t>({}, {1})})), (Whole{1, 3, 3, 1, 127, -128, 127}));
  EXPECT_EQ(whole(eval({"QuantizeLinear"}, {x, floats({}, {1})})), (Whole{0, 2, 2, 0, 255, 0, 255}));
}

TEST(Quant, PerAxisAndBlocked) {
  const Tensor x = floats({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(whole(eval({"QuantizeLinear", "", 21, {int_attr("axis", 0)}}, {x, floats({2}, {1, 0.5f}), make<std::uint8_t>({2}, {0, 10})})),
            (Whole{1, 2, 16, 18}));
  const Tensor blocked = floats({3, 1}, {1, 2, 3});
  EXPECT_EQ(whole(eval({"QuantizeLinear", "", 21, {int_attr("axis", 0), int_attr("block_size", 2)}}, {blocked, floats({2, 1}, {1, 0.5f})})),
            (Whole{1, 2, 6}));
  EXPECT_FALSE(run({"QuantizeLinear", "", 21, {int_attr("axis", 0)}}, {x, floats({3}, {1, 1, 1})}).ok());
  EXPECT_FALSE(
      run({"QuantizeLinear", "", 21, {int_attr("axis", 0), int_attr("block_size", 2)}}, {blocked, floats({3, 1}, {1, 1, 1})}).ok());
  expect_near(eval({"DequantizeLinear", "", 13, {int_attr("axis", 1)}},
                   {make<std::int8_t>({1, 2}, {-128, 127}), floats({2}, {0.5f, 2}), make<std::int8_t>({2}, {0, -1})}),
              floats({1, 2}, {-64, 256}));
}

TEST(Quant, FourBitsGoThereAndBack) {
  const Tensor x = floats({3}, {-20, 3.4f, 2});
  const Tensor zero(DType::kInt4, {});
  const Tensor q = eval({"QuantizeLinear"}, {x, floats({}, {1}), zero});
  EXPECT_EQ(q.dtype(), DType::kInt4);
  EXPECT_EQ(whole(q), (Whole{-8, 3, 2}));
  expect_near(eval({"DequantizeLinear"}, {q, floats({}, {2}), zero}), floats({3}, {-16, 6, 4}));
}

TEST(Quant, DynamicRangeHoldsZero) {
  const auto out = run({"DynamicQuantizeLinear", "", 11, {}, 3}, {floats({3}, {2, 4, 5.1f})});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(whole((*out)[0].tensor()), (Whole{100, 200, 255}));
  EXPECT_EQ(whole((*out)[2].tensor()), Whole{0});
  const auto constant = run({"DynamicQuantizeLinear", "", 11, {}, 3}, {floats({2}, {0, 0})});
  ASSERT_TRUE(constant.ok());
  EXPECT_EQ(whole((*constant)[0].tensor()), (Whole{0, 0}));
}

// Every product at its extreme: sums in floats alone would round.
TEST(Quant, LongIntegerProductsAreExact) {
  constexpr std::int64_t k = 5001;
  Tensor a(DType::kUint8, {1, k}), b(DType::kUint8, {k, 1});
  std::fill_n(a.mutable_as<std::uint8_t>(), k, std::uint8_t{255});
  std::fill_n(b.mutable_as<std::uint8_t>(), k, std::uint8_t{255});
  EXPECT_EQ(whole(eval({"MatMulInteger"}, {a, b})), Whole{k * 255 * 255});
  EXPECT_EQ(whole(eval({"MatMulInteger"}, {a, b, make<std::uint8_t>({}, {0}), make<std::uint8_t>({1}, {254})})), Whole{k * 255});
}

TEST(Quant, MatMulIntegerOfVectorsAndEmpties) {
  EXPECT_EQ(eval({"MatMulInteger"}, {make<std::int8_t>({2}, {1, 2}), make<std::int8_t>({2}, {3, -4})}).dims(), Shape{});
  EXPECT_EQ(whole(eval({"MatMulInteger"}, {make<std::int8_t>({2}, {1, 2}), make<std::int8_t>({2}, {3, -4})})), Whole{-5});
  EXPECT_EQ(whole(eval({"MatMulInteger"}, {Tensor(DType::kUint8, {2, 0}), Tensor(DType::kInt8, {0, 2})})), (Whole{0, 0, 0, 0}));
  EXPECT_FALSE(run({"MatMulInteger"}, {make<std::int8_t>({2}, {1, 2}), make<std::int8_t>({1}, {3})}).ok());
}

TEST(Quant, ConvPadsWithTheZeroPoint) {
  const Tensor x = make<std::uint8_t>({1, 1, 1, 2}, {10, 12}), w = make<std::uint8_t>({1, 1, 1, 3}, {1, 1, 1});
  const Call call{"ConvInteger", "", 10, {Attribute::of("pads", std::vector<std::int64_t>{0, 1, 0, 1})}};
  EXPECT_EQ(whole(eval(call, {x, w, make<std::uint8_t>({}, {10})})), (Whole{2, 2}));
}

TEST(Quant, NBitsWeightsMatchTheirFloats) {
  // N = 1, K = 16: nibbles 0..15, low first; zero point 8.
  Tensor b(DType::kUint8, {1, 1, 8});
  for (int i = 0; i < 8; ++i) b.mutable_as<std::uint8_t>()[i] = static_cast<std::uint8_t>((2 * i) | ((2 * i + 1) << 4));
  std::vector<float> x(16, 1.0f);
  x[15] = 3.0f;
  const Call call{
      "MatMulNBits", "com.microsoft", 1, {int_attr("K", 16), int_attr("N", 1), int_attr("bits", 4), int_attr("block_size", 16)}};
  expect_near(eval(call, {floats({1, 16}, x), b, floats({1}, {0.5f})}),
              floats({1, 1}, {3.0f}));  // (sum(q - 8) + 2 * 7) / 2 = (-8 + 14) / 2
  EXPECT_FALSE(run(call, {floats({1, 15}, std::vector<float>(15)), b, floats({1}, {0.5f})}).ok());
  EXPECT_FALSE(run(call, {floats({1, 16}, x), b, floats({2}, {0.5f, 1})}).ok());
}

}  // namespace
}  // namespace saturate::test
