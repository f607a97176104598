#include <random>
#include <set>

#include <gtest/gtest.h>

#include "egraph/rewrite.h"
#include "tests/egraph/naive.h"

namespace saturate {
namespace {

class MatcherTest : public ::testing::Test {
 protected:
  MatcherTest() {
    language_.egraph = &egraph_;
    for (const char* name : {"a", "b", "c"}) language_.declare(name);
    for (const char* name : {"f", "g", "sub"}) language_.declare(name);
    language_.declare("add", true);
  }
  Id term(const std::string& text) { return add_term(language_, egraph_, text); }
  std::size_t count(const std::string& pattern) { return search(egraph_, pattern_of(language_, pattern)).size(); }

  EGraph egraph_;
  Language language_;
};

TEST_F(MatcherTest, BindsSlotsAndNodes) {
  const Id x = term("a"), root = term("(f (g a))");
  const auto matches = search(egraph_, pattern_of(language_, "(f (g ?x))"));
  ASSERT_EQ(matches.size(), 1u);
  EXPECT_EQ(matches[0].classes, (std::vector<Id>{x, egraph_.lookup(language_.op("g"), std::vector{x}), root}));
  EXPECT_EQ(matches[0].matched[0], kNone);
  EXPECT_EQ(egraph_.node(matches[0].matched[2]).op, language_.op("f"));
  EXPECT_EQ(matches[0].ops[1], language_.op("g"));
  EXPECT_EQ(matches[0].ops[0], kNone);
}

TEST_F(MatcherTest, AVariableTwiceBindsOneClass) {
  term("(sub a b)");
  const Id same = term("(sub b b)");
  const auto matches = search(egraph_, pattern_of(language_, "(sub ?x ?x)"));
  ASSERT_EQ(matches.size(), 1u);
  EXPECT_EQ(matches[0].classes.back(), same);
}

TEST_F(MatcherTest, ASharedPatternNodeBindsOneClass) {
  term("(sub (f a) (f b))");
  const Id same = term("(sub (f b) (f b))");
  Pattern pattern = pattern_of(language_, "(sub (f ?x) ?y)");
  pattern.nodes.back().children = {1, 1};
  const auto matches = search(egraph_, pattern);
  ASSERT_EQ(matches.size(), 1u);
  EXPECT_EQ(matches[0].classes.back(), same);
}

TEST_F(MatcherTest, ArityIsExact) {
  term("(f a)");
  term("(f a b)");
  term("(f a b c a b)");
  EXPECT_EQ(count("(f ?x)"), 1u);
  EXPECT_EQ(count("(f ?x ?y)"), 1u);
  EXPECT_EQ(count("(f ?x ?y ?z)"), 0u);
  EXPECT_EQ(count("(f ?x ?y ?z ?x ?y)"), 1u);
  EXPECT_EQ(count("(f ?x ?y ?z ?x ?z)"), 0u);
  EXPECT_EQ(count("f"), 0u);
}

TEST_F(MatcherTest, BothOrdersOfCommutativeOperators) {
  term("(add (f a) b)");
  term("(add b b)");
  EXPECT_EQ(count("(add ?x ?y)"), 3u);  // twice, and once where both children are the same class
  EXPECT_EQ(count("(add (f ?x) ?y)"), 1u);
  EXPECT_EQ(count("(add ?y (f ?x))"), 1u);
  EXPECT_EQ(count("(add ?x ?x)"), 1u);
  term("(add (f a) (f b))");
  EXPECT_EQ(count("(add (f ?x) (f ?y))"), 2u);
}

TEST_F(MatcherTest, OperatorPredicatesAreAskedOncePerOperator) {
  EGraph egraph;
  std::vector<OpId> ops;
  for (int i = 0; i < 4; ++i) ops.push_back(egraph.add_op({.kind = 7}));
  const OpId leaf = egraph.add_op({.kind = 1});
  Id x = egraph.add(leaf, {});
  for (int i = 0; i < 40; ++i) x = egraph.add(ops[i % 4], std::vector{x});
  std::map<OpId, int> asked;
  Pattern pattern;
  pattern.nodes.resize(2);
  pattern.nodes[1].type = PatternNode::Type::kOperator;
  pattern.nodes[1].kind = 7;
  pattern.nodes[1].children = {0};
  EXPECT_EQ(search(egraph, pattern).size(), 40u);
  pattern.nodes[1].accepts_op = [&](OpId op) {
    ++asked[op];
    return op == ops[2];
  };
  EXPECT_EQ(search(egraph, pattern).size(), 10u);
  for (const auto& [op, times] : asked) EXPECT_EQ(times, 1) << op;
  EXPECT_EQ(asked.size(), 4u);  // not asked of other kinds
  pattern.nodes[1].op = ops[1];
  EXPECT_EQ(search(egraph, pattern).size(), 0u);
}

TEST_F(MatcherTest, ClassPredicatesOnVariablesOperatorsAndTheRoot) {
  const Id a = term("a"), fa = term("(f a)");
  term("(f b)");
  term("(g (f a))");
  term("(g (f b))");
  Pattern pattern = pattern_of(language_, "(g (f ?x))");
  pattern.nodes[0].accepts = [&](const EGraph&, Id id) { return id == a; };
  EXPECT_EQ(search(egraph_, pattern).size(), 1u);
  pattern.nodes[0].accepts = nullptr;
  pattern.nodes[1].accepts = [&](const EGraph&, Id id) { return id != fa; };
  EXPECT_EQ(search(egraph_, pattern).size(), 1u);
  pattern.nodes[1].accepts = nullptr;
  pattern.nodes[2].accepts = [](const EGraph&, Id) { return false; };
  EXPECT_EQ(search(egraph_, pattern).size(), 0u);
}

TEST_F(MatcherTest, ASingleVariableMatchesEveryClass) {
  term("(f (f a))");
  egraph_.merge(term("a"), term("(f a)"));
  egraph_.rebuild();
  EXPECT_EQ(count("?x"), egraph_.num_classes());
}

TEST_F(MatcherTest, TwoRoots) {
  // (f ?x) and (g ?x) of one ?x, joined by nothing else.
  const Id fa = term("(f a)"), ga = term("(g a)");
  term("(g b)");
  Pattern pattern = pattern_of(language_, "(f ?x)");
  PatternNode second = pattern.nodes[1];
  second.op = language_.op("g");
  second.kind = language_.traits[second.op].kind;
  pattern.nodes.insert(pattern.nodes.begin() + 1, second);
  const auto matches = search(egraph_, pattern);
  ASSERT_EQ(matches.size(), 1u);
  EXPECT_EQ(matches[0].classes, (std::vector<Id>{term("a"), ga, fa}));
}

TEST_F(MatcherTest, LimitAndUnknownKinds) {
  term("(f (f (f a)))");
  EXPECT_EQ(search(egraph_, pattern_of(language_, "(f ?x)"), 2).size(), 2u);
  EXPECT_EQ(search(egraph_, pattern_of(language_, "(f ?x)"), 0).size(), 0u);
  Pattern unknown = pattern_of(language_, "(f ?x)");
  unknown.nodes[1].kind = 1000;
  unknown.nodes[1].op = kNone;
  EXPECT_EQ(search(egraph_, unknown).size(), 0u);
}

// Random graphs and patterns: exactly the naive matches, each once.
TEST_F(MatcherTest, RandomPatternsGiveTheNaiveMatches) {
  std::size_t total = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
    Language language;
    EGraph egraph;
    language.egraph = &egraph;
    for (const char* name : {"a", "b", "f", "g", "sub"}) language.declare(name);
    language.declare("add", true);
    const std::size_t arity[] = {0, 0, 1, 1, 2, 2};
    NaiveEGraph naive(language.traits);
    std::vector<Id> ids;
    for (int i = 0; i < 40; ++i) {
      const std::size_t op = i < 2 ? i : pick(6);
      std::vector<Id> children;
      for (std::size_t k = 0; k < arity[op]; ++k) children.push_back(ids[pick(ids.size())]);
      const Id id = egraph.add(static_cast<OpId>(op), children);
      // Ids of both agree as long as nothing is merged: the k-th new term gets id k.
      ASSERT_EQ(naive.add(static_cast<OpId>(op), children), id);
      ids.push_back(id);
    }
    for (int i = 0; i < 6; ++i) {
      const Id a = ids[pick(ids.size())], b = ids[pick(ids.size())];
      egraph.merge(a, b);
      naive.merge(a, b);
    }
    egraph.rebuild();
    naive.rebuild();
    for (const char* text :
         {"(f ?x)", "(add ?x ?y)", "(add (f ?x) ?y)", "(add (f ?x) (f ?y))", "(sub (add ?x ?y) ?x)", "(add (add ?x ?y) (add ?x ?z))",
          "(f (g ?x))", "(sub a ?x)", "(add ?x b)", "(sub (f ?x) (add (g ?x) ?y))", "(f (f (f ?x)))", "?x", "(add (f a) (add ?x ?x))"}) {
      const Pattern pattern = pattern_of(language, text);
      // Classes are named differently; compare through a common name.
      const auto name = [&](Id id) { return naive.find(id); };
      std::multiset<std::vector<Id>> ours;
      for (const auto& match : search(egraph, pattern)) {
        std::vector<Id> classes;
        for (const Id id : match.classes) classes.push_back(name(id));
        ours.insert(classes);
      }
      const auto expected = naive.match(pattern);
      total += expected.size();
      ASSERT_EQ(ours, std::multiset<std::vector<Id>>(expected.begin(), expected.end())) << "seed " << seed << " pattern " << text;
    }
  }
  EXPECT_GT(total, 5'000u);
}

}  // namespace
}  // namespace saturate
