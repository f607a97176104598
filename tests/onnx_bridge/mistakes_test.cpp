// What is said of names that nobody knows, and of files that are no models.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "onnx_bridge/file/foreign.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {
namespace {

TEST(Mistakes, NearestIsWhatAnotherMeant) {
  const std::vector<std::string> verbs{"optimize", "inspect", "verify", "run"};
  EXPECT_EQ(nearest("optimise", verbs), "optimize");
  EXPECT_EQ(nearest("INSPECT", verbs), "inspect");
  EXPECT_EQ(nearest("rnu", verbs), "");  // of three letters one may differ
  EXPECT_EQ(nearest("ru", verbs), "run");
  EXPECT_EQ(nearest("frobnicate", verbs), "");
  EXPECT_EQ(nearest("", verbs), "");
  EXPECT_EQ(nearest("Reluu", operator_names("")), "Relu");
  EXPECT_EQ(nearest("ab", {"ac", "aa"}), "aa");  // the first of those that are as near, whatever their order
  EXPECT_EQ(nearest("ab", {"aa", "ac"}), "aa");
}

TEST(Mistakes, WhatInsteadListsWhatIsShort) {
  EXPECT_EQ(what_instead("Batch", {"batch", "seq"}), "did you mean 'batch'? There are batch, seq");
  EXPECT_EQ(what_instead("foo", {"batch"}), "there is batch");
  EXPECT_EQ(what_instead("foo", {}), "there are none");
  const std::vector<std::string> all = operator_names("");
  ASSERT_GT(all.size(), 150u);
  EXPECT_EQ(what_instead("Reluu", all), "did you mean 'Relu'?");
  EXPECT_EQ(what_instead("Reluu", all, "`x` lists them"), "did you mean 'Relu'? `x` lists them");
  EXPECT_EQ(what_instead("zzzzzzzzz", all, "`x` lists them"), "`x` lists them");
}

TEST(Mistakes, UsageIsToldFromFiles) {
  EXPECT_TRUE(is_wrong_usage(wrong_usage("no such rule")));
  EXPECT_FALSE(is_wrong_usage(absl::InvalidArgumentError("no such rule")));
  EXPECT_FALSE(is_wrong_usage(absl::OkStatus()));
  EXPECT_TRUE(is_wrong_usage(no_name_or_file("measurd", "no such cost model")));
  EXPECT_FALSE(is_wrong_usage(no_name_or_file("mine.json", "no such cost model")));
  const absl::Status copy = wrong_usage("x");
  EXPECT_TRUE(is_wrong_usage(copy)) << "the mark goes with a copy";
}

TEST(Mistakes, ModelsAreNotForeign) {
  using namespace std::string_literals;
  EXPECT_EQ(foreign_format("\x08\x08\x12\x07pytorch\x3a\x10"s), "");
  EXPECT_EQ(foreign_format("\x08\x01\x12\x07pytorch\x3a\x10"s), "");  // IR version 1
  EXPECT_EQ(foreign_format("\x3a\x10\x0a\x04"s), "");
  EXPECT_EQ(foreign_format("<ir_version: 8, opset_import: [\"\" : 18]>\n"), "");
  EXPECT_EQ(foreign_format(""), "");
  EXPECT_NE(foreign_format("GGUF\3\0\0\0"s), "");
  EXPECT_NE(foreign_format("\x0a\x10\x0a\x01x\x12\x0bPlaceholder"s).find("TensorFlow"), std::string::npos);
  EXPECT_NE(foreign_format("\n  <!doctype HTML>"s).find("HTML"), std::string::npos);
}

}  // namespace
}  // namespace saturate
