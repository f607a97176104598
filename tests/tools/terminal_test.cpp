#include "tools/io/terminal.h"

#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace saturate {
namespace {

TEST(Terminal, TextStaysText) {
  EXPECT_EQ(printable("plain\ttext\n"), "plain\ttext\n");
  EXPECT_EQ(printable("gr\xc3\xb6\xc3\x9f"
                      "er \xe2\x89\xa4 \xf0\x9f\x98\x80"),
            "gr\xc3\xb6\xc3\x9f"
            "er \xe2\x89\xa4 \xf0\x9f\x98\x80");
}

TEST(Terminal, WhatMovesTheCursorIsSpelledOut) {
  EXPECT_EQ(printable("\x1b[31m\x07\x08\r\x7f"), "\\x1b[31m\\x07\\x08\\x0d\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"), "\\x9b");  // CSI as one character
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "abc"),
            "\\u202eabc");                                                   // right to left
  EXPECT_EQ(printable("a\xe2\x80\xa8z\xe2\x80\xa9z"), "a\\u2028z\\u2029z");  // ends of lines that readers of lines do not see
  const nlohmann::json json{{"a\xe2\x80\xa8z", "\xc2\x9b\xe2\x80\xae\x7f"}};
  EXPECT_EQ(json_text(json, -1), R"({"a\u2028z":"\u009b\u202e\u007f"})");
  EXPECT_EQ(nlohmann::json::parse(json_text(json)), json);
}

TEST(Terminal, BytesThatAreNoText) {
  EXPECT_EQ(printable("\xff\xc0\xaf\xed\xa0\x80\xe2\x82"), "\\xff\\xc0\\xaf\\xed\\xa0\\x80\\xe2\\x82");
  const nlohmann::json json{{"name", "f\xfcr"}};
  EXPECT_EQ(nlohmann::json::parse(json_text(json))["name"], "f\xef\xbf\xbdr");
}

}  // namespace
}  // namespace saturate
