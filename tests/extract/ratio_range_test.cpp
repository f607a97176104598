#include <gtest/gtest.h>

#include "extract/onnx_problem.h"

namespace saturate {
namespace {

constexpr double kErrorOfPrices = 0.12;

AtLoad of(std::map<std::string, double> cost) {
  AtLoad out;
  for (const auto& [family, of_family] : cost) out.price.cost += of_family;
  out.cost = std::move(cost);
  return out;
}

// Of one family all prices are wrong by as much, which cancels out; how much a model's time changes is still not known to the percent.
TEST(RatioRange, IsAsWideAsChangesAreWrong) {
  const auto [least, most] = ratio_range(of({{"MatMul", 100}}), of({{"MatMul", 70}}), kErrorOfPrices);
  EXPECT_NEAR(0.5 * (least + most), 0.7, 1e-9);
  EXPECT_GT(most - least, 0.3);
  EXPECT_LT(most, 1);  // that there is a gain is not in doubt
}

TEST(RatioRange, IsNarrowWhereNothingChanges) {
  const auto [least, most] = ratio_range(of({{"MatMul", 100}}), of({{"MatMul", 100}}), kErrorOfPrices);
  EXPECT_LT(most - least, 0.04);
  EXPECT_LT(least, 1);
  EXPECT_GT(most, 1);
}

TEST(RatioRange, IsWiderWhereFamiliesTakePlaces) {
  const auto within = ratio_range(of({{"MatMul", 100}}), of({{"MatMul", 95}}), kErrorOfPrices);
  const auto across = ratio_range(of({{"MatMul", 100}}), of({{"Conv", 95}}), kErrorOfPrices);
  EXPECT_GT(across.second - across.first, within.second - within.first);
  EXPECT_GT(across.second, 1);
}

TEST(RatioRange, IsNeverBelowNothing) { EXPECT_GE(ratio_range(of({{"MatMul", 100}}), of({}), kErrorOfPrices).first, 0); }

// What decides does not grow with the change: 3 % more in the same operators are beyond the error, 1 % more or 5 % in others are not.
TEST(IsDearer, AsksThePricesAlone) {
  EXPECT_TRUE(is_dearer(of({{"MatMul", 100}}), of({{"MatMul", 103}}), kErrorOfPrices));
  EXPECT_FALSE(is_dearer(of({{"MatMul", 100}}), of({{"MatMul", 101}}), kErrorOfPrices));
  EXPECT_FALSE(is_dearer(of({{"MatMul", 100}}), of({{"Conv", 105}}), kErrorOfPrices));
  EXPECT_FALSE(is_dearer(of({{"MatMul", 100}}), of({{"MatMul", 90}}), kErrorOfPrices));
  EXPECT_FALSE(is_dearer(of({}), of({}), kErrorOfPrices));
}

}  // namespace
}  // namespace saturate
