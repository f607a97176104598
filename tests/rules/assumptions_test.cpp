#include "onnx_bridge/operators/assumptions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "rules/compile/rule_set.h"

namespace saturate {
namespace {

const RuleSet& all_rules() {
  static const RuleSet set = *RuleSet::builtin(false);
  return set;
}

bool assumes(const Rule& rule, std::string_view name) {
  return std::find(rule.assumes.begin(), rule.assumes.end(), name) != rule.assumes.end();
}

bool holds_operator(const Rule& rule, std::initializer_list<std::string_view> operators) {
  return std::any_of(rule.left.begin(), rule.left.end(),
                     [&](const RuleNode& n) { return std::find(operators.begin(), operators.end(), n.op_type) != operators.end(); });
}

bool asks(const Rule& rule, std::initializer_list<std::string_view> functions) {
  return std::any_of(rule.where.begin(), rule.where.end(), [&](const ExprPtr& e) {
    const std::string text = to_string(*e);
    return std::any_of(functions.begin(), functions.end(),
                       [&](std::string_view f) { return text.find(std::string(f) + "(") != std::string::npos; });
  });
}

// What a rule that makes an assumption must be about: each is used for nothing else.
bool is_about(const Rule& rule, std::string_view assumption) {
  const bool attention = holds_operator(rule, {"Softmax", "sdpa", "Attention", "MultiHeadAttention"});
  if (assumption == "mask_of_zeros_and_ones")
    return asks(rule, {"reaches_scores", "may_be_mask"}) || (holds_operator(rule, {"Mul"}) && holds_operator(rule, {"Cast"}));
  if (assumption == "small_counts") return asks(rule, {"counts"}) || holds_operator(rule, {"Slice"});
  if (assumption == "ids_in_range") return holds_operator(rule, {"Gather", "GatherElements", "EmbedLayerNormalization"});
  if (assumption == "finite_values") return holds_operator(rule, {"Mul", "Where"});
  if (assumption == "quantizer_holds_values" || assumption == "quantizer_holds_inputs")
    return holds_operator(rule, {"QuantizeLinear"}) && rule.effect == Effect::kApproximates;
  if (assumption == "finite_clips") return holds_operator(rule, {"Clip"});
  if (assumption == "rows_not_near_zero") return holds_operator(rule, {"Div", "RMSNormalization"}) && rule.effect == Effect::kApproximates;
  if (assumption == "no_empty_row")
    return attention && (asks(rule, {"hides_by_numbers", "hides_by_infinity"}) || holds_operator(rule, {"Div"}));
  return attention;
}

TEST(Assumptions, AreUsedForWhatTheySay) {
  std::set<std::string> used;
  for (const Rule& rule : all_rules().rules())
    for (const std::string& name : rule.assumes) {
      used.insert(name);
      EXPECT_TRUE(is_about(rule, name)) << rule.name << " assumes " << name;
    }
  for (const NativeRule& rule : all_rules().native_rules()) used.insert(rule.assumes.begin(), rule.assumes.end());
  for (const Assumption& a : known_assumptions()) EXPECT_TRUE(used.contains(std::string(a.name))) << a.name << ": no rule assumes it";
}

// A rule over the sum of scores and a mask either proves that the scores have none of their own, or keeps every number as it is.
TEST(Assumptions, ChoicesBecomeSumsOfUnmaskedScoresOnly) {
  for (const Rule& rule : all_rules().rules())
    EXPECT_TRUE(!assumes(rule, "finite_scores") || asks(rule, {"fills", "hides_by_numbers", "lower_triangle", "boolean"})) << rule.name;
}

TEST(Assumptions, AreDocumentedWithTheirClass) {
  std::ifstream in(std::string(SATURATE_SOURCE_DIR) + "/docs/assumptions.md");
  std::ostringstream text;
  text << in.rdbuf();
  for (const Assumption& a : known_assumptions()) {
    const std::string title = "## " + std::string(a.name) + " (" + std::string(to_string(a.kind)) + ")\n";
    const std::size_t at = text.str().find(title);
    ASSERT_NE(at, std::string::npos) << title;
    const std::string section = text.str().substr(at + title.size(), text.str().find("\n## ", at) - at - title.size());
    EXPECT_TRUE(section.find("goes wrong") != std::string::npos || section.find("breaks it") != std::string::npos) << a.name;
    EXPECT_FALSE(a.what.empty() || a.example.empty());
  }
}

TEST(Assumptions, RiskyOnesAreOffUnlessAskedFor) {
  std::string risky;
  for (const Assumption& a : known_assumptions())
    if (a.kind == AssumptionClass::kRisky) risky = a.name;
  ASSERT_FALSE(risky.empty());
  EXPECT_FALSE((AssumptionChoice{}).allows(risky));
  EXPECT_TRUE((AssumptionChoice{{risky}, {}}).allows(risky));
  EXPECT_EQ((AssumptionChoice{{risky}, {}}).risks(), std::vector<std::string>{risky});
  EXPECT_FALSE((AssumptionChoice{{risky}, {risky}}).allows(risky));
  EXPECT_FALSE((AssumptionChoice{{risky}, {"all"}}).allows(risky));
  EXPECT_TRUE((AssumptionChoice{{risky}, {"all"}}).risks().empty());
  EXPECT_TRUE((AssumptionChoice{}).allows("ids_in_range"));
  EXPECT_FALSE((AssumptionChoice{{}, {"ids_in_range"}}).allows("ids_in_range"));
  EXPECT_TRUE((AssumptionChoice{{"nonsense"}, {}}).unknown().has_value());
  EXPECT_FALSE((AssumptionChoice{{risky}, {"all"}}).unknown().has_value());
  const RuleSet by_default = RuleSet(all_rules()).filtered(RuleFilter{});
  for (const Rule& rule : by_default.rules()) EXPECT_FALSE(assumes(rule, risky)) << rule.name;
}

}  // namespace
}  // namespace saturate
