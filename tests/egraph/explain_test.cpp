#include "egraph/explain.h"

#include <memory>
#include <random>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "egraph/invariants.h"
#include "egraph/text/text_workload.h"
#include "tests/egraph/naive.h"

namespace saturate {
namespace {

std::string show(const Workload& w, OpId op) { return w.op_names[op]; }

// Unites the match with the template's e-nodes, as rules do that compute.
class ByHand : public Applier {
 public:
  explicit ByHand(Template right) : right_(std::move(right)) {}
  void apply(EGraph& egraph, const Match& match, std::vector<std::pair<Id, Id>>& unions) const override {
    std::vector<Id> made, children;
    for (const Template::Node& node : right_.nodes) {
      children.clear();
      for (const std::uint32_t child : node.children) children.push_back(made[child]);
      made.push_back(node.op == kNone ? match.classes[node.slot] : egraph.add(node.op, children));
    }
    unions.emplace_back(match.root(), made.back());
  }

 private:
  Template right_;
};

std::set<std::string> rules_of(const Explanation& why) {
  std::set<std::string> out;
  for (const ExplainStep& step : why.replay)
    if (!step.rule.empty()) out.insert(step.rule);
  return out;
}

TEST(Explain, OffByDefaultAndTooLateAfterAUnion) {
  EGraph egraph;
  const OpId a = egraph.add_op({.kind = 0}), b = egraph.add_op({.kind = 1});
  const Id x = egraph.add(a, {}), y = egraph.add(b, {});
  EXPECT_FALSE(records_explanations(egraph));
  egraph.merge(x, y);
  EXPECT_FALSE(record_explanations(egraph));
  EXPECT_EQ(explain(egraph, x, y), std::nullopt);
}

TEST(Explain, AChainOfGivenCongruenceAndRule) {
  auto w = Workload::parse("(rule unwrap (g (f ?x)) ?x) (root (g (f (h a)))) (root (h b)) (root b)");
  ASSERT_TRUE(w.ok());
  EGraph& egraph = *w->egraph;
  ASSERT_TRUE(record_explanations(egraph));
  const auto id = [&](const char* name) {
    const auto op = static_cast<OpId>(std::find(w->op_names.begin(), w->op_names.end(), name) - w->op_names.begin());
    return op;
  };
  (void)id;
  // Leaves are all named <sym>: find a and b by what stands over them.
  const Id root = w->roots[0], hb = w->roots[1], b = w->roots[2];
  const Id f = egraph.node(egraph.class_nodes(root)[0]).children[0];
  const Id ha = egraph.node(egraph.class_nodes(f)[0]).children[0];
  const Id a = egraph.node(egraph.class_nodes(ha)[0]).children[0];
  EXPECT_EQ(explain(egraph, root, hb), std::nullopt);
  egraph.merge(a, b);
  egraph.rebuild();
  run(egraph, w->rules, {});
  ASSERT_EQ(egraph.find(root), egraph.find(hb));
  const auto why = explain(egraph, root, hb);
  ASSERT_TRUE(why);
  EXPECT_EQ(check_explanation(egraph, *why, root, hb), "");
  ASSERT_EQ(why->chain.size(), 2u);
  EXPECT_EQ(why->chain[0].kind, ExplainStep::Kind::kRule);
  EXPECT_EQ(why->chain[0].rule, "unwrap");
  EXPECT_TRUE(why->chain[0].forward);
  EXPECT_EQ(why->chain[1].kind, ExplainStep::Kind::kCongruence);
  ASSERT_EQ(why->support.size(), 1u);
  EXPECT_EQ(why->support[0].kind, ExplainStep::Kind::kGiven);
  const std::string text = to_string(egraph, *why, [&](OpId op) { return show(*w, op); });
  EXPECT_NE(text.find("by unwrap"), std::string::npos) << text;
  EXPECT_NE(text.find("by given"), std::string::npos) << text;
  const auto same = explain(egraph, a, a);
  ASSERT_TRUE(same);
  EXPECT_TRUE(same->chain.empty());
}

TEST(Explain, TheCheckerNoticesAForgedStep) {
  auto w = Workload::parse("(rule r (f ?x) (g ?x)) (rule s (g ?x) (h ?x)) (root (f a)) (root (h a))");
  ASSERT_TRUE(record_explanations(*w->egraph));
  run(*w->egraph, w->rules, {});
  const auto why = explain(*w->egraph, w->roots[0], w->roots[1]);
  ASSERT_TRUE(why);
  ASSERT_EQ(why->chain.size(), 2u);
  EXPECT_EQ(check_explanation(*w->egraph, *why, w->roots[0], w->roots[1]), "");
  Explanation forged = *why;
  forged.replay[0].rule_index = 1 - forged.replay[0].rule_index;
  EXPECT_NE(check_explanation(*w->egraph, forged, w->roots[0], w->roots[1]), "");
  forged = *why;
  forged.replay.pop_back();
  EXPECT_NE(check_explanation(*w->egraph, forged, w->roots[0], w->roots[1]), "");
  forged = *why;
  forged.replay[0].kind = ExplainStep::Kind::kCongruence;
  EXPECT_NE(check_explanation(*w->egraph, forged, w->roots[0], w->roots[1]), "");
  forged = *why;
  forged.chain.pop_back();
  EXPECT_NE(check_explanation(*w->egraph, forged, w->roots[0], w->roots[1]), "");
}

TEST(Explain, WhereAnENodeComesFrom) {
  auto w = Workload::parse("(rule r (f ?x) (g (k ?x))) (root (f a))");
  ASSERT_TRUE(record_explanations(*w->egraph));
  run(*w->egraph, w->rules, {});
  std::size_t made = 0;
  for (const Id c : w->egraph->classes()) {
    for (const NodeId n : w->egraph->class_nodes(c)) {
      const auto step = explain_added(*w->egraph, n);
      EXPECT_EQ(step.has_value(), w->egraph->made_by(n) == 0);
      if (!step) continue;
      ++made;
      EXPECT_EQ(step->rule, "r");
      ASSERT_EQ(step->slots.size(), 2u);
      EXPECT_EQ(w->op_names[w->egraph->node(step->slots[1]).op], "f");
    }
  }
  EXPECT_EQ(made, 2u);
}

// Everything that ends up equal has a proof that replays; the result is the same as without proofs.
TEST(Explain, RandomRunsAreExplained) {
  std::size_t checked = 0;
  for (unsigned seed = 0; seed < 80; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
    Language language;
    EGraph egraph, plain;
    language.egraph = &egraph;
    for (const char* name : {"a", "b", "f", "g", "sub"}) language.declare(name);
    language.declare("add", seed % 2 == 0);
    for (const OpTraits& t : language.traits) plain.add_op(t);
    ASSERT_TRUE(record_explanations(egraph));
    const std::size_t arity[] = {0, 0, 1, 1, 2, 2};
    std::vector<Id> ids;
    for (int i = 0; i < 14; ++i) {
      const std::size_t op = i < 2 ? i : pick(6);
      std::vector<Id> children;
      for (std::size_t k = 0; k < arity[op]; ++k) children.push_back(ids[pick(ids.size())]);
      ids.push_back(egraph.add(static_cast<OpId>(op), children));
      plain.add(static_cast<OpId>(op), children);
    }
    if (seed % 3 == 0) {
      const Id x = ids[pick(ids.size())], y = ids[pick(ids.size())];
      egraph.merge(x, y);
      plain.merge(x, y);
    }
    std::vector<Rewrite> rules;
    for (int i = 0; i < 4; ++i) {
      const auto& [left, right] = kRandomRules[pick(std::size(kRandomRules))];
      rules.push_back(rule_of(language, left, left, right));
      if (seed % 5 == 0) rules.back().applier = std::make_shared<ByHand>(*std::exchange(rules.back().right, std::nullopt));
    }
    RunOptions options;
    options.limits.iterations = 4;
    options.limits.nodes = 20'000;
    run(egraph, rules, options);
    run(plain, rules, options);
    ASSERT_EQ(egraph.num_nodes(), plain.num_nodes()) << "seed " << seed;
    ASSERT_EQ(egraph.num_classes(), plain.num_classes()) << "seed " << seed;
    ASSERT_EQ(check_invariants(egraph), "");
    const auto all = static_cast<Id>(egraph.num_ids());
    for (int i = 0; i < 60; ++i) {
      const Id x = static_cast<Id>(pick(all)), y = i % 2 == 0 ? egraph.find(x) : static_cast<Id>(pick(all));
      const auto why = explain(egraph, x, y);
      ASSERT_EQ(why.has_value(), egraph.find(x) == egraph.find(y));
      if (!why) continue;
      ASSERT_EQ(check_explanation(egraph, *why, x, y), "") << "seed " << seed << " of " << x << " and " << y;
      checked += why->replay.size();
    }
  }
  EXPECT_GT(checked, 1000u);
}

// What an Applier is given are classes. That the e-nodes of its match, and those that it finds, stand in them rests on earlier rules.
TEST(Explain, WhatAnApplierUnitesRestsOnWhatMadeItsClasses) {
  const auto laws = [](const char* text, std::set<std::string> by_hand) {
    auto w = Workload::parse(text);
    EXPECT_TRUE(w.ok() && record_explanations(*w->egraph));
    for (Rewrite& rule : w->rules)
      if (by_hand.contains(rule.name)) rule.applier = std::make_shared<ByHand>(*std::exchange(rule.right, std::nullopt));
    run(*w->egraph, w->rules, {});
    const auto why = explain(*w->egraph, w->roots[0], w->roots[1]);
    EXPECT_TRUE(why) << text;
    if (!why) return std::set<std::string>();
    EXPECT_EQ(check_explanation(*w->egraph, *why, w->roots[0], w->roots[1]), "") << text;
    return rules_of(*why);
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(laws("(rule r (f ?x) (k ?x)) (rule s (k ?x) (m ?x)) (root (f a)) (root (m a))", {"s"}),
            (Names{"r", "s"}));  // the matched e-node
  EXPECT_EQ(laws("(rule r (z ?x) (m ?x)) (rule s (f ?x) (m ?x)) (root (f a)) (root (z a)) (root (u (z a)))", {"s"}),
            (Names{"r", "s"}));  // what was there
  EXPECT_EQ(laws("(rule r (f ?x) (k ?x)) (rule s (g (k ?x)) (h (k ?x))) (root (g (f a))) (root (h (k a))) (root (u (f a)))", {"s"}),
            (Names{"r", "s"}));  // an operand
}

// A template may make one e-node twice, the second time as its top: it stands in a class of its own then, and has to be united with the
// match.
TEST(Explain, ATopThatAnEarlierENodeOfTheTemplateAlreadyIs) {
  for (const bool reasons : {false, true}) {
    EGraph egraph;
    for (Kind k = 0; k < 3; ++k) egraph.add_op({.kind = k});  // a, f, h
    if (reasons) {
      ASSERT_TRUE(record_explanations(egraph));
    }
    const Id a = egraph.add(0, {}), fa = egraph.add(1, std::vector{a});
    Rewrite rule;
    rule.name = "twice";
    rule.left.nodes.resize(2);
    rule.left.nodes[1] = {
        .type = PatternNode::Type::kOperator, .kind = 1, .op = 1, .accepts_op = nullptr, .accepts = nullptr, .children = {0}};
    rule.right = Template{{{kNone, 0, {}}, {2, kNone, {0}}, {2, kNone, {0}}}};
    EXPECT_EQ(run(egraph, std::span(&rule, 1), {}).stop, StopReason::kSaturated);
    const Id ha = egraph.lookup(2, std::vector{a});
    ASSERT_NE(ha, kNone);
    EXPECT_EQ(egraph.find(fa), egraph.find(ha));
    EXPECT_EQ(check_invariants(egraph), "");
    if (!reasons) continue;
    const auto why = explain(egraph, fa, 2);
    ASSERT_TRUE(why.has_value());
    EXPECT_EQ(check_explanation(egraph, *why, fa, 2), "");
  }
}

TEST(Explain, LongChainsTakeNoStack) {
  EGraph egraph;
  const OpId a = egraph.add_op({.kind = 0}), b = egraph.add_op({.kind = 1}), f = egraph.add_op({.kind = 2});
  ASSERT_TRUE(record_explanations(egraph));
  Id x = egraph.add(a, {}), y = egraph.add(b, {});
  const Id x0 = x, y0 = y;
  for (int i = 0; i < 200'000; ++i) {
    x = egraph.add(f, std::vector{x});
    y = egraph.add(f, std::vector{y});
  }
  egraph.merge(x0, y0);
  egraph.rebuild();
  const auto why = explain(egraph, x, y);
  ASSERT_TRUE(why);
  EXPECT_EQ(why->chain.size(), 1u);
  EXPECT_EQ(why->replay.size(), 200'001u);
  EXPECT_EQ(check_explanation(egraph, *why, x, y), "");
}

TEST(Explain, LongRowsOfUnionsAreLinear) {
  EGraph egraph;
  constexpr std::uint32_t kCount = 200'000;
  ASSERT_TRUE(record_explanations(egraph));
  for (std::uint32_t i = 0; i < kCount; ++i) egraph.add(egraph.add_op({.kind = i}), {});
  for (std::uint32_t i = 0; i + 1 < kCount; ++i) egraph.merge(i, i + 1);
  egraph.rebuild();
  const auto why = explain(egraph, 0, kCount - 1);
  ASSERT_TRUE(why);
  EXPECT_EQ(why->chain.size(), kCount - 1);
}

}  // namespace
}  // namespace saturate
