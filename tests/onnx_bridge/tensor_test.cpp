#include "onnx_bridge/model/tensor.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace saturate {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(Tensor, ElementsOfDims) {
  EXPECT_EQ(checked_elements(Shape{}), 1);
  EXPECT_EQ(checked_elements(Shape{2, 3, 4}), 24);
  EXPECT_EQ(checked_elements(Shape{0}), 0);
  EXPECT_EQ(checked_elements(Shape{1LL << 31, 1LL << 31, 0}), 0);
  EXPECT_EQ(checked_elements(Shape{-1}), std::nullopt);
  EXPECT_EQ(checked_elements(Shape{0, -1}), std::nullopt);
  EXPECT_EQ(checked_elements(Shape{1LL << 32, 1LL << 32}), std::nullopt);
  EXPECT_EQ(checked_elements(Shape{kMax}), kMax);
}

TEST(Tensor, BytesRoundUpForPackedTypes) {
  EXPECT_EQ(checked_bytes(DType::kInt4, Shape{3}), 2u);
  EXPECT_EQ(checked_bytes(DType::kInt4, Shape{4}), 2u);
  EXPECT_EQ(checked_bytes(DType::kUint2, Shape{5}), 2u);
  EXPECT_EQ(checked_bytes(DType::kFloat6e2m3, Shape{4}), 3u);
  EXPECT_EQ(checked_bytes(DType::kFloat6e3m2, Shape{5}), 4u);
  EXPECT_EQ(checked_bytes(DType::kFloat, Shape{kMax / 2}), std::nullopt);
  EXPECT_EQ(checked_bytes(DType::kString, Shape{7}), 0u);
}

TEST(Tensor, NamesReadBack) {
  for (int i = 1; i <= 28; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype) << i;
    EXPECT_TRUE(dtype == DType::kString || bit_width(dtype) > 0) << i;
    EXPECT_FALSE(is_integer(dtype) && is_floating(dtype)) << i;
  }
  EXPECT_EQ(dtype_name(static_cast<DType>(99)), "type 99");
  EXPECT_EQ(bit_width(static_cast<DType>(-4)), 0);
  EXPECT_EQ(parse_dtype("undefined"), std::nullopt);
}

TEST(Tensor, OwnBuffersAreZeroAndAligned) {
  const Tensor t(DType::kDouble, {3, 5});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.bytes().data()) % 64, 0u);
  for (double v : t.span<double>()) EXPECT_EQ(v, 0.0);
  EXPECT_EQ(Tensor(DType::kFloat, {0, 4}).bytes().size(), 0u);
  EXPECT_EQ(Tensor(DType::kString, {2}).string_data().size(), 2u);
  EXPECT_TRUE(t.unique());
  const Tensor shared = t;
  EXPECT_FALSE(t.unique());
}

TEST(Tensor, ReshapedSharesItsData) {
  const Tensor t = Tensor::vector_int64(std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
  const Tensor r = t.reshaped({2, 3});
  EXPECT_EQ(r.data<std::int64_t>(), t.data<std::int64_t>());
  EXPECT_EQ(r.dims(), (Shape{2, 3}));
  EXPECT_FALSE(identical(r, t));
  EXPECT_TRUE(identical(r.reshaped({6}), t));
}

TEST(Tensor, IdenticalMeansBits) {
  const float plus = 0.0f, minus = -0.0f, nan = std::nanf("");
  const auto scalar = [](float v) { return Tensor::of<float>(DType::kFloat, {}, std::span(&v, 1)); };
  EXPECT_FALSE(identical(scalar(plus), scalar(minus)));
  EXPECT_TRUE(identical(scalar(nan), scalar(nan)));
  EXPECT_FALSE(identical(Tensor::strings({1}, {"a"}), Tensor::strings({1}, {"b"})));
  EXPECT_TRUE(identical(Tensor::strings({1}, {"a"}), Tensor::strings({1}, {"a"})));
}

Tensor of_bytes(DType dtype, Shape dims, std::vector<std::uint8_t> bytes) {
  Tensor t(dtype, std::move(dims));
  std::memcpy(t.mutable_data(), bytes.data(), bytes.size());
  return t;
}

TEST(Tensor, IdenticalLeavesPaddingOut) {
  EXPECT_TRUE(identical(of_bytes(DType::kInt4, {3}, {0x21, 0xf3}), of_bytes(DType::kInt4, {3}, {0x21, 0x03})));
  EXPECT_FALSE(identical(of_bytes(DType::kInt4, {3}, {0x21, 0xf3}), of_bytes(DType::kInt4, {3}, {0x21, 0xf4})));
  EXPECT_FALSE(identical(of_bytes(DType::kInt4, {3}, {0x21, 0xf3}), of_bytes(DType::kInt4, {3}, {0x22, 0xf3})));
  EXPECT_FALSE(identical(of_bytes(DType::kInt4, {4}, {0x21, 0xf3}), of_bytes(DType::kInt4, {4}, {0x21, 0x03})));
  EXPECT_TRUE(identical(of_bytes(DType::kFloat6e2m3, {1}, {0x7f}), of_bytes(DType::kFloat6e2m3, {1}, {0x3f})));
}

TEST(Tensor, ReadsPackedIntegers) {
  const Tensor four = of_bytes(DType::kInt4, {3}, {0x8f, 0x07});
  EXPECT_EQ(element_as_int(four, 0), -1);
  EXPECT_EQ(element_as_int(four, 1), -8);
  EXPECT_EQ(element_as_int(four, 2), 7);
  EXPECT_EQ(element_as_int(four, 3), std::nullopt);
  EXPECT_EQ(element_as_int(four, -1), std::nullopt);
  const Tensor two = of_bytes(DType::kInt2, {4}, {0b10'11'01'00});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(element_as_int(two, i), (std::vector<std::int64_t>{0, 1, -1, -2})[static_cast<std::size_t>(i)]);
  EXPECT_EQ(element_as_int(of_bytes(DType::kUint4, {2}, {0x8f}), 0), 15);
}

// Values from the ONNX documents on float8 and float4 and from OCP MX v1.0.
TEST(Tensor, ReadsSmallFloats) {
  const auto one = [](DType dtype, std::vector<std::uint8_t> bytes) {
    return *element_as_double(of_bytes(dtype, {1}, std::move(bytes)), 0);
  };
  EXPECT_EQ(one(DType::kFloat8e4m3fn, {0x7e}), 448.0);
  EXPECT_TRUE(std::isnan(one(DType::kFloat8e4m3fn, {0x7f})));
  EXPECT_EQ(one(DType::kFloat8e4m3fnuz, {0x7f}), 240.0);
  EXPECT_TRUE(std::isnan(one(DType::kFloat8e4m3fnuz, {0x80})));
  EXPECT_EQ(one(DType::kFloat8e5m2, {0x7b}), 57344.0);
  EXPECT_TRUE(std::isinf(one(DType::kFloat8e5m2, {0xfc})));
  EXPECT_EQ(one(DType::kFloat8e5m2fnuz, {0x7f}), 57344.0);
  EXPECT_EQ(one(DType::kFloat8e8m0, {127}), 1.0);
  EXPECT_TRUE(std::isnan(one(DType::kFloat8e8m0, {255})));
  EXPECT_EQ(one(DType::kFloat16, {0xff, 0x7b}), 65504.0);
  EXPECT_EQ(one(DType::kFloat16, {0x01, 0x00}), std::ldexp(1.0, -24));
  EXPECT_EQ(one(DType::kBfloat16, {0xc0, 0x3f}), 1.5);
  const Tensor four = of_bytes(DType::kFloat4e2m1, {2}, {0xf7});
  EXPECT_EQ(element_as_double(four, 0), 6.0);
  EXPECT_EQ(element_as_double(four, 1), -6.0);
  // x0 = 0b011111 (7.5 in e2m3), x1 = 0b100001 (-0.125), x2 = 0, x3 = 0b111111.
  const Tensor six = of_bytes(DType::kFloat6e2m3, {4}, {0b01'011111, 0b0000'1000, 0b111111'00});
  EXPECT_EQ(element_as_double(six, 0), 7.5);
  EXPECT_EQ(element_as_double(six, 1), -0.125);
  EXPECT_EQ(element_as_double(six, 2), 0.0);
  EXPECT_EQ(element_as_double(six, 3), -7.5);
}

// Every code of every small float, but NaNs, survives reading and storing.
TEST(Tensor, SmallFloatsRoundTrip) {
  for (DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat8e4m3fn, DType::kFloat8e4m3fnuz, DType::kFloat8e5m2,
                      DType::kFloat8e5m2fnuz, DType::kFloat8e8m0, DType::kFloat4e2m1, DType::kFloat6e2m3, DType::kFloat6e3m2}) {
    Tensor t(dtype, {3});
    for (std::uint64_t code = 0; code < (std::uint64_t{1} << bit_width(dtype)); ++code) {
      store_bits(t, 1, code);
      ASSERT_EQ(element_bits(t, 1), code);
      const double value = *element_as_double(t, 1);
      if (std::isnan(value)) continue;
      ASSERT_TRUE(store_double(t, 2, value)) << dtype_name(dtype) << " " << value;
      ASSERT_EQ(element_bits(t, 2), code) << dtype_name(dtype) << " " << value;
    }
    EXPECT_EQ(element_bits(t, 0), 0u);
  }
}

TEST(Tensor, StoringRoundsToNearestEven) {
  Tensor half(DType::kFloat16, {1});
  ASSERT_TRUE(store_double(half, 0, 2049.0));  // between 2048 and 2050
  EXPECT_EQ(element_as_double(half, 0), 2048.0);
  ASSERT_TRUE(store_double(half, 0, 2051.0));
  EXPECT_EQ(element_as_double(half, 0), 2052.0);
  ASSERT_TRUE(store_double(half, 0, 65519.0));
  EXPECT_EQ(element_as_double(half, 0), 65504.0);
  ASSERT_TRUE(store_double(half, 0, 65520.0));
  EXPECT_TRUE(std::isinf(*element_as_double(half, 0)));
  Tensor small(DType::kFloat8e4m3fn, {1});
  EXPECT_FALSE(store_double(small, 0, 1000.0));
  ASSERT_TRUE(store_double(small, 0, std::nan("")));
  EXPECT_TRUE(std::isnan(*element_as_double(small, 0)));
  Tensor four(DType::kFloat4e2m1, {1});
  EXPECT_FALSE(store_double(four, 0, std::nan("")));
  EXPECT_FALSE(store_double(four, 0, std::numeric_limits<double>::infinity()));
}

TEST(Tensor, StoringRefusesWhatDoesNotFit) {
  Tensor t(DType::kInt4, {2});
  EXPECT_TRUE(store_int(t, 1, -8));
  EXPECT_FALSE(store_int(t, 0, 8));
  EXPECT_EQ(element_as_int(t, 0), 0);
  EXPECT_EQ(element_as_int(t, 1), -8);
  EXPECT_FALSE(store_int(t, 2, 0));
  Tensor u(DType::kUint64, {1});
  EXPECT_FALSE(store_int(u, 0, -1));
  EXPECT_TRUE(store_double(u, 0, 18446744073709549568.0));
  EXPECT_EQ(element_as_double(u, 0), 18446744073709549568.0);
  EXPECT_EQ(element_as_int(u, 0), std::nullopt);
  Tensor b(DType::kBool, {1});
  EXPECT_FALSE(store_int(b, 0, 2));
  EXPECT_FALSE(store_double(b, 0, 0.5));
}

TEST(Tensor, NumbersOfOtherTypes) {
  const float values[] = {1.5f, -3.0f, 1e30f};
  const Tensor t = Tensor::of<float>(DType::kFloat, {3}, values);
  EXPECT_EQ(element_as_int(t, 0), std::nullopt);
  EXPECT_EQ(element_as_int(t, 1), -3);
  EXPECT_EQ(element_as_int(t, 2), std::nullopt);
  EXPECT_EQ(element_as_double(Tensor::strings({1}, {"1"}), 0), std::nullopt);
  EXPECT_EQ(element_as_double(Tensor(DType::kComplex64, {1}), 0), std::nullopt);
  EXPECT_EQ(element_as_int(Tensor::scalar_int64(std::numeric_limits<std::int64_t>::min()), 0), std::numeric_limits<std::int64_t>::min());
}

}  // namespace
}  // namespace saturate
