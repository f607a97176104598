#include <cmath>
#include <limits>

#include "kernel_test_util.h"
#include "kernels/core/codec.h"
#include "kernels/tensor/util.h"

namespace saturate::test {
namespace {

using Ints = std::vector<std::int64_t>;

Tensor counting(Shape dims) {
  const std::int64_t n = std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
  Ints v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  return ints(std::move(dims), std::move(v));
}
Ints values(const Tensor& t) { return {t.span<std::int64_t>().begin(), t.span<std::int64_t>().end()}; }
std::vector<std::string> texts(const Tensor& t) { return {t.string_data().begin(), t.string_data().end()}; }

TEST(Data, ReshapeReadsZeroAndMinusOne) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ(eval({"Reshape"}, {x, ints({3}, {0, -1, 2})}).dims(), (Shape{2, 6, 2}));
  EXPECT_EQ(eval({"Reshape", "", 1, {ints_attr("shape", {4, -1})}}, {x}).dims(), (Shape{4, 6}));
}

TEST(Data, ReshapeRefusesWhatCannotBe) {
  const Tensor x = counting({2, 3});
  EXPECT_FALSE(run({"Reshape"}, {x, ints({1}, {5})}).ok());
  EXPECT_FALSE(run({"Reshape"}, {x, ints({2}, {-1, -1})}).ok());
  EXPECT_FALSE(run({"Reshape"}, {x, ints({2}, {-2, 3})}).ok());
  EXPECT_FALSE(run({"Reshape"}, {x, ints({3}, {2, 3, 0})}).ok());
  EXPECT_FALSE(run({"Reshape"}, {x, ints({3}, {std::numeric_limits<std::int64_t>::max(), 4, -1})}).ok());
  EXPECT_TRUE(run({"Reshape", "", 14, {int_attr("allowzero", 1)}}, {counting({0, 3}), ints({2}, {3, 0})}).ok());
}

TEST(Data, ShapeTakesAPart) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ(values(eval({"Shape", "", 15, {int_attr("start", -2)}}, {x})), (Ints{3, 4}));
  EXPECT_EQ(values(eval({"Shape", "", 15, {int_attr("start", 1), int_attr("end", -5)}}, {x})), Ints{});
  EXPECT_EQ(eval({"Shape"}, {ints({}, {7})}).dims(), Shape{0});
}

TEST(Data, SqueezeBothForms) {
  const Tensor x = counting({1, 3, 1});
  EXPECT_EQ(eval({"Squeeze", "", 11, {ints_attr("axes", {-1})}}, {x}).dims(), (Shape{1, 3}));
  EXPECT_EQ(eval({"Squeeze"}, {x, ints({1}, {0})}).dims(), (Shape{3, 1}));
  EXPECT_EQ(eval({"Squeeze"}, {x}).dims(), Shape{3});
  EXPECT_FALSE(run({"Squeeze"}, {x, ints({1}, {1})}).ok());
  EXPECT_EQ(eval({"Unsqueeze"}, {ints({}, {1}), ints({2}, {0, -1})}).dims(), (Shape{1, 1}));
  EXPECT_FALSE(run({"Unsqueeze"}, {x, ints({2}, {0, 0})}).ok());
}

TEST(Data, TransposeMovesEveryRank) {
  EXPECT_EQ(values(eval({"Transpose", "", 13, {ints_attr("perm", {1, 0})}}, {counting({2, 3})})), (Ints{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(eval({"Transpose"}, {ints({}, {5})}).dims(), Shape{});
  const Tensor x = counting({5, 17, 6, 33});  // large enough for the blocked path
  const Tensor y = eval({"Transpose", "", 13, {ints_attr("perm", {2, 0, 3, 1})}}, {x});
  ASSERT_EQ(y.dims(), (Shape{6, 5, 33, 17}));
  std::int64_t at = 0;
  for (std::int64_t c = 0; c < 6; ++c) {
    for (std::int64_t a = 0; a < 5; ++a) {
      for (std::int64_t d = 0; d < 33; ++d) {
        for (std::int64_t b = 0; b < 17; ++b, ++at) ASSERT_EQ(y.data<std::int64_t>()[at], ((a * 17 + b) * 6 + c) * 33 + d);
      }
    }
  }
  EXPECT_EQ(texts(eval({"Transpose"}, {Tensor::strings({2, 2}, {"a", "b", "c", "d"})})), (std::vector<std::string>{"a", "c", "b", "d"}));
}

TEST(Data, TransposeMovesPackedElements) {
  Tensor x(DType::kInt4, {2, 3});  // 1 2 3 / -4 5 -6
  const std::uint8_t packed[3] = {0x21, 0xc3, 0xa5};
  std::memcpy(x.mutable_data(), packed, 3);
  const Tensor y = eval({"Transpose"}, {x});
  Ints got;
  for (std::int64_t i = 0; i < 6; ++i) got.push_back(*element_as_int(y, i));
  EXPECT_EQ(got, (Ints{1, -4, 2, 5, 3, -6}));
}

TEST(Data, ConcatAndSplitAreInverse) {
  const Tensor x = counting({2, 5});
  const auto parts = run({"Split", "", 18, {int_attr("axis", -1), int_attr("num_outputs", 3)}, 3}, {x});
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ((*parts)[2].tensor().dims(), (Shape{2, 1}));
  EXPECT_TRUE(identical(eval({"Concat", "", 13, {int_attr("axis", 1)}}, *parts), x));
  EXPECT_FALSE(run({"Split", "", 13, {}, 2}, {x, ints({2}, {1, 2})}).ok());
  EXPECT_TRUE(run({"Split", "", 13, {int_attr("axis", 1)}, 2}, {x, ints({2}, {0, 5})}).ok());
  EXPECT_FALSE(run({"Concat", "", 13, {int_attr("axis", 0)}}, {x, counting({2, 4})}).ok());
}

TEST(Data, SliceStepsBackAndClamps) {
  const Tensor x = counting({6});
  const auto slice = [&](std::int64_t start, std::int64_t end, std::int64_t step) {
    return values(eval({"Slice"}, {x, ints({1}, {start}), ints({1}, {end}), ints({1}, {0}), ints({1}, {step})}));
  };
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min(), kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(slice(-1, kMin, -2), (Ints{5, 3, 1}));
  EXPECT_EQ(slice(4, 1, -1), (Ints{4, 3, 2}));
  EXPECT_EQ(slice(-100, 100, 4), (Ints{0, 4}));
  EXPECT_EQ(slice(3, 2, 1), Ints{});
  EXPECT_EQ(slice(kMax, kMin, kMin), Ints{5});
  EXPECT_EQ(slice(0, kMax, kMax), Ints{0});
  EXPECT_EQ(values(eval({"Slice", "", 9, {ints_attr("starts", {1}), ints_attr("ends", {-1}), ints_attr("axes", {0})}}, {x})),
            (Ints{1, 2, 3, 4}));
  EXPECT_FALSE(run({"Slice"}, {x, ints({1}, {0}), ints({1}, {1}), ints({1}, {0}), ints({1}, {0})}).ok());
}

// Of the lowest integer std::abs is undefined, and what it gave was no far number.
TEST(Data, PadsOfTheLowestIntegerAreFar) {
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  const auto says = [](const auto& result, absl::string_view what) {
    EXPECT_NE(result.status().message().find(what), absl::string_view::npos) << result.status();
  };
  for (const std::vector<std::int64_t>& pads : {std::vector{kMin, std::int64_t{0}}, std::vector{std::int64_t{0}, kMin}}) {
    says(run({"Pad"}, {counting({3}), ints({2}, pads)}), "a pad is too large");
    says(run({"Col2Im", "", 18, {ints_attr("pads", pads)}}, {counting({1, 1, 3}), ints({1}, {3}), ints({1}, {1})}),
         "a pad is out of range");
  }
}

TEST(Data, GatherFamilyChecksIndices) {
  const Tensor x = counting({3, 2});
  EXPECT_EQ(values(eval({"Gather"}, {x, ints({2}, {-1, 0})})), (Ints{4, 5, 0, 1}));
  EXPECT_EQ(values(eval({"Gather", "", 13, {int_attr("axis", 1)}}, {x, ints({}, {1})})), (Ints{1, 3, 5}));
  EXPECT_FALSE(run({"Gather"}, {x, ints({1}, {3})}).ok());
  EXPECT_EQ(eval({"Gather"}, {x, ints({0}, {})}).dims(), (Shape{0, 2}));
  EXPECT_EQ(values(eval({"GatherElements", "", 13, {int_attr("axis", 0)}}, {x, ints({1, 2}, {-1, 1})})), (Ints{4, 3}));
  EXPECT_EQ(values(eval({"GatherND"}, {x, ints({2, 2}, {0, 1, -1, -2})})), (Ints{1, 4}));
  EXPECT_FALSE(run({"GatherND"}, {x, ints({1, 2}, {0, 2})}).ok());
}

TEST(Data, ScatterFamilyReduces) {
  const Tensor x = ints({3}, {1, 2, 3});
  const auto scatter = [&](const char* how) {
    return values(
        eval({"ScatterElements", "", 18, {Attribute::of("reduction", std::string(how))}}, {x, ints({2}, {1, -2}), ints({2}, {5, 1})}));
  };
  EXPECT_EQ(scatter("none"), (Ints{1, 1, 3}));
  EXPECT_EQ(scatter("add"), (Ints{1, 8, 3}));
  EXPECT_EQ(scatter("mul"), (Ints{1, 10, 3}));
  EXPECT_EQ(scatter("max"), (Ints{1, 5, 3}));
  EXPECT_EQ(scatter("min"), (Ints{1, 1, 3}));
  EXPECT_EQ(values(eval({"ScatterND"}, {counting({2, 2}), ints({1, 1}, {-1}), ints({1, 2}, {8, 9})})), (Ints{0, 1, 8, 9}));
  EXPECT_FALSE(run({"ScatterND"}, {counting({2, 2}), ints({1, 1}, {2}), ints({1, 2}, {8, 9})}).ok());
}

TEST(Data, PadModesReachFar) {
  const Tensor x = counting({3});
  const auto pad = [&](const char* mode, Ints pads) {
    return values(eval({"Pad", "", 19, {Attribute::of("mode", std::string(mode))}}, {x, ints({2}, pads)}));
  };
  EXPECT_EQ(pad("constant", {1, 2}), (Ints{0, 0, 1, 2, 0, 0}));
  EXPECT_EQ(pad("edge", {2, 1}), (Ints{0, 0, 0, 1, 2, 2}));
  EXPECT_EQ(pad("reflect", {5, 1}), (Ints{1, 0, 1, 2, 1, 0, 1, 2, 1}));
  EXPECT_EQ(pad("wrap", {4, 1}), (Ints{2, 0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(pad("constant", {-1, 1}), (Ints{1, 2, 0}));
  EXPECT_EQ(values(eval({"Pad", "", 18}, {counting({1, 2}), ints({2}, {1, 0}), ints({}, {7}), ints({1}, {-2})})), (Ints{7, 7, 0, 1}));
  EXPECT_FALSE(run({"Pad"}, {x, ints({2}, {-2, -2})}).ok());
  EXPECT_FALSE(run({"Pad", "", 18, {Attribute::of("mode", std::string("edge"))}}, {counting({0}), ints({2}, {1, 0})}).ok());
}

TEST(Data, SizesFromAModelAreBounded) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 61;
  EXPECT_FALSE(run({"Expand"}, {ints({1}, {1}), ints({2}, {kHuge, 4})}).ok());
  EXPECT_FALSE(run({"ConstantOfShape"}, {ints({2}, {kHuge, 4})}).ok());
  EXPECT_FALSE(run({"ConstantOfShape"}, {ints({1}, {-1})}).ok());
  EXPECT_FALSE(run({"Tile"}, {ints({2}, {1, 2}), ints({1}, {kHuge})}).ok());
  EXPECT_FALSE(run({"Pad"}, {ints({1}, {1}), ints({2}, {kHuge, kHuge})}).ok());
  EXPECT_FALSE(run({"OneHot"}, {ints({1}, {0}), ints({}, {kHuge}), ints({2}, {0, 1})}).ok());
  EXPECT_FALSE(run({"Range"}, {floats({}, {0}), floats({}, {std::numeric_limits<float>::infinity()}), floats({}, {1})}).ok());
}

TEST(Data, RangeCountsWithoutOverflow) {
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min(), kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(values(eval({"Range"}, {ints({}, {kMin}), ints({}, {kMax}), ints({}, {kMax})})), (Ints{kMin, -1, kMax - 1}));
  EXPECT_EQ(values(eval({"Range"}, {ints({}, {5}), ints({}, {0}), ints({}, {-2})})), (Ints{5, 3, 1}));
  EXPECT_EQ(eval({"Range"}, {ints({}, {0}), ints({}, {5}), ints({}, {-1})}).dims(), Shape{0});
  EXPECT_FALSE(run({"Range"}, {ints({}, {0}), ints({}, {5}), ints({}, {0})}).ok());
}

TEST(Data, CastSpecialValues) {
  const auto cast = [](const Tensor& x, DType to) { return eval({"Cast", "", 19, {int_attr("to", static_cast<std::int64_t>(to))}}, {x}); };
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = floats({6}, {-1.9f, 2.5f, 300.0f, NAN, inf, -0.0f});
  EXPECT_EQ(*element_as_int(cast(x, DType::kInt64), 0), -1);
  EXPECT_EQ(*element_as_int(cast(x, DType::kInt32), 4), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(*element_as_int(cast(x, DType::kInt32), 3), 0);
  EXPECT_EQ(*element_as_int(cast(ints({1}, {200}), DType::kInt8), 0), -56);
  EXPECT_EQ(*element_as_int(cast(x, DType::kBool), 5), 0);
  EXPECT_EQ(*element_as_int(cast(x, DType::kBool), 3), 1);
  EXPECT_EQ(*element_as_double(cast(x, DType::kFloat8e4m3fn), 4), 448.0);  // saturates
  EXPECT_TRUE(std::isnan(*element_as_double(cast(x, DType::kFloat8e5m2), 3)));
  EXPECT_EQ(texts(cast(floats({3}, {1.5f, -inf, NAN}), DType::kString)), (std::vector<std::string>{"1.5", "-INF", "NaN"}));
  EXPECT_EQ(*element_as_int(cast(Tensor::strings({1}, {"9223372036854775807"}), DType::kInt64), 0),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(*element_as_double(cast(Tensor::strings({1}, {"+INF"}), DType::kFloat), 0), static_cast<double>(inf));
  EXPECT_FALSE(run({"Cast", "", 19, {int_attr("to", 1)}}, {Tensor::strings({1}, {"abc"})}).ok());
}

TEST(Data, TinyFloatsSurviveTheWayBack) {
  for (DType dtype : {DType::kFloat8e4m3fn, DType::kFloat8e4m3fnuz, DType::kFloat8e5m2, DType::kFloat8e5m2fnuz, DType::kFloat4e2m1,
                      DType::kFloat6e2m3, DType::kFloat6e3m2, DType::kFloat8e8m0}) {
    for (int code = 0; code < 1 << bit_width(dtype); ++code) {
      const float v = decode_tiny_float(dtype, static_cast<std::uint8_t>(code));
      if (std::isnan(v)) continue;
      EXPECT_EQ(encode_tiny_float(dtype, v, false), code) << dtype_name(dtype) << " " << v;
    }
  }
  EXPECT_EQ(decode_tiny_float(DType::kFloat8e4m3fn, encode_tiny_float(DType::kFloat8e4m3fn, 1.0625f, true)), 1.0f);   // tie to even
  EXPECT_EQ(decode_tiny_float(DType::kFloat8e4m3fn, encode_tiny_float(DType::kFloat8e4m3fn, 1.1875f, true)), 1.25f);  // tie to even
  EXPECT_TRUE(std::isnan(decode_tiny_float(DType::kFloat8e4m3fn, encode_tiny_float(DType::kFloat8e4m3fn, 1e9f, false))));
  EXPECT_EQ(decode_tiny_float(DType::kFloat8e4m3fn, encode_tiny_float(DType::kFloat8e4m3fn, 0x1p-10f, true)), 0.0f);
}

TEST(Data, PackedBitsGoBothWays) {
  const std::vector<std::uint8_t> codes = {1, 63, 32, 7, 44};
  std::vector<std::byte> bytes(4);
  pack_bits(codes, 6, bytes.data());
  Tensor t(DType::kFloat6e2m3, {5});
  std::memcpy(t.mutable_data(), bytes.data(), 4);
  std::vector<std::uint8_t> back(5);
  unpack_bits(t, back.data());
  EXPECT_EQ(back, codes);
}

TEST(Data, TopKBreaksTiesByPosition) {
  const Tensor x = floats({2, 4}, {1, 3, 3, 2, NAN, 0, -1, 0});
  const auto top = run({"TopK", "", 11, {}, 2}, {x, ints({1}, {2})});
  ASSERT_TRUE(top.ok());
  EXPECT_EQ(values((*top)[1].tensor()), (Ints{1, 2, 0, 1}));
  const auto low = run({"TopK", "", 11, {int_attr("largest", 0), int_attr("axis", 0)}, 2}, {x, ints({1}, {1})});
  ASSERT_TRUE(low.ok());
  EXPECT_EQ(values((*low)[1].tensor()), (Ints{0, 1, 1, 1}));
  EXPECT_FALSE(run({"TopK", "", 11, {}, 2}, {x, ints({1}, {5})}).ok());
}

TEST(Data, UniqueKeepsOrderIfAsked) {
  const auto sorted = run({"Unique", "", 11, {}, 4}, {ints({6}, {2, 1, 1, 3, 4, 3})});
  ASSERT_TRUE(sorted.ok());
  EXPECT_EQ(values((*sorted)[0].tensor()), (Ints{1, 2, 3, 4}));
  EXPECT_EQ(values((*sorted)[3].tensor()), (Ints{2, 1, 2, 1}));
  const auto given = run({"Unique", "", 11, {int_attr("sorted", 0)}, 4}, {ints({6}, {2, 1, 1, 3, 4, 3})});
  ASSERT_TRUE(given.ok());
  EXPECT_EQ(values((*given)[0].tensor()), (Ints{2, 1, 3, 4}));
  EXPECT_EQ(values((*given)[2].tensor()), (Ints{0, 1, 1, 2, 3, 2}));
  EXPECT_EQ(eval({"Unique", "", 11, {int_attr("axis", 1)}}, {counting({2, 0})}).dims(), (Shape{2, 0}));
}

TEST(Data, NonZeroOfScalars) {
  EXPECT_EQ(eval({"NonZero"}, {ints({}, {0})}).dims(), (Shape{1, 0}));
  EXPECT_EQ(values(eval({"NonZero"}, {ints({2, 2}, {0, 3, -1, 0})})), (Ints{0, 1, 1, 0}));
}

TEST(Data, CumulativeAllDirections) {
  const Tensor x = ints({3}, {1, 2, 3});
  const auto sum = [&](const char* op, std::int64_t exclusive, std::int64_t reverse) {
    return values(eval({op, "", 26, {int_attr("exclusive", exclusive), int_attr("reverse", reverse)}}, {x, ints({}, {0})}));
  };
  EXPECT_EQ(sum("CumSum", 0, 0), (Ints{1, 3, 6}));
  EXPECT_EQ(sum("CumSum", 1, 0), (Ints{0, 1, 3}));
  EXPECT_EQ(sum("CumSum", 1, 1), (Ints{5, 3, 0}));
  EXPECT_EQ(sum("CumProd", 0, 1), (Ints{6, 6, 3}));
}

TEST(Data, TriluKeepsDiagonals) {
  EXPECT_EQ(values(eval({"Trilu", "", 14, {}}, {counting({2, 3}), ints({}, {1})})), (Ints{0, 1, 2, 0, 0, 5}));
  EXPECT_EQ(values(eval({"Trilu", "", 14, {int_attr("upper", 0)}}, {counting({2, 3}), ints({}, {-1})})), (Ints{0, 0, 0, 3, 0, 0}));
  EXPECT_EQ(values(eval({"Trilu", "", 14, {}}, {counting({2, 2}), ints({}, {std::numeric_limits<std::int64_t>::min()})})),
            (Ints{0, 1, 2, 3}));
}

}  // namespace
}  // namespace saturate::test
