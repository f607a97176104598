#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

#include "tools/measure/answers.h"
#include "tools/measure/ratio.h"

namespace saturate {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

TEST(Ratio, MedianAndIntervalOfPairs) {
  const std::vector<double> base(9, 2.0), twice{4, 4, 4, 4, 4, 4, 4, 4, 100};
  const MeasuredRatio r = ratio_of(twice, base);
  EXPECT_EQ(r.median, 2);
  EXPECT_EQ(r.low, 2);
  EXPECT_EQ(r.high, 2) << "one of nine on each side lies outside";
  EXPECT_EQ(ratio_of({twice.begin() + 2, twice.end()}, base).high, 50) << "of seven rounds the interval is the whole";
  EXPECT_FALSE(is_less(r));
  EXPECT_TRUE(is_less(ratio_of(base, twice)));
}

TEST(Ratio, ManyRoundsLeaveOutliersOut) {
  std::vector<double> a(100, 0.9), b(100, 1.0);
  for (int i = 0; i < 20; ++i) a[static_cast<std::size_t>(5 * i)] = 7;
  const MeasuredRatio r = ratio_of(a, b);
  EXPECT_EQ(r.median, 0.9);
  EXPECT_TRUE(is_less(r)) << r.low << " " << r.high;
  EXPECT_FALSE(is_less(ratio_of(b, b)));
}

TEST(Ratio, FewRoundsAndHolesSayNothing) {
  const std::vector<double> a{1, 1, 1, 1, kNone, kNone}, b(6, 2.0), zero(6, 0.0);
  EXPECT_FALSE(is_less(ratio_of(a, b))) << "four rounds";
  EXPECT_TRUE(std::isinf(ratio_of(a, b).high));
  EXPECT_FALSE(is_less(ratio_of({}, {})));
  EXPECT_EQ(ratio_of(b, zero).median, 1) << "a clock that stands still tells nothing";
  EXPECT_EQ(median_of(a), 1);
  EXPECT_EQ(median_of({}), 0);
}

TEST(Answers, AreKeptByTheirQuestion) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "answers.jsonl";
  std::filesystem::remove(path);
  const nlohmann::json question{{"a", 1}, {"b", "x"}}, same{{"b", "x"}, {"a", 1}};
  {
    auto answers = Answers::open(path.string());
    ASSERT_TRUE(answers.ok()) << answers.status();
    EXPECT_EQ((*answers)->find(question), nullptr);
    (*answers)->add(question, {{"ratio", 1}});
    (*answers)->add(question, {{"ratio", 2}});
    EXPECT_TRUE((*answers)->save().ok());
    EXPECT_TRUE((*answers)->save().ok()) << "nothing is written twice";
  }
  std::ofstream(path, std::ios::app) << "\n{\"question\": {\"c\": 1}, \"answer\": {}}";  // its end is not that of a line
  auto again = Answers::open(path.string());
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_NE((*again)->find(same), nullptr);
  EXPECT_EQ((*again)->find(same)->at("ratio"), 1) << "the first answer holds";
  (*again)->add({{"d", 1}}, nlohmann::json::object());
  EXPECT_TRUE((*again)->save().ok());
  const auto third = Answers::open(path.string());
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_NE((*third)->find({{"c", 1}}), nullptr);
  EXPECT_NE((*third)->find({{"d", 1}}), nullptr);
}

}  // namespace
}  // namespace saturate
