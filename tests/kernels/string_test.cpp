#include "kernel_test_util.h"

namespace saturate::test {
namespace {

bool matches(const std::string& pattern, const std::string& text) {
  const Tensor y = eval({"RegexFullMatch", "", 20, {Attribute::of("pattern", pattern)}}, {Tensor::strings({1}, {text})});
  return y.size() == 1 && y.data<bool>()[0];
}

TEST(String, RegexSyntax) {
  EXPECT_TRUE(matches("a|bc*", "bccc"));
  EXPECT_FALSE(matches("a|bc*", "ac"));
  EXPECT_TRUE(matches("(ab){2,3}", "ababab"));
  EXPECT_FALSE(matches("(ab){2,3}", "ab"));
  EXPECT_TRUE(matches("[^a-c\\d]+", "xyz"));
  EXPECT_FALSE(matches("[^a-c\\d]+", "xy1"));
  EXPECT_TRUE(matches("[]-]x?", "]"));
  EXPECT_TRUE(matches("\\w+\\b", "word"));
  EXPECT_FALSE(matches("a\\Bb\\b.", "ab"));
  EXPECT_TRUE(matches("(?i)StraSSe", "sTRAsse"));
  EXPECT_FALSE(matches("a.b", "a\nb"));
  EXPECT_TRUE(matches("(?s:a.b)", "a\nb"));
  EXPECT_TRUE(matches("\\x{e4}.", "\xc3\xa4\xc3\xb6"));
  EXPECT_TRUE(matches("(?P<year>[[:digit:]]{4})-\\d\\d", "2026-11"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_TRUE(matches("a{,2}", "a{,2}"));
  EXPECT_TRUE(matches("\\pL+", "a\xc3\xa4"));  // classes of Unicode
  EXPECT_FALSE(matches("\\pL", "1"));
  EXPECT_TRUE(matches("(?U)a+|b", "aaa"));
  EXPECT_FALSE(matches(".", "\xff"));  // no UTF-8
}

TEST(String, RegexCannotHang) {
  EXPECT_FALSE(matches("(a*)*b", std::string(5000, 'a')));
  EXPECT_FALSE(matches("(a|aa)+$b", std::string(5000, 'a')));
  const auto pattern = [](std::string p) {
    return run({"RegexFullMatch", "", 20, {Attribute::of("pattern", std::move(p))}}, {Tensor::strings({1}, {"a"})});
  };
  EXPECT_FALSE(pattern("((a{1000}){1000}){1000}").ok());
  EXPECT_FALSE(pattern(std::string(100000, '(')).ok());
  EXPECT_FALSE(pattern("a**********").ok());
  for (const char* bad : {"(", ")", "[a", "*a", "a\\", "[z-a]", "(?=a)", "\\pQ", "a{2,1}"}) EXPECT_FALSE(pattern(bad).ok()) << bad;
}

TEST(String, SplitByWhitespaceAndDelimiter) {
  const auto split = [](Call call, const std::string& text) {
    call.outputs = 2;
    const auto out = run(call, {Tensor::strings({1}, {text})});
    EXPECT_TRUE(out.ok());
    const auto parts = (*out)[0].tensor().string_data();
    return std::vector<std::string>(parts.begin(), parts.end());
  };
  using Parts = std::vector<std::string>;
  EXPECT_EQ(split({"StringSplit", "", 20}, "  a  b "), (Parts{"a", "b"}));
  EXPECT_EQ(split({"StringSplit", "", 20, {Attribute::of("delimiter", std::string(","))}}, "a,,b"), (Parts{"a", "", "b"}));
  EXPECT_EQ(
      split({"StringSplit", "", 20, {Attribute::of("delimiter", std::string(",")), Attribute::of("maxsplit", std::int64_t{1})}}, "a,b,c"),
      (Parts{"a", "b,c"}));
  EXPECT_EQ(eval({"StringSplit", "", 20, {}, 2}, {Tensor::strings({0}, {})}).dims(), (Shape{0, 0}));
}

TEST(String, NormalizerDropsStopwords) {
  const Call call{
      "StringNormalizer",
      "",
      10,
      {Attribute::of("case_change_action", std::string("UPPER")), Attribute::of("stopwords", std::vector<std::string>{"MONDAY"})}};
  EXPECT_TRUE(identical(eval(call, {Tensor::strings({3}, {"monday", "\xc3\xa4pfel", "x"})}), Tensor::strings({2}, {"\xc3\x84PFEL", "X"})));
  EXPECT_TRUE(identical(eval(call, {Tensor::strings({1, 1}, {"Monday"})}), Tensor::strings({1, 1}, {""})));
}

TEST(String, TfIdfSkips) {
  const auto list = [](const char* name, std::vector<std::int64_t> v) { return Attribute::of(name, std::move(v)); };
  const Call call{"TfIdfVectorizer",
                  "",
                  9,
                  {Attribute::of("mode", std::string("TF")), Attribute::of("min_gram_length", std::int64_t{1}),
                   Attribute::of("max_gram_length", std::int64_t{2}), Attribute::of("max_skip_count", std::int64_t{1}),
                   list("ngram_counts", {0, 1}), list("ngram_indexes", {1, 0}), list("pool_int64s", {5, 5, 6})}};
  expect_near(eval(call, {ints({4}, {5, 7, 6, 5})}), floats({2}, {1, 2}));  // "5 . 6" with one skipped; 5 twice
}

}  // namespace
}  // namespace saturate::test
