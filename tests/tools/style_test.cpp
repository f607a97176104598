#include "tools/io/style.h"

#include <gtest/gtest.h>

#include "tools/io/sha256.h"
#include "tools/io/table.h"

namespace saturate {
namespace {

TEST(Style, LinesBreakAtSpaces) {
  EXPECT_EQ(wrapped("one two three", 7, 2), "one two\n  three");
  EXPECT_EQ(wrapped("  one two three", 9, 4), "  one two\n    three");
  EXPECT_EQ(wrapped("a-word-that-is-wider two", 8, 0), "a-word-that-is-wider\ntwo");
  EXPECT_EQ(wrapped("one\ntwo three", 9, 1), "one\ntwo three");
  EXPECT_EQ(wrapped("", 9, 1), "");
  EXPECT_EQ(wrapped("größe größe", 11, 0), "größe größe");
  EXPECT_EQ(wrapped_lines("  - one two three\nfour\n", 11), "  - one two\n     three\nfour\n");
}

TEST(Style, TheLastColumnOfATableGoesOnBelow) {
  const std::vector<std::vector<std::string>> rows{{"rule", "what"}, {"r", "one two three four five six seven eight"}};
  EXPECT_EQ(format_table(rows, 2, 32),
            "rule  what\n--------------------------------\nr     one two three four five\n      six seven eight\n");
  EXPECT_EQ(format_table(rows, 2), format_table(rows, 2, 100));
}

TEST(Style, ColoursAreAskedFor) {
  EXPECT_EQ(toned("text", Tone::kGood, {100, false}), "text");
  EXPECT_EQ(toned("text", Tone::kPlain, {100, true}), "text");
  EXPECT_NE(toned("text", Tone::kBad, {100, true}), toned("text", Tone::kGood, {100, true}));
}

TEST(Sha256, ExamplesOfTheStandard) {
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace saturate
