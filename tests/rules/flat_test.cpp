#include "rules/stored/flat.h"

#include <gtest/gtest.h>

#include "rules/compile/rule_set.h"

namespace saturate {
namespace {

TEST(Flat, BuiltInBytesAreTheRulesOfTheFiles) {
  const auto read = RuleSet::builtin(), loaded = RuleSet::builtin(false);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_GT(loaded->rules().size(), 400u);
  EXPECT_EQ(flatten(read->all_stored()), flat_rules());
  EXPECT_EQ(flatten(loaded->all_stored()), flat_rules());
  EXPECT_EQ(read->native_rules().size(), loaded->native_rules().size());
}

TEST(Flat, HoldsAllThatARuleSays) {
  const auto file = parse_rules(
      "opset \"\" 23\n"
      "rule all_of_it <p> (X, c, M, O?) => (Y)\n"
      "  { h = Constant <value_floats = [0.5, -1e30]> ()  T = Transpose <perm: ints = @p> (X)  Y = Slice (T, c, M, h, O) }\n"
      "  where rank(X) - 3 >= -2 and not absent(O), value(c)[0:] == [1, 2], p[-1] == 1.5 let r = compose(p, p), s = \"nearest\" =>\n"
      "  { T = ConstantOfShape <value = int64[2] {7, -9}> (M)  Y = Resize <mode: string = @s> (T, , c) }\n"
      "  effect reassociates budget 12 phase 3 tolerance 0.25 assume no_empty_row if_any_unsupported if_lacking if_refused yields_to "
      "other\n"
      "  example X = float[2,3], c = int64[1] {1}, p = [1,0], M = int64[1] {2}",
      "a.rules");
  ASSERT_TRUE(file.ok()) << file.status();
  const Rule& rule = file->rules.at(0);
  const std::string bytes = flatten({std::make_shared<const StoredRule>(rule)});
  const StoredRules back = unflatten(bytes);
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(flatten(back), bytes);
  const RuleHead& head = back[0]->head();
  EXPECT_EQ(head.name, rule.name);
  EXPECT_EQ(head.assumes, std::vector<std::string_view>{"no_empty_row"});
  EXPECT_EQ(head.ends_in.op_type, "Slice");
  ASSERT_EQ(head.directions.size(), 1u);
  EXPECT_EQ(head.directions[0].wants.size(), 2u);
  EXPECT_EQ(head.directions[0].forms, (decltype(RuleDirection::forms){{}, {"O"}}));
  const Rule& r = back[0]->rule();
  EXPECT_EQ(r.name, "all_of_it");
  EXPECT_EQ(r.file, "a.rules");
  EXPECT_EQ(r.place.line, 2);
  EXPECT_EQ(r.optional, std::vector<std::string>{"O"});
  EXPECT_EQ(r.assumes, std::vector<std::string>{"no_empty_row"});
  EXPECT_TRUE(!r.both_ways && r.if_any_unsupported && r.if_unsupported);
  EXPECT_TRUE(r.if_lacking && r.if_refused && head.if_refused);
  EXPECT_EQ(r.yields_to, "other");
  EXPECT_EQ(r.budget, 12u);
  EXPECT_EQ(r.phase, 3);
  EXPECT_EQ(r.tolerance, 0.25);
  EXPECT_EQ(r.effect, Effect::kReassociates);
  ASSERT_EQ(r.where.size(), rule.where.size());
  for (std::size_t i = 0; i < r.where.size(); ++i) EXPECT_EQ(to_string(*r.where[i]), to_string(*rule.where[i]));
  EXPECT_EQ(to_string(*r.lets.at(1).second), to_string(*rule.lets.at(1).second));
  EXPECT_EQ(r.where[0]->arguments[0]->arguments[0]->arguments[0]->function,
            rule.where[0]->arguments[0]->arguments[0]->arguments[0]->function);
  EXPECT_EQ(rule_constant(r.left[0])->reals, rule_constant(rule.left[0])->reals);
  const Tensor& t = r.right[0].attributes[0].literal.t();
  EXPECT_EQ(t.dims(), Shape{2});
  EXPECT_EQ(t.span<std::int64_t>()[1], -9);
}

}  // namespace
}  // namespace saturate
