#include "rules/check/check_respelled.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/runtime/runtime.h"
#include "rules/check/check.h"

namespace saturate {
namespace {

constexpr const char* kRules = R"(opset "" 23
rule relu_where_above (X) => (Y)
  Where (Greater (X, 0.0), X, 0.0)
  => Max (X, 0.0)
  example X = int32[2,3]
)";
constexpr const char* kMirror = R"(
rule mirror (A, B) => (Y)
  Less (A, B) => Greater (B, A)
  example A = int32[2,3], B = int32[3]
)";
constexpr const char* kNegated = R"(
rule negated (C, A, B) => (Y)
  Where (Not (C), A, B)
  where useful(rank(A) > 0)
  => Where (C, B, A)
  example C = bool[2,3], A = int32[2,3], B = int32[3]
)";

class Respelled : public ::testing::Test {
 protected:
  RespelledRule check(const std::string& text, std::string_view laws = embedded_respellings()) {
    RuleSet set;
    EXPECT_TRUE(set.load_text(text, "t.rules").ok());
    const auto evaluator = make_evaluator({.reference = true});
    const auto respeller = Respeller::make(laws, set, *evaluator);
    EXPECT_TRUE(respeller.ok()) << respeller.status();
    return respeller->check(*set.find("relu_where_above"));
  }
  static const Respelling* by(const RespelledRule& rule, std::string_view law) {
    const auto it = std::find_if(rule.respellings.begin(), rule.respellings.end(), [&](const Respelling& r) { return r.law == law; });
    return it == rule.respellings.end() ? nullptr : &*it;
  }
};

TEST_F(Respelled, FiresWhereALawLeadsBack) {
  const RespelledRule without = check(kRules), with = check(std::string(kRules) + kMirror);
  ASSERT_TRUE(by(without, "mirrored[Greater]"));
  EXPECT_EQ(without.examples, 1);
  EXPECT_FALSE(by(without, "mirrored[Greater]")->fires);
  EXPECT_NE(by(without, "mirrored[Greater]")->graph.find("Less(c, X)"), std::string::npos) << by(without, "mirrored[Greater]")->graph;
  EXPECT_TRUE(by(with, "mirrored[Greater]")->fires);
  EXPECT_FALSE(by(with, "where_negated")->fires);
}

TEST_F(Respelled, AGuardThatIsFalseThereIsNamedAndSwitchedOff) {
  const std::string silent = "# Silent by where_negated: `useful(rank(A) > 0)` of negated.\n";
  std::string named = kRules;
  named.insert(named.find("rule "), silent);
  const RespelledRule shown = check(named + kNegated);
  EXPECT_FALSE(by(shown, "where_negated")->fires);
  EXPECT_EQ(by(shown, "where_negated")->guard, "`useful(rank(A) > 0)` of negated");
  ASSERT_EQ(shown.silences.size(), 1u);
  EXPECT_TRUE(shown.silences[0].second);
  const RespelledRule idle = check(named);  // no such rule leads back
  EXPECT_EQ(by(idle, "where_negated")->guard, "");
  EXPECT_FALSE(idle.silences[0].second);
}

TEST_F(Respelled, LawsAreReadAndChecked) {
  const auto evaluator = make_evaluator({.reference = true});
  EXPECT_FALSE(Respeller::make("rule", RuleSet(), *evaluator).ok());
  const auto respeller = Respeller::make(embedded_respellings(), RuleSet(), *evaluator);
  ASSERT_TRUE(respeller.ok());
  EXPECT_GT(respeller->laws().size(), 40u);
  CheckOptions options;
  options.mutate = false;
  for (const Rule& law : respeller->laws()) {
    const RuleCheck checked = check_by_running(law, *evaluator, options);
    for (const RuleFinding& f : checked.findings)
      EXPECT_FALSE(f.severity == RuleFinding::Severity::kError && f.demand.empty()) << law.name << ": " << f.what;
  }
}

}  // namespace
}  // namespace saturate
