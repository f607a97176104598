#include "kernels/compare/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace saturate {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

Value floats(std::vector<float> values) { return Tensor::of<float>(DType::kFloat, {static_cast<std::int64_t>(values.size())}, values); }
Value ints(std::vector<std::int64_t> values) { return Tensor::vector_int64(values); }
OutputComparison compare(const Value& a, const Value& b, const Tolerances& t = {}) { return compare_values("y", a, b, t); }

TEST(Compare, ToleranceGrowsWithTheScale) {
  EXPECT_TRUE(compare(floats({0, 1}), floats({5e-5f, 1})).ok);
  EXPECT_FALSE(compare(floats({0, 1}), floats({2e-4f, 1})).ok);
  EXPECT_TRUE(compare(floats({0, 100}), floats({2e-3f, 100})).ok);
  EXPECT_DOUBLE_EQ(compare(floats({0, -100}), floats({0, -100})).scale, 100);
}

TEST(Compare, NanAndInfinities) {
  EXPECT_TRUE(compare(floats({NAN, kInf, -kInf}), floats({NAN, kInf, -kInf})).ok);
  EXPECT_FALSE(compare(floats({NAN}), floats({1})).ok);
  EXPECT_FALSE(compare(floats({1}), floats({NAN})).ok);
  EXPECT_FALSE(compare(floats({kInf}), floats({-kInf})).ok);
  EXPECT_FALSE(compare(floats({kInf}), floats({3e38f})).ok);
  EXPECT_TRUE(compare(floats({NAN, NAN}), floats({NAN, NAN})).all_nan);
}

TEST(Compare, HugeNumbersDontHideDifferences) {
  EXPECT_FALSE(compare(floats({-3.4e38f, 1}), floats({-3.4e38f, 1.5f})).ok);
  EXPECT_TRUE(compare(floats({-3.4e38f, 1}), floats({-3.4e38f, 1})).ok);
  EXPECT_FALSE(compare(floats({-3.4e38f}), floats({-3.0e38f})).ok);
}

TEST(Compare, ALargeNumberHidesNoDifferenceBesideIt) {
  EXPECT_FALSE(compare(floats({1e9f, 1, 2, 3}), floats({1e9f, 2, 2, 3})).ok);
  EXPECT_FALSE(compare(floats({1e9f, 3}), floats({1e9f, 4})).ok);
  EXPECT_TRUE(compare(floats({1e9f, 1, 2, 3}), floats({1.00001e9f, 1, 2, 3})).ok);
}

TEST(Compare, SmallNumbersAreCompared) {
  EXPECT_FALSE(compare(floats({1e-6f, 2e-6f}), floats({1e-6f, 3e-6f})).ok);
  EXPECT_TRUE(compare(floats({1e-6f, 2e-6f}), floats({1e-6f, 2.00001e-6f})).ok);
}

TEST(Compare, TheSmallestHalvesMayDifferByTwoSteps) {
  const auto half = [](std::uint16_t steps) { return Value(Tensor::of<std::uint16_t>(DType::kFloat16, {1}, std::vector{steps})); };
  EXPECT_TRUE(compare(half(37), half(39)).ok);
  EXPECT_FALSE(compare(half(37), half(40)).ok);
  EXPECT_FALSE(compare(half(37), half(38), {.rtol = 1e-2, .atol = {}}).ok);
  EXPECT_FALSE(compare(floats({2.2e-6f}), floats({2.3e-6f})).ok);
}

TEST(Compare, NoiseWidensWhereItWasSeen) {
  const Value reference = floats({1, 2, 1e9f});
  Noise noise;
  noise.learn(reference, floats({1.01f, 2, 1.001e9f}));
  EXPECT_TRUE(compare_values("y", reference, floats({1.03f, 2.03f, 1e9f}), {}, &noise).ok);  // of one size, in one row
  EXPECT_FALSE(compare_values("y", reference, floats({1, 3, 1e9f}), {}, &noise).ok);         // not by the noise of what is much larger
  Noise ties;
  ties.learn(ints({1, 2}), ints({1, 5}));
  EXPECT_TRUE(compare_values("y", ints({1, 2}), ints({1, 5}), {}, &ties).ok);
  EXPECT_FALSE(compare_values("y", ints({1, 2}), ints({1, 4}), {}, &ties).ok);
}

TEST(Compare, OnlyWhatIsFinite) {
  Tolerances finite;
  finite.only_finite = true;
  EXPECT_TRUE(compare(floats({NAN, kInf, 1}), floats({1, 2, 1}), finite).ok);
  EXPECT_FALSE(compare(floats({NAN, kInf, 1}), floats({1, 2, NAN}), finite).ok);
}

TEST(Compare, IntegersAreExact) {
  EXPECT_TRUE(compare(ints({1, 2}), ints({1, 2})).ok);
  const OutputComparison off = compare(ints({1, 2, 3}), ints({1, 3, 5}));
  EXPECT_FALSE(off.ok);
  EXPECT_EQ(off.mismatches, 2);
  EXPECT_EQ(off.max_abs, 2);
  EXPECT_NE(off.why.find("2 of 3 elements differ, first at element 1: 3 instead of 2"), std::string::npos) << off.why;
}

TEST(Compare, BigIntegersKeepTheirLastBit) { EXPECT_FALSE(compare(ints({(std::int64_t{1} << 60) + 1}), ints({std::int64_t{1} << 60})).ok); }

TEST(Compare, ShapesAndTypesMustAgree) {
  EXPECT_NE(compare(floats({1, 2}), floats({1, 2, 3})).why.find("shape [3] instead of [2]"), std::string::npos);
  EXPECT_NE(compare(floats({1}), ints({1})).why.find("type int64 instead of float"), std::string::npos);
  const std::int64_t none = 0;
  EXPECT_TRUE(compare(Tensor(DType::kFloat, {none, 3}), Tensor(DType::kFloat, {none, 3})).ok);
  EXPECT_FALSE(compare(Tensor(DType::kFloat, {none, 3}), Tensor(DType::kFloat, {none, 4})).ok);
}

TEST(Compare, GivenTolerancesReplaceTheDefault) {
  Tolerances strict;
  strict.atol = 1e-6;
  EXPECT_FALSE(compare(floats({1}), floats({1.00005f}), strict).ok);
  Tolerances loose;
  loose.rtol = 0.1;
  EXPECT_TRUE(compare(floats({1}), floats({1.05f}), loose).ok);
}

TEST(Compare, AHalfInsideShowsOutside) {
  Tolerances half;
  half.coarsest = DType::kFloat16;
  EXPECT_TRUE(compare(floats({1}), floats({1.01f}), half).ok);
  EXPECT_FALSE(compare(floats({1}), floats({1.03f}), half).ok);
}

TEST(Compare, SequencesAndOptionals) {
  const auto sequence = [](std::vector<Value> items) { return Value(Sequence{std::move(items), DType::kFloat}); };
  EXPECT_TRUE(compare(sequence({floats({1}), floats({2, 3})}), sequence({floats({1}), floats({2, 3})})).ok);
  EXPECT_FALSE(compare(sequence({floats({1}), floats({2})}), sequence({floats({1}), floats({4})})).ok);
  EXPECT_FALSE(compare(sequence({floats({1}), floats({9})}), sequence({floats({1})})).ok);
  EXPECT_FALSE(compare(sequence({floats({9}), floats({2})}), sequence({floats({1}), floats({2})})).ok);
  EXPECT_TRUE(compare(Value(Optional{}), Value(Optional{})).ok);
  EXPECT_FALSE(compare(Value(Optional{std::make_shared<const Value>(floats({1}))}), Value(Optional{})).ok);
  EXPECT_FALSE(compare(floats({1}), sequence({floats({1})})).ok);
}

TEST(Compare, Strings) {
  EXPECT_TRUE(compare(Tensor::strings({2}, {"a", "b"}), Tensor::strings({2}, {"a", "b"})).ok);
  EXPECT_NE(compare(Tensor::strings({2}, {"a", "b"}), Tensor::strings({2}, {"a", "c"})).why.find("'c' instead of 'b'"), std::string::npos);
}

}  // namespace
}  // namespace saturate
