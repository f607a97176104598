// Models with operators that can't be run, compared in the parts around them.
#include "kernels/verify/parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/verify/verify.h"
#include "onnx_bridge/file/io.h"

namespace saturate {
namespace {

Model parsed_model(const std::string& text) {
  auto model = parse_model_text(text, "test");
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : Model();
}

Model around_model(const std::string& signature, const std::string& body, const std::string& functions = "") {
  return parsed_model("<ir_version: 8, opset_import: [\"\" : 18, \"own\" : 1, \"local\" : 1]>\ng " + signature + " {\n" + body + "\n}\n" +
                      functions);
}

const std::string kAroundSignature = "(float[n, 4] x) => (float[n, 4] y) <float[n, 4] m>";

bool has_note(const VerifyReport& report, const std::string& text) {
  return std::any_of(report.notes.begin(), report.notes.end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

TEST(Parts, WhatLiesAroundIsCompared) {
  const Model a = around_model(kAroundSignature, "t = Add (x, x)\nm = own.Mystery <k = 3> (t)\ns = Relu (m)\ny = Relu (s)");
  const Model b =
      around_model(kAroundSignature, "c = Constant <value_float = 2.0> ()\nd = Mul (x, c)\nm = own.Mystery <k = 3> (d)\ny = Relu (m)");
  const VerifyReport report = verify(a, b);
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_EQ(report.around, std::vector<std::string>{"own.Mystery"});
  EXPECT_TRUE(has_note(report, "verified in parts around own.Mystery: 2 of 2 values equal")) << report.notes.at(0);
}

TEST(Parts, ADifferenceBeforeItIsFound) {
  const Model a = around_model(kAroundSignature, "t = Add (x, x)\nm = own.Mystery (t)\ny = Relu (m)");
  const Model b = around_model(kAroundSignature, "t = Mul (x, x)\nm = own.Mystery (t)\ny = Relu (m)");
  const VerifyReport report = verify(a, b);
  EXPECT_EQ(report.status, VerifyStatus::kDifferent);
  EXPECT_NE(report.message.find("input 0 of own.Mystery"), std::string::npos) << report.message;
  EXPECT_TRUE(has_note(report, "1 of 2 values equal"));
}

TEST(Parts, ADifferenceBehindItIsFound) {
  const Model a = around_model(kAroundSignature, "m = own.Mystery (x)\ny = Relu (m)");
  const Model b = around_model(kAroundSignature, "m = own.Mystery (x)\ny = Neg (m)");
  const VerifyReport report = verify(a, b);
  EXPECT_EQ(report.status, VerifyStatus::kDifferent);
  EXPECT_NE(report.message.find("output 'y'"), std::string::npos) << report.message;
}

TEST(Parts, OtherOperatorsAreRefusedWithTheReason) {
  const Model a = around_model(kAroundSignature, "m = own.Mystery <k = 1> (x)\ny = Relu (m)");
  for (const char* other : {"m = own.Mystery <k = 2> (x)\ny = Relu (m)", "m = own.Mystery <k = 1> (x, x)\ny = Relu (m)", "y = Relu (x)",
                            "m = own.Other <k = 1> (x)\ny = Relu (m)"}) {
    const VerifyReport report = verify(a, around_model(kAroundSignature, other));
    EXPECT_EQ(report.status, VerifyStatus::kUnsupported) << other;
    EXPECT_NE(report.message.find("no kernel for"), std::string::npos) << report.message;
    EXPECT_NE(report.message.find("could the parts around it be compared: the o"), std::string::npos) << report.message;
  }
}

// As the e-graph makes one of two that read the same.
TEST(Parts, EqualOnesMayBecomeOne) {
  const Model a = around_model(kAroundSignature, "s = Relu (x)\nt = Relu (x)\nm = own.Mystery (s)\nk = own.Mystery (t)\ny = Add (m, k)");
  const Model b = around_model(kAroundSignature, "s = Relu (x)\nm = own.Mystery (s)\ny = Add (m, m)");
  for (const auto& [first, second] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    const VerifyReport report = verify(*first, *second);
    EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  }
  const Model c = around_model(kAroundSignature, "s = Relu (x)\nt = Neg (x)\nm = own.Mystery (s)\nk = own.Mystery (t)\ny = Add (m, k)");
  EXPECT_EQ(verify(c, b).status, VerifyStatus::kUnsupported);
}

// Two that draw are two, even if they read the same.
TEST(Parts, WhatReadsChanceIsNotMerged) {
  const Model a = around_model(
      kAroundSignature, "r = RandomNormalLike (x)\nq = RandomNormalLike (x)\nm = own.Mystery (r)\nk = own.Mystery (q)\ny = Sub (m, k)");
  const Model b = around_model(kAroundSignature, "r = RandomNormalLike (x)\nm = own.Mystery (r)\ny = Sub (m, m)");
  EXPECT_EQ(verify(a, b).status, VerifyStatus::kUnsupported);
}

TEST(Parts, OnesBehindEachOther) {
  const Model a = around_model(kAroundSignature, "m = own.Mystery (x)\ns = Add (m, m)\nk = own.Mystery (s)\ny = Relu (k)");
  const Model b = around_model(
      kAroundSignature,
      "other = own.Mystery (x)\nc = Constant <value_float = 2.0> ()\ns = Mul (other, c)\nanother = own.Mystery (s)\ny = Relu (another)");
  const VerifyReport report = verify(a, b);
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_TRUE(has_note(report, "3 of 3 values equal"));
  const Model wrong = around_model(kAroundSignature, "m = own.Mystery (x)\nk = own.Mystery (m)\ny = Relu (k)");
  EXPECT_EQ(verify(a, wrong).status, VerifyStatus::kDifferent);
}

TEST(Parts, TypesThatNobodyWritesAreThoseOfReaders) {
  const std::string signature = "(float[n, 4] x) => (float[n, 4] y)";
  const Model a = around_model(signature, "i, b = own.Split (x)\ng = Gather (x, i)\nw = Where (b, g, x)\ny = Relu (w)");
  const Model b = around_model(signature, "i, b = own.Split (x)\ng = Gather (x, i)\nr = Relu (g)\nq = Relu (x)\ny = Where (b, r, q)");
  const VerifyReport report = verify(a, b);
  EXPECT_TRUE(report.status == VerifyStatus::kEqual || report.status == VerifyStatus::kNotRun) << report.message;
  const absl::StatusOr<Parts> parts = cut_around_unknown(a, b);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->taken_for, (std::vector<std::string>{"'i' for int64", "'b' for bool"}));
  const Model floats = around_model(signature, "m = own.Mystery (x)\ny = Add (m, x)"),
              swapped = around_model(signature, "m = own.Mystery (x)\ny = Add (x, m)");
  const VerifyReport of_floats = verify(floats, swapped);
  EXPECT_EQ(of_floats.status, VerifyStatus::kEqual) << of_floats.message;
  EXPECT_TRUE(has_note(of_floats, "taken were 'm' for float"));
}

TEST(Parts, GivenInputsStay) {
  const Model a = around_model(kAroundSignature, "t = Add (x, x)\nm = own.Mystery (t)\ny = Relu (m)");
  const Model b = around_model(kAroundSignature, "t = Abs (x)\nu = Add (t, t)\nm = own.Mystery (u)\ny = Relu (m)");
  const std::vector<float> positive(12, 1.5f);
  VerifyOptions options;
  options.inputs = {{{"x", Tensor::of<float>(DType::kFloat, {3, 4}, std::span(positive))}}};
  const VerifyReport report = verify(a, b, options);
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  ASSERT_EQ(report.cases.size(), 1u);
  EXPECT_EQ(report.cases[0].outputs[0].elements, 12u);
  EXPECT_EQ(verify(a, b).status, VerifyStatus::kDifferent);
}

TEST(Parts, InABodyThereIsNoPart) {
  const Model a = around_model(
      "(float[n] x, bool c) => (float[n] y)",
      "y = If (c) <then_branch = t () => (float[n] p) { p = own.Mystery (x) }, else_branch = e () => (float[n] q) { q = Relu (x) }>");
  const VerifyReport report = verify(a, a);
  EXPECT_EQ(report.status, VerifyStatus::kUnsupported);
  EXPECT_NE(report.message.find("stands in the body of If"), std::string::npos) << report.message;
}

TEST(Parts, CallsOfFunctionsAreWrittenOut) {
  const std::string function =
      "<domain: \"local\", opset_import: [\"\" : 18, \"own\" : 1]>\nf (p) => (q) {\n r = Relu (p)\n s = own.Mystery (r)\n q = Neg (s)\n}\n";
  const Model a = around_model(kAroundSignature, "m = local.f (x)\ny = Add (m, m)", function);
  const Model b = around_model(kAroundSignature, "r = Relu (x)\ns = own.Mystery (r)\nm = Neg (s)\ny = Add (m, m)", function);
  const VerifyReport report = verify(a, b);
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  const Model c = around_model(kAroundSignature, "s = own.Mystery (x)\nm = Neg (s)\ny = Add (m, m)", function);
  EXPECT_EQ(verify(a, c).status, VerifyStatus::kDifferent);
}

}  // namespace
}  // namespace saturate
