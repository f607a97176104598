#include "rules/check/check.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "fmt/format.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/file/io.h"
#include "rules/check/check_run.h"

namespace saturate {
namespace {

class CheckRules : public testing::Test {
 protected:
  RuleCheck check(std::string_view text) {
    const auto file = parse_rules(text, "t.rules");
    EXPECT_TRUE(file.ok()) << file.status().message();
    return file.ok() ? check_by_running(file->rules[0], *evaluator_) : RuleCheck{};
  }
  // Whether a finding of this severity says this.
  static bool says(const RuleCheck& c, RuleFinding::Severity severity, std::string_view what) {
    for (const RuleFinding& f : c.findings)
      if (f.severity == severity && f.what.find(what) != std::string::npos) return true;
    return false;
  }
  static constexpr auto kError = RuleFinding::Severity::kError;
  static constexpr auto kWarning = RuleFinding::Severity::kWarning;
  std::unique_ptr<Evaluator> evaluator_ = make_evaluator();
};

TEST_F(CheckRules, ATrueRulePasses) {
  const RuleCheck c = check(R"(rule r (X, c) => (Y) { Y = Add (X, c) } where all_zeros(c), broadcasts_to(c, X) => { Y = Identity (X) }
    example X = float[2,3,5], c = float[3,1] {0}
    counterexample X = float[3,1], c = float[2,3,5] {0}
    counterexample X = float[2,3], c = float[] {0.5})");
  EXPECT_TRUE(c.findings.empty()) << to_string(c);
  EXPECT_EQ(c.counterexamples, 2);
  EXPECT_GT(c.random_instances, 10);
}

TEST_F(CheckRules, AWrongConstantIsFound) {
  const RuleCheck c =
      check("rule r (X) => (Y) { Y = Neg (X) } => { c = Constant <value_float = -1.01> () Y = Mul (X, c) } example X = float[2,3]");
  EXPECT_TRUE(says(c, kError, "the sides differ")) << to_string(c);
}

TEST_F(CheckRules, AMissingGuardIsFoundByRandomInstances) {
  // True for floats, false for integers, which the example does not show.
  const RuleCheck c = check(
      "rule r (X, Z) => (Y) { D = Div (X, Z) Y = Mul (D, Z) } => { Y = Identity (X) } effect reassociates example X = float[3], Z = "
      "float[] {3}");
  EXPECT_TRUE(says(c, kError, "int")) << to_string(c);
}

TEST_F(CheckRules, ARuleThatRescalesMovesIntegersByAStepAndFloatsByLittle) {
  const std::string quantized = R"(rule r (X, c) => (Y) effect rescales QuantizeLinear (X, c) where const(c), wide_float(c)
    => QuantizeLinear (X, Mul (c, {})) example X = float[50] {{200}}, c = float[] {{1}})";
  EXPECT_TRUE(check(fmt::format(fmt::runtime(quantized), 1.004)).ok());
  EXPECT_TRUE(says(check(fmt::format(fmt::runtime(quantized), 1.02)), kError, "the sides differ"));
  const std::string floats = R"(rule r (X, c) => (Y) effect rescales DequantizeLinear (X, c) where const(c), wide_float(c)
    => DequantizeLinear (X, Mul (c, {})) example X = uint8[50] {{200}}, c = float[] {{1}})";
  EXPECT_TRUE(check(fmt::format(fmt::runtime(floats), "1.000002")).ok());
  EXPECT_TRUE(says(check(fmt::format(fmt::runtime(floats), "1.0001")), kError, "the sides differ"));
}

TEST_F(CheckRules, FloatsThatAnExampleWritesAreDrawnToo) {
  // True of the numbers that are written, false of -0.
  const RuleCheck c = check(R"(rule r (X) => (Y) effect reassociates
    Sqrt (Reciprocal (X)) => Reciprocal (Sqrt (X))
    example X = float[4] {0.25, 2, 3, 5})");
  EXPECT_TRUE(says(c, kError, "the sides differ")) << to_string(c);
}

TEST_F(CheckRules, IntegersAreOddNegativeAndAtTheirEnds) {
  const RuleCheck means = check(R"(rule r (X, a, b) => (Y) { S = ReduceMean <keepdims = 1> (X, a) Y = ReduceMean <keepdims = 1> (S, b) }
    => { T = ReduceMean <keepdims = 1> (X, b) Y = ReduceMean <keepdims = 1> (T, a) } effect reassociates
    example X = float[3,5], a = int64[1] {0}, b = int64[1] {1})");
  EXPECT_TRUE(says(means, kError, "int")) << to_string(means);
  const RuleCheck squares = check(R"(rule r (X) => (Y) { S = Mul (X, X) Y = Relu (S) } => { Y = Identity (S) } example X = float[3,5])");
  EXPECT_TRUE(says(squares, kError, "int")) << to_string(squares);
}

TEST_F(CheckRules, EveryTypeIsDrawn) {
  const auto file = parse_rules("rule r (X) => (Y) { Y = Mul (X, X) } => { Y = Mul (X, X) } example X = float[3]", "t.rules");
  ASSERT_TRUE(file.ok());
  std::mt19937_64 random(1);
  std::set<DType> drawn;
  for (const Instance& i : random_instances(file->rules[0], file->rules[0].examples[0], 24, random))
    for (const auto& [name, tensor] : i.tensors) drawn.insert(tensor.dtype());
  EXPECT_EQ(drawn.size(), 19u);
  // True but for int16, which the example does not show.
  const RuleCheck c = check(R"(rule r (X) => (Y) { S = Mul (X, X) Y = Relu (S) } where float(X) or dtype(X) == int16
    => { Y = Identity (S) } example X = float[50])");
  EXPECT_TRUE(says(c, kError, "int16")) << to_string(c);
}

TEST_F(CheckRules, IntegersOf64BitsDifferInTheirLastDigit) {
  const RuleCheck ends = check(R"(rule r (X, Z) => (Y) { Y = Add (X, Z) } where dtype(X) == int64
    => { x = Cast <to: int = 11> (X) z = Cast <to: int = 11> (Z) A = Add (x, z) Y = Cast <to: int = 7> (A) }
    example X = int64[2], Z = int64[2]
    example X = int64[2] {9007199254740993, 1}, Z = int64[2] {0})");
  EXPECT_TRUE(says(ends, kError, "int64")) << to_string(ends);
}

TEST_F(CheckRules, ExactFloatsAreComparedBitForBit) {
  const RuleCheck c = check(R"(rule r (X) => (Y) { Y = Sqrt (X) } => { d = Constant <value_float = 0.5> () Y = Pow (X, d) }
    example X = float[3] {1, 4, 9})");
  EXPECT_TRUE(c.ok()) << to_string(c);
  const RuleCheck thirds = check(R"(rule r (X) => (Y) { t = Constant <value_float = 3.0> () Y = Div (X, t) } where float(X)
    => { t = Constant <value_float = 3.0> () r = Reciprocal (t) Y = Mul (X, r) } example X = float[50])");
  EXPECT_TRUE(says(thirds, kError, "differ")) << to_string(thirds);
}

TEST_F(CheckRules, ARuleThatMakesCancellationIsFound) {
  constexpr std::string_view by_deviations = R"({ m = ReduceMean <keepdims: int = 1> (X, axes) D = Sub (X, m) S = Mul (D, D)
    Y = ReduceMean <keepdims: int = 1> (S, axes) })";
  constexpr std::string_view by_squares = R"({ S = Mul (X, X) E = ReduceMean <keepdims: int = 1> (S, axes)
    m = ReduceMean <keepdims: int = 1> (X, axes) Q = Mul (m, m) Y = Sub (E, Q) })";
  const auto rule = [](std::string_view left, std::string_view arrow, std::string_view right) {
    return fmt::format("rule r (X, axes) => (Y) {} where const(axes), float(X) {} {} effect reassociates ", left, arrow, right) +
           "example X = float[2,3,50], axes = int64[1] {-1}";
  };
  const RuleCheck good = check(rule(by_squares, "=>", by_deviations)), bad = check(rule(by_deviations, "=>", by_squares)),
                  back = check(rule(by_squares, "<=>", by_deviations));
  EXPECT_TRUE(good.ok()) << to_string(good);
  EXPECT_GT(good.rounded, 0);
  EXPECT_TRUE(says(bad, kError, "rounds worse than 16 eps M")) << to_string(bad);
  EXPECT_TRUE(says(back, kError, "rounds worse than 16 eps M")) << to_string(back);
}

TEST_F(CheckRules, ARuleThatNeedsMoreRoundingSaysSo) {
  constexpr std::string_view rule = R"(rule r (X) => (Y) { t = Constant <value_float = 3.0> () Y = Mul (X, t) } where dtype(X) == float
    => { b = Constant <value_float = 128.0> () B = Mul (X, b) c = Constant <value_float = 125.0> () C = Mul (X, c) Y = Sub (B, C) }
    effect reassociates )";
  EXPECT_TRUE(says(check(std::string(rule) + "example X = float[500]"), kError, "rounds worse"));
  EXPECT_TRUE(check(std::string(rule) + "rounding 100 example X = float[500]").ok());
}

TEST_F(CheckRules, AnotherRealNumberIsFoundThoughFloatIsNear) {
  const RuleCheck c = check(R"(rule r (X) => (Y) { Y = Add (X, X) } where float(X) let c = 2.0000001 => { Y = Mul (X, c) }
    effect reassociates example X = float[50])");
  EXPECT_TRUE(says(c, kError, "not the same real number")) << to_string(c);
}

TEST_F(CheckRules, AttributesAreOdd) {
  const RuleCheck c = check(R"(rule r <k> (X, a) => (Y) { S = ReduceSum <keepdims = 1> (X, a) Y = ReduceMean <keepdims = @k> (S, a) }
    => { Y = Identity (S) } effect reassociates example X = float[3,5], a = int64[1] {1}, k = 1)");
  EXPECT_TRUE(says(c, kError, "dims")) << to_string(c);
}

TEST_F(CheckRules, HalvesWithoutALastAxisAreRefused) {
  const RuleCheck c = check(R"(rule r (X, c, s) => (Y) { Y = saturate.rope <interleaved: int = 1> (X, c, s) } where rank(c) >= 2
    let t = shape(c)[1:] => { f = Reshape (c, t) g = Reshape (s, t) Y = saturate.rope <interleaved: int = 1> (X, f, g) }
    example X = float[3,4], c = float[1,2], s = float[1,2]
    counterexample X = float[3,2], c = float[1], s = float[1])");
  EXPECT_EQ(c.counterexamples, 1) << to_string(c);
}

TEST_F(CheckRules, AMissingShapeGuardIsFound) {
  const RuleCheck c = check(
      "rule r (X, c) => (Y) { Y = Add (X, c) } where all_zeros(c) => { Y = Identity (X) } example X = float[2,3,5], c = float[3,1] {0}");
  EXPECT_TRUE(says(c, kError, "dims")) << to_string(c);
}

TEST_F(CheckRules, GuardsNeedCounterexamples) {
  const RuleCheck c = check(
      "rule r (X, c) => (Y) { Y = Add (X, c) } where all_zeros(c), broadcasts_to(c, X) => { Y = Identity (X) } example X = float[2,3,5], c "
      "= "
      "float[3,1] {0}");
  EXPECT_TRUE(c.ok());
  EXPECT_TRUE(says(c, kWarning, "`all_zeros(c)`"));
  EXPECT_TRUE(says(c, kWarning, "`broadcasts_to(c, X)`"));
}

TEST_F(CheckRules, EachPartOfAGuardNeedsACounterexample) {
  const RuleCheck c = check(
      "rule r (X, c) => (Y) { Y = Add (X, c) } where all_zeros(c) and broadcasts_to(c, X) => { Y = Identity (X) } example X = "
      "float[2,3,5], c = "
      "float[3,1] {0} counterexample X = float[2,3], c = float[] {0.5}");
  EXPECT_EQ(c.guards, 2);
  EXPECT_EQ(c.needed, 1);
  EXPECT_TRUE(says(c, kWarning, "`broadcasts_to(c, X)`")) << to_string(c);
}

TEST_F(CheckRules, ACounterexampleThatRunsNowhereShowsNoGuard) {
  // Without its guard the rule would not be built: no counterexample can need it.
  const RuleCheck c = check("rule r (X) => (Y) { Y = Neg (X) } where float(X) => { Y = Sigmoid (X) } counterexample X = int32[3]");
  EXPECT_EQ(c.guards, 1);
  EXPECT_EQ(c.needed, 0) << to_string(c);
}

TEST_F(CheckRules, ATruthInUsefulIsFound) {
  const RuleCheck c = check(
      "rule r (X) => (Y) { Y = Relu (X) } where useful(float(X) and rank(X) == 1) => { Z = Abs (X) S = Add (X, Z) h = Constant "
      "<value_float = 2.0> () Y = Div (S, h) } effect reassociates example X = float[3]");
  EXPECT_TRUE(says(c, kWarning, "`useful(float(X))` is more than useful")) << to_string(c);
  EXPECT_FALSE(says(c, kWarning, "`useful(rank(X) == 1)` is more")) << to_string(c);
}

TEST_F(CheckRules, ACounterexampleMustShowSomething) {
  const RuleCheck holds = check(
      "rule r (X) => (Y) { Y = Neg (X) } where float(X) => { c = Constant <value_float = -1.0> () Y = Mul (X, c) } example X = float[2] "
      "counterexample X = float[3]");
  EXPECT_TRUE(says(holds, kError, "every guard holds"));
  const RuleCheck same = check(
      "rule r (X) => (Y) { Y = Neg (X) } where float(X) => { c = Constant <value_float = -1.0> () Y = Mul (X, c) } example X = float[2] "
      "counterexample X = int32[3]");
  EXPECT_TRUE(says(same, kError, "do not differ"));
}

TEST_F(CheckRules, AWeakExampleLetsAMutantLive) {
  constexpr std::string_view rule =
      "rule r <p, q> (X) => (Y) { T = Transpose <perm = @p> (X) Y = Transpose <perm = @q> (T) } let r = compose(p, q) => { Y = Transpose "
      "<perm = @r> (X) } ";
  EXPECT_TRUE(check(std::string(rule) + "example X = float[2,3,5,7], p = [1,2,0,3], q = [3,0,1,2]").findings.empty());
  const RuleCheck swapped =
      check("rule r (A, B) => (Y) { N = Neg (B) Y = Add (A, N) } => { Y = Sub (A, B) } example A = float[2] {0}, B = float[2] {0}");
  EXPECT_TRUE(says(swapped, kWarning, "swapped")) << to_string(swapped);
}

TEST_F(CheckRules, AFillOfHiddenScoresHidesNoMutant) {
  // Beside 1e9 the other elements of Y are nothing: which of them is which must matter all the same.
  const RuleCheck c = check(R"(rule r (C, S, f, N) => (Y) { W = Where (C, S, f) Y = Add (W, N) } where const(f), item(f) <= -10000
    => { T = Sub (S, S) Y = Where (C, T, f) } effect reassociates
    example C = bool[7] {1, 0, 1, 1, 1, 1, 1}, S = float[5,7], f = float[] {-1e9}, N = float[5,7] {0})");
  EXPECT_TRUE(says(c, kError, "the sides differ")) << to_string(c);
}

TEST_F(CheckRules, AnOptionalInputNeedsExamplesWithAndWithoutIt) {
  const char* rule = "rule r (X, l?) => (Y) { N = Neg (X) M = Neg (N) Y = Clip (M, l) } => { Y = Clip (X, l) } ";
  EXPECT_TRUE(says(check(std::string(rule) + "example X = float[4]"), kWarning, "in no example"));
  EXPECT_TRUE(says(check(std::string(rule) + "example X = float[4], l = float[] {0.5}"), kWarning, "in every example"));
  EXPECT_TRUE(check(std::string(rule) + "example X = float[4], l = float[] {0.5} example X = float[4]").findings.empty());
}

TEST_F(CheckRules, AnExactRuleMustBeExact) {
  const RuleCheck c = check(
      "rule r (X, c) => (Y) { Y = Div (X, c) } where const(c), float(X) => { r = Reciprocal (c) Y = Mul (X, r) } example X = float[50], c "
      "= float[] {3}");
  EXPECT_TRUE(says(c, kError, "said to be exact")) << to_string(c);
}

TEST_F(CheckRules, AStepIsAllowedOnTheStatedShareAlone) {
  // The right side quantizes with a scale that is larger by a hundredth: a part of the integers moves by a step.
  const auto rule = [](std::string_view share) {
    return fmt::format(R"(rule r (X, c) => (Y) effect within_one_step {} QuantizeLinear (X, c) where size(c) == 1
      let d = scalar_like(item(c) * 1.01, c) => QuantizeLinear (X, d)
      example X = float[40,40], c = float[] {{0.1}}
      counterexample X = float[4,2], c = float[2] {{0.1}})",
                       share);
  };
  EXPECT_TRUE(says(check(rule("0.001")), kError, "elements")) << to_string(check(rule("0.001")));
  EXPECT_TRUE(says(check(rule("")), kError, "elements")) << to_string(check(rule("")));
  EXPECT_FALSE(says(check(rule("0.9")), kError, "elements")) << to_string(check(rule("0.9")));
}

TEST_F(CheckRules, IntegersOfFourBitsAreDrawnAndCompared) {
  EXPECT_TRUE(
      check("rule r (X) => (Y) Transpose <perm = [1,0]> (Transpose <perm = [1,0]> (X)) => Identity (X) example X = uint4[3,5]").ok());
  const RuleCheck c = check("rule r (X) => (Y) Transpose <perm = [0,1]> (X) => Transpose <perm = [1,0]> (X) example X = int4[3,3]");
  EXPECT_TRUE(says(c, kError, "the sides differ")) << to_string(c);
}

TEST_F(CheckRules, ARuleThatCannotFireIsFound) {
  const RuleCheck narrow =
      check("rule r (X) => (Y) { Y = Neg (X) } where rank(X) == 2 => { A = Neg (X) Y = Identity (A) } example X = float[2]");
  EXPECT_TRUE(says(narrow, kError, "does not apply to its example"));
}

TEST(BuiltinRules, AreReadAndTrue) {
  const auto set = RuleSet::builtin();
  ASSERT_TRUE(set.ok()) << set.status().message();
  ASSERT_GT(set->rules().size(), 100u);
  const auto evaluator = make_evaluator({.reference = true});
  int guards = 0, needed = 0;
  for (const std::vector<const Rule*>& law : set->laws()) {
    std::vector<RuleCheck> instances;
    for (const Rule* rule : law) instances.push_back(check_by_running(*rule, *evaluator));
    const RuleCheck c = check_of_law(instances);
    EXPECT_TRUE(c.ok()) << to_string(c);
    EXPECT_EQ(to_string(c).find("more than useful"), std::string::npos) << to_string(c);
    guards += c.guards;
    needed += c.needed;
  }
  EXPECT_GE(needed * 100, guards * 98) << needed << " of " << guards << " guards switched off are noticed";
}

TEST(NativeRules, AreTrueOnTheirGraphsAndEachGuardIsNeeded) {
  const auto set = RuleSet::builtin();
  ASSERT_TRUE(set.ok()) << set.status().message();
  const auto evaluator = make_evaluator({.reference = true});
  std::set<std::string> asked, written;
  for (const NativeRule& rule : set->native_rules()) {
    const RuleCheck c = check_native_by_running(rule, set->cases_of(rule.name), *evaluator);
    EXPECT_TRUE(c.findings.empty()) << to_string(c);
    EXPECT_GT(c.examples, 0) << rule.name;
    EXPECT_EQ(c.needed, c.guards) << rule.name;
    asked.insert(c.guard_names.begin(), c.guard_names.end());
  }
  // A guard that no graph reaches would be counted nowhere.
  for (const auto& file : std::filesystem::directory_iterator(std::string(SATURATE_SOURCE_DIR) + "/rules/native")) {
    if (file.path().extension() != ".cpp" || file.path().stem() == "kit") continue;
    std::ifstream in(file.path());
    const std::string text(std::istreambuf_iterator<char>(in), {});
    const std::regex guard("guard\\(\"([^\"]*)\"");
    for (std::sregex_iterator at(text.begin(), text.end(), guard), end; at != end; ++at) written.insert((*at)[1]);
  }
  EXPECT_EQ(asked, written);
}

class CheckNative : public testing::Test {
 protected:
  // The check of a built-in native rule on this graph alone.
  static RuleCheck check(const std::string& name, std::string_view graph) {
    const auto evaluator = make_evaluator({.reference = true});
    const auto file = parse_rules(graph, "t.rules");
    EXPECT_TRUE(file.ok()) << file.status().message();
    for (const NativeRule& rule : native_rules())
      if (rule.name == name && file.ok()) {
        const Rule* graphs[] = {&file->natives.at(0)};
        return check_native_by_running(rule, graphs, *evaluator);
      }
    ADD_FAILURE() << "there is no rule " << name;
    return {};
  }
  static bool says(const RuleCheck& c, std::string_view what) { return to_string(c).find(what) != std::string::npos; }
};

TEST_F(CheckNative, ExamplesMustFire) {
  const RuleCheck c =
      check("reshape_identity", "native reshape_identity (X, s) => (Y) { Y = Reshape (X, s) } example X = float[2,3], s = int64[2] {3,2}");
  EXPECT_FALSE(c.ok());
  EXPECT_TRUE(says(c, "does not fire on its example")) << to_string(c);
}

TEST_F(CheckNative, CountersMustNotFireAndNeedAGuard) {
  const std::string graph = "native reshape_identity (X, s) => (Y) { Y = Reshape (X, s) } example X = float[2,3], s = int64[2] {2,3} ";
  EXPECT_TRUE(says(check("reshape_identity", graph), "no counterexample shows that the guard `the shape stays` is needed"));
  EXPECT_TRUE(
      says(check("reshape_identity", graph + "counterexample X = float[2,3], s = int64[2] {2,-1}"), "fires on this counterexample"));
  const RuleCheck c = check("reshape_identity", graph + "counterexample X = float[2,3], s = int64[2] {3,2}");
  EXPECT_TRUE(c.findings.empty()) << to_string(c);
  EXPECT_EQ(c.needed, 1);
}

TEST_F(CheckNative, AGraphHasNoRightSide) {
  EXPECT_FALSE(parse_rules("native n (X) => (Y) { Y = Neg (X) } => { Y = Identity (X) } example X = float[2]", "t.rules").ok());
}

TEST(RuleSets, FilterFindShowAndLoad) {
  RuleSet set;
  ASSERT_TRUE(set.load_text("# First.\nrule a (X) => (Y) { Y = Abs (X) } => { Y = Neg (X) } effect approximates\nrule b (X) => (Y) { Y = "
                            "Abs (X) } => { Y = Neg (X) }",
                            "one")
                  .ok());
  EXPECT_EQ(set.show("a").substr(0, 16), "# First.\nrule a ");
  EXPECT_EQ(set.show("c"), "");
  EXPECT_EQ(set.filtered({}).rules().size(), 1u);  // approximating rules are off by default
  RuleFilter all;
  all.effects = kAllEffects;
  all.except = {"b"};
  EXPECT_EQ(set.filtered(all).rules().size(), 1u);
  EXPECT_EQ(set.load_text("rule b (X) => (Y) { Y = Abs (X) } => { Y = Neg (X) }", "two").message(),
            "two:1:6: rule `b` is already defined in one; give it another name");
  EXPECT_EQ(set.load_file("no/such.rules").message(), "no/such.rules: the rule file cannot be read; check the path");
}

// How many classes hold an operator of each type after saturation with the built-in rules.
std::map<std::string, std::set<Id>> saturated_operators(const std::string& path, const RuleSet& rules, const Evaluator& evaluator) {
  std::map<std::string, std::set<Id>> out;
  const auto model = load_model(path);
  if (!model.ok()) return out;
  OnnxEGraph g(evaluator);
  if (!lower(*model, g).ok()) return out;
  auto log = std::make_shared<RuleLog>();
  const RunReport report = run(g.egraph(), rules.compile(g, log), {});
  EXPECT_EQ(report.stop, StopReason::kSaturated) << path;
  for (const auto& refusal : log->refusals()) ADD_FAILURE() << path << ": " << refusal.rule << ": " << refusal.what;
  for (Id c : g.egraph().classes())
    for (NodeId n : g.egraph().class_nodes(c)) out[g.key(g.egraph().node(n).op).op_type].insert(c);
  return out;
}

TEST(BuiltinRules, FindNormsAndActivationsInEverySpelling) {
  const std::string folder = std::string(SATURATE_SOURCE_DIR) + "/../shared/data/spellings/models";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "the shared spellings are not here";
  const auto all = RuleSet::builtin();
  ASSERT_TRUE(all.ok());
  // For targets that lack the one operator and take the other; together with those for targets that lack the other they have no end.
  RuleFilter filter;
  filter.except = {"ms_rms_normalization_of_twice", "ms_rms_normalization_of_twice_in_rows"};
  const RuleSet set = all->filtered(filter);
  const auto evaluator = make_evaluator({.reference = true});
  const std::pair<std::string, std::string> wanted[] = {{"layernorm", "LayerNormalization"},
                                                        {"rmsnorm", "RMSNormalization"},
                                                        {"gelu-erf", "Gelu"},
                                                        {"gelu-tanh", "Gelu"},
                                                        {"gelu-quick", "QuickGelu"}};
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".onnx") continue;
    for (const auto& [prefix, op] : wanted)
      if (name.starts_with(prefix)) {
        ++seen;
        EXPECT_FALSE(saturated_operators(entry.path().string(), set, *evaluator)[op].empty()) << name << " has no " << op;
      }
  }
  EXPECT_GT(seen, 40);
}

}  // namespace
}  // namespace saturate
