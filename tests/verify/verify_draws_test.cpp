// What verification draws, and what that shows.
#include <gtest/gtest.h>

#include <algorithm>

#include "fmt/format.h"
#include "kernels/verify/compare_case.h"
#include "kernels/verify/verify.h"
#include "onnx_bridge/file/io.h"

namespace saturate {
namespace {

Model model_of_draws(const std::string& text) {
  auto model = parse_model_text(text, "test");
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : Model();
}

Model model_of(const std::string& signature, const std::string& body) {
  return model_of_draws("<ir_version: 8, opset_import: [\"\" : 18]>\ng " + signature + " {\n" + body + "\n}\n");
}

VerifyStatus status_of_pair(const std::string& signature, const std::string& left, const std::string& right) {
  return verify(model_of(signature, left), model_of(signature, right)).status;
}

std::ptrdiff_t switched(const VerifyReport& report) { return std::ranges::count(report.cases, CaseKind::kSwitched, &VerifyCase::kind); }

TEST(VerifyDraws, FlagsOfOneElementAreOffToo) {
  const char* text =
      "y = If (c) <then_branch = t () => (float[n] u) {{ u = Neg (x) }}, else_branch = e () => (float[n] v) {{ v = {} (x) }}>";
  for (const char* flag : {"bool c", "bool[1] c"}) {
    const std::string signature = fmt::format("(float[n] x, {}) => (float[n] y)", flag);
    const Model a = model_of(signature, fmt::format(fmt::runtime(text), "Relu")),
                b = model_of(signature, fmt::format(fmt::runtime(text), "Abs"));
    EXPECT_EQ(verify(a, b).status, VerifyStatus::kDifferent) << flag;
    const VerifyReport same = verify(a, a);
    EXPECT_EQ(same.status, VerifyStatus::kEqual) << same.message;
    EXPECT_EQ(switched(same), 2);
  }
}

TEST(VerifyDraws, CountsOfOneElementGoBeyondOne) {
  const std::string signature = "(float[n] x, int64 k) => (float[n] y)";
  const Model turns = model_of(signature,
                               "t = Constant <value = bool {1}> ()\ny = Loop (k, t, x) <body = b (int64 i, bool g, float[n] h) => "
                               "(bool o, float[n] s) { o = Identity (g)\ns = Add (h, x) }>");
  EXPECT_EQ(verify(turns, model_of(signature, "y = Add (x, x)")).status, VerifyStatus::kDifferent);
}

// As tokens are padded on the left. In the usual cases no row of a mask begins with 0.
TEST(VerifyDraws, RowsOfMasksBeginWithZeros) {
  const std::string signature = "(float[b, s] x, int64[b, s] mask) => (float[b, s] y)", read = "m = Cast <to = 1> (mask)\n";
  const Model a = model_of(signature, read + "y = Mul (x, m)");
  const Model b =
      model_of(signature, read +
                              "one = Constant <value = float[1,1] {1}> ()\nz = Constant <value = int64[1] {0}> ()\n"
                              "n = Constant <value = int64[1] {1}> ()\nend = Constant <value = int64[1] {1000000}> ()\n"
                              "first = Slice (m, z, n, n)\nrest = Slice (m, n, end, n)\nz2 = Sub (one, one)\nzero = Mul (first, z2)\n"
                              "on = Add (zero, one)\nf = Concat <axis = 1> (on, rest)\ny = Mul (x, f)");
  EXPECT_EQ(verify(a, b).status, VerifyStatus::kDifferent);
}

// A model that takes no other flag is compared with the one that it takes.
TEST(VerifyDraws, FlagsThatTheOriginalRefusesAreLeftOut) {
  const Model a = model_of("(float[3] x, int64[1] k) => (float[m] y)", "y = Expand (x, k)");  // 2 is no size that 3 expands to
  const VerifyReport report = verify(a, a);
  EXPECT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_EQ(switched(report), 0);
}

TEST(VerifyDraws, DefaultsAreOverridden) {
  const std::string signature = "(float[n, 2] x, float[2] w = {0.0, 0.0}) => (float[n, 2] y)";
  EXPECT_EQ(status_of_pair(signature, "y = Add (x, w)", "y = Identity (x)"), VerifyStatus::kDifferent);
  EXPECT_EQ(status_of_pair(signature, "y = Add (x, w)", "y = Add (w, x)"), VerifyStatus::kEqual);
  const std::string axes = "(float[n, 2] x, int64[1] k = {0}) => (float[n, 2] y)";
  EXPECT_EQ(status_of_pair(axes, "y = CumSum (x, k)", "a = Constant <value_ints = [0]> ()\ny = CumSum (x, a)"), VerifyStatus::kDifferent);
  const std::string flag = "(float[n, 2] x, bool c = {1}) => (float[n, 2] y)";
  EXPECT_EQ(status_of_pair(flag, "z = Neg (x)\ny = Where (c, x, z)", "y = Identity (x)"), VerifyStatus::kDifferent);
}

// Before version 4 of the format every initializer is an input, which nobody gives.
TEST(VerifyDraws, DefaultsOfOldFilesAreConstants) {
  const auto of = [](const char* body) {
    return model_of_draws(fmt::format(
        "<ir_version: 3, opset_import: [\"\" : 8]>\ng (float[2] x, float[2] w = {{0.0, 0.0}}) => (float[2] y) {{ {} }}\n", body));
  };
  EXPECT_EQ(verify(of("y = Add (x, w)"), of("y = Identity (x)")).status, VerifyStatus::kEqual);
}

TEST(VerifyDraws, OptionalInputsAreAbsent) {
  const std::string signature = "(optional(float[2]) x) => (bool y)";
  EXPECT_EQ(status_of_pair(signature, "y = OptionalHasElement (x)", "y = Constant <value = bool {1}> ()"), VerifyStatus::kDifferent);
  EXPECT_EQ(status_of_pair(signature, "y = OptionalHasElement (x)", "y = OptionalHasElement (x)"), VerifyStatus::kEqual);
}

TEST(VerifyDraws, SequencesHaveOtherLengths) {
  const std::string signature = "(seq(float[2]) x) => (int64 y)";
  EXPECT_EQ(status_of_pair(signature, "y = SequenceLength (x)", "y = Constant <value_int = 2> ()"), VerifyStatus::kDifferent);
  EXPECT_EQ(status_of_pair(signature, "y = SequenceLength (x)", "y = SequenceLength (x)"), VerifyStatus::kEqual);
}

TEST(VerifyDraws, NumbersNearZeroShowEpsilons) {
  const std::string signature = "(float[n, m] x) => (float[n, m] y)", square = "p = Mul (x, x)\n";
  const std::string left = square + "e = Constant <value_float = 1e-10> ()\na = Add (p, e)\ny = Log (a)";
  EXPECT_EQ(status_of_pair(signature, left, square + "y = Log (p)"), VerifyStatus::kDifferent);
  EXPECT_EQ(status_of_pair(signature, left, left), VerifyStatus::kEqual);
}

// What a half elsewhere is rounded by excuses nothing of a float; nor do weights that are stored in half.
TEST(VerifyDraws, HalfExcusesWhatIsBehindIt) {
  const std::string factor = "c = Constant <value_float = 1.001> ()\n";
  const std::string beside = "h = Cast <to = 10> (x)\nz = Exp (h)\n";
  const std::string two = "(float[n, 4] x) => (float[n, 4] y, float16[n, 4] z)";
  EXPECT_EQ(status_of_pair(two, beside + "y = Relu (x)", beside + factor + "r = Relu (x)\ny = Mul (r, c)"), VerifyStatus::kDifferent);
  const std::string one = "(float[n, 2] x) => (float[n, 2] y)";
  const std::string stored = "w = Constant <value = float16[2, 2] {1.0, 2.0, 3.0, 4.0}> ()\nf = Cast <to = 1> (w)\n";
  EXPECT_EQ(status_of_pair(one, stored + "y = MatMul (x, f)", stored + factor + "m = MatMul (x, f)\ny = Mul (m, c)"),
            VerifyStatus::kDifferent);
  const std::string inside = "h = Cast <to = 10> (x)\ne = Exp (h)\n";
  EXPECT_EQ(status_of_pair(one, inside + "y = Cast <to = 1> (e)", inside + factor + "f = Cast <to = 1> (e)\ny = Mul (f, c)"),
            VerifyStatus::kEqual);
}

// Where a value is rounded to half and read as a float again, few elements may be rounded otherwise; all may not.
TEST(VerifyDraws, RoundingToHalfStays) {
  const std::string one = "(float[n, 64] x) => (float[n, 64] y)", a = "a = Constant <value_float = 1.7> ()\n",
                    b = "b = Constant <value_float = 2.3> ()\n", ab = "a = Constant <value_float = 3.91> ()\n";
  const std::string half = "h = Cast <to = 10> (m)\ny = Cast <to = 1> (h)";
  EXPECT_EQ(status_of_pair(one, ab + "m = Mul (x, a)\n" + half, a + b + "k = Mul (x, a)\nm = Mul (k, b)\n" + half), VerifyStatus::kEqual);
  EXPECT_EQ(status_of_pair(one, ab + "m = Mul (x, a)\n" + half, ab + "y = Mul (x, a)"), VerifyStatus::kDifferent);
}

TEST(VerifyDraws, LengthsThatInputsTell) {
  const Model a = model_of_draws(
      "<ir_version: 8, opset_import: [\"\" : 18, \"com.microsoft\" : 1]>\n"
      "g (float[b, s, 16] q, float[b, s, 8] k, float[b, s, 8] v, float[b, 1, p, 8] pk, float[b, 1, p, 8] pv, int32[b] lengths, int32 total)"
      " => (float[b, s, 16] y) {\n"
      "y, nk, nv = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1> (q, k, v, pk, pv, lengths, total)\n}");
  const VerifyReport report = verify(a, a);
  ASSERT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_GE(report.cases.size(), 3u);
}

// Sizes hang on an integer, as in a model of speech that takes two rates; a window says the least size.
TEST(VerifyDraws, IntegersThatTheModelAsksForAndSizesOfWindows) {
  const auto rates = [](const std::string& slow) {
    return model_of(
        "(float[b, n] x, int64 rate) => (float[b, c, t] y)",
        "k = Constant <value_int = 16000> ()\nis = Equal (rate, k)\none = Constant <value_ints = [1]> ()\nu = Unsqueeze (x, one)\n"
        "fw = Constant <value_ints = [1, 1, 256]> ()\nsw = Constant <value_ints = [1, 1, 128]> ()\n"
        "y = If (is) <then_branch = f () => (float[b1, c1, t1] a) { w = ConstantOfShape <value = float[1] {0.1}> (fw) a = Conv "
        "<kernel_shape = [256]> (u, w) }, else_branch = s () => (float[b2, c2, t2] o) { w2 = ConstantOfShape <value = float[1] " +
            slow + "> (sw) o = Conv <kernel_shape = [128]> (u, w2) }>");
  };
  const Model a = rates("{0.2}");
  const VerifyReport report = verify(a, a);
  ASSERT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_EQ(verify(a, rates("{0.3}")).status, VerifyStatus::kDifferent);
}

TEST(VerifyDraws, WhereAllIsNanSmallerNumbersAreDrawn) {
  const auto grown = [](const std::string& factor) {
    return model_of("(float[n, 4] x) => (float[n, 1] y)",
                    "c = Constant <value_float = 100.0> ()\nh = Constant <value_float = " + factor +
                        "> ()\nl = Constant <value_ints = [-1]> ()\nq = Abs (x)\na = Mul (q, c)\ne = Exp (a)\nf = Exp (e)\ng = Exp (f)\n"
                        "s = ReduceSum (g, l)\nt = Mul (s, h)\ny = Sub (s, t)");
  };
  const VerifyReport report = verify(grown("0.5"), grown("0.5"));
  ASSERT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_TRUE(std::any_of(report.cases.begin(), report.cases.end(), [](const VerifyCase& c) { return c.outputs[0].finite > 0; }));
  EXPECT_EQ(verify(grown("0.5"), grown("0.6")).status, VerifyStatus::kDifferent);
}

// Below 1 Acosh is NaN, and so is a symmetric window of one place.
TEST(VerifyDraws, WhereAllIsNanLargerNumbersAreDrawn) {
  const auto status = [](const std::string& signature, const std::string& text, const std::string& other) {
    const VerifyReport report = verify(model_of(signature, text), model_of(signature, text));
    EXPECT_EQ(report.status, VerifyStatus::kEqual) << text << report.message;
    return verify(model_of(signature, text), model_of(signature, other)).status;
  };
  const std::string chain = "a = Sub (x, big)\nb = Add (a, big)\n", big = "big = Constant <value_float = 0.5> ()\n";
  EXPECT_EQ(status("(float[1] x) => (float[1] y)", big + chain + "y = Acosh (b)", big + "y = Acosh (big)"), VerifyStatus::kDifferent);
  EXPECT_EQ(status("(int32 x) => (float[n] y)", "y = HannWindow <periodic = 0> (x)", "y = HammingWindow <periodic = 0> (x)"),
            VerifyStatus::kDifferent);
}

// Others were refused, or left the result empty.
TEST(VerifyDraws, SizesOfOperatorsFitTheDeclaredShapes) {
  struct Row {
    const char *signature, *text;
  };
  const Row rows[] = {
      {"(float[2, 12] x, int64[3] s) => (float[4, 2, 3] y)", "z = Reshape (x, s)"},
      {"(float[n, 12] x, int64[2] s) => (float[12, n] y)", "z = Reshape (x, s)"},
      {"(float[2, 1] x, int64[3] s) => (float[5, 2, 7] y)", "z = Expand (x, s)"},
      {"(int64[2] s, float[3, 4] x) => (float[3, 4] y)", "c = ConstantOfShape (s)\nz = Add (c, x)"},
      {"(float[1, 1, 4, 4] x, float[4] s) => (float[1, 1, 2, 6] y)", "z = Resize <mode = \"linear\"> (x, , s)"},
      {"(float[1, 1, 4, 4] x, int64[2] s) => (float[1, 1, 8, 3] y)", "z = Resize <mode = \"linear\", axes = [2, 3]> (x, , , s)"},
      {"(float[1, 4, 5] x, int64[2] s) => (float[1, 3, 8] y)", "z = CenterCropPad <axes = [-2, -1]> (x, s)"},
      {"(float[2, 3] x, int64[2] s) => (float[4, 9] y)", "z = Tile (x, s)"},
      {"(float[7, 2] x, int64[2] s) => (float[3, 2] y, float[4, 2] w)", "z, v = Split (x, s)\nw = Neg (v)"},
      {"(float[7, 2] x, int64[3] s) => (seq(float[?, 2]) q, float[7, 2] y)", "q = SplitToSequence (x, s)\nz = Neg (x)"},
      {"(float[8, 9] x, int64[2] b, int64[2] e, int64[2] a, int64[2] t) => (float[3, 5] y)", "z = Slice (x, b, e, a, t)"},
      {"(float[3, 9] x, int64[1] k) => (float[3, 4] y)", "z, i = TopK (x, k)"},
      {"(int64[3] x, int64 d, float[2] v) => (float[3, 6] y)", "z = OneHot (x, d, v)"},
      {"(float[1, 2, 3] x, int64[4] s) => (float[1, 5, 6, 2] y)", "z = AffineGrid (x, s)"},
  };
  for (const auto& [signature, text] : rows) {
    const auto ends = [&](const char* end) {
      return model_of_draws(fmt::format("<ir_version: 9, opset_import: [\"\" : 20]>\ng {} {{\n{}\ny = {} (z)\n}}\n", signature, text, end));
    };
    const VerifyReport report = verify(ends("Sin"), ends("Sin"));
    EXPECT_EQ(report.status, VerifyStatus::kEqual) << text << ": " << report.message;
    EXPECT_EQ(verify(ends("Sin"), ends("Cos")).status, VerifyStatus::kDifferent) << text;
  }
}

TEST(VerifyDraws, WhatOverflowsIsComparedOnTheWay) {
  const auto grown = [](const std::string& end) {
    return model_of("(float[n, 4] x) => (float[n, 4] y)",
                    "c = Constant <value_float = 1e38> ()\na = Mul (x, c)\nb = Mul (a, c)\nd = Sub (b, b)\n" + end);
  };
  const VerifyReport report = verify(grown("y = Sinh (d)"), grown("y = Sinh (d)"));
  ASSERT_EQ(report.status, VerifyStatus::kEqual) << report.message;
  EXPECT_NE(report.notes.back().find("on the way"), std::string::npos) << report.notes.back();
  EXPECT_EQ(verify(grown("y = Sinh (d)"), grown("y = Cosh (d)")).status, VerifyStatus::kDifferent);
  const Model hidden = model_of("(float[n, 4] x) => (float[n, 4] y)", "z = Sub (x, x)\ny = Div (z, z)");
  const Model other = model_of("(float[n, 4] x) => (float[n, 4] y)", "w = Sub (x, x)\ny = Div (w, w)");
  EXPECT_NE(verify(hidden, other).status, VerifyStatus::kDifferent);
}

TEST(VerifyDraws, TheFirstCaseMayTakeLonger) {
  const Model a = model_of("(float[n] x) => (float[n] y)", "y = Relu (x)");
  VerifyOptions options;
  options.seconds = 1;
  const VerifyRun run(a, a, options);
  EXPECT_NEAR(run.limits(CaseKind::kUsual, true).deadline - run.started, 1, 1e-6);
  EXPECT_NEAR(run.limits(CaseKind::kUsual, false).deadline - run.started, kTimesForFirstCase, 1e-6);
}

TEST(VerifyDraws, ATimeThatIsGivenBoundsTheFirstCaseToo) {
  const Model a = model_of("(float[n] x) => (float[n] y)", "y = Relu (x)");
  VerifyOptions options;
  options.seconds = 2;
  options.ends_in_time = true;
  const VerifyRun run(a, a, options);
  EXPECT_NEAR(run.seconds(true, true), 2, 1e-6);
  EXPECT_NEAR(run.seconds(false, false), 2, 1e-6);
  EXPECT_NEAR(run.seconds(false, true), 1, 1e-6);  // the rest is kept for the smaller case
}

TEST(VerifyDraws, ManyNotesOfOneKindAreOneLine) {
  VerifyNotes notes;
  for (const char* name : {"a", "b", "c", "d", "a"}) {
    OutputComparison o;
    o.name = name;
    o.max_abs = name[0] == 'c' ? 0.5 : 0.25;
    notes.allow(o, CaseKind::kFar, "by rounding");
  }
  ASSERT_EQ(notes.lines().size(), 1u);
  EXPECT_EQ(notes.lines()[0], "4 outputs, 'c' most of all, differ by up to 5.00e-01 (far from 0) by rounding");
}

}  // namespace
}  // namespace saturate
