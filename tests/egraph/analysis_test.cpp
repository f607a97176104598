#include <map>
#include <set>

#include <gtest/gtest.h>

#include "egraph/invariants.h"
#include "egraph/rewrite.h"

namespace saturate {
namespace {

// Integers: leaves know their value, neg and add compute theirs; a known value joins its class as a leaf (as shape literals do).
class ValueAnalysis : public Analysis {
 public:
  enum : Kind { kLeaf, kUnknown, kNeg, kAdd, kWrap };
  std::map<OpId, int> value_of_leaf;
  std::map<int, OpId> leaf_of_value;
  std::vector<std::optional<int>> facts;
  int updates = 0, modifies = 0;
  OpId neg = 0, add = 0, wrap = 0, unknown = 0;
  bool make_leaves = true;
  std::uint64_t known = 0;

  OpId leaf(EGraph& egraph, int value) {
    const auto it = leaf_of_value.find(value);
    if (it != leaf_of_value.end()) return it->second;
    const OpId op = egraph.add_op({.kind = kLeaf});
    value_of_leaf[op] = value;
    return leaf_of_value[value] = op;
  }
  void declare(EGraph& egraph) {
    neg = egraph.add_op({.kind = kNeg});
    add = egraph.add_op({.kind = kAdd, .commutative = true});
    wrap = egraph.add_op({.kind = kWrap});
    unknown = egraph.add_op({.kind = kUnknown});
  }

  std::optional<int> compute(const EGraph& egraph, const ENode& node) const {
    if (const auto it = value_of_leaf.find(node.op); it != value_of_leaf.end()) return it->second;
    const auto of = [&](std::size_t i) { return facts[egraph.find(node.children[i])]; };
    if (node.op == neg && of(0)) return -*of(0);
    if (node.op == add && of(0) && of(1)) return *of(0) + *of(1);
    return std::nullopt;
  }
  void make(const EGraph& egraph, Id id, const ENode& node) override {
    if (id >= facts.size()) facts.resize(id + 1);
    facts[id] = compute(egraph, node);
  }
  Join update(const EGraph& egraph, Id id, const ENode& node) override {
    ++updates;
    return unite(facts[id], compute(egraph, node));
  }
  Join join(Id winner, Id loser) override { return unite(facts[winner], facts[loser]); }
  std::uint64_t knowledge() const override { return known; }
  void modify(EGraph& egraph, Id id) override {
    ++modifies;
    if (!make_leaves || !facts[id]) return;
    egraph.merge(id, egraph.add(leaf(egraph, *facts[id]), {}));
  }

 private:
  static Join unite(std::optional<int>& into, const std::optional<int>& other) {
    Join join;
    if (into && other && *into != *other) join.contradiction = std::to_string(*into) + " and " + std::to_string(*other);
    join.second_changed = into.has_value() && !other.has_value();
    if (!into && other) {
      into = other;
      join.first_changed = true;
    }
    return join;
  }
};

class AnalysisTest : public ::testing::Test {
 protected:
  AnalysisTest() : egraph_(&values_) { values_.declare(egraph_); }
  Id number(int n) { return egraph_.add(values_.leaf(egraph_, n), {}); }
  Id unknown() { return egraph_.add(egraph_.add_op({.kind = ValueAnalysis::kUnknown}), {}); }
  Id neg(Id x) { return egraph_.add(values_.neg, std::vector{x}); }
  Id add(Id x, Id y) { return egraph_.add(values_.add, std::vector{x, y}); }
  std::optional<int> value(Id id) { return values_.facts[egraph_.find(id)]; }

  ValueAnalysis values_;
  EGraph egraph_;
};

TEST_F(AnalysisTest, MadeBottomUp) {
  const Id sum = add(number(2), neg(number(5)));
  EXPECT_EQ(value(sum), -3);  // at once
  egraph_.rebuild();
  EXPECT_EQ(egraph_.find(sum), egraph_.find(number(-3)));
  EXPECT_EQ(check_invariants(egraph_), "");
}

TEST_F(AnalysisTest, ALateFactReachesAllAncestors) {
  const Id x = unknown();
  const Id y = unknown();
  Id top = x;
  for (int i = 0; i < 1000; ++i) top = add(neg(top), y);
  egraph_.rebuild();
  EXPECT_EQ(value(top), std::nullopt);
  egraph_.merge(y, number(0));
  egraph_.rebuild();
  EXPECT_EQ(value(top), std::nullopt);
  values_.updates = 0;
  egraph_.merge(x, number(3));
  egraph_.rebuild();
  EXPECT_EQ(value(top), 3);
  EXPECT_EQ(egraph_.find(top), egraph_.find(number(3)));
  EXPECT_LT(values_.updates, 10'000);
  EXPECT_EQ(check_invariants(egraph_), "");
}

TEST_F(AnalysisTest, UpdatesComeInOrderOnWideDags) {
  // A ladder in which each rung uses the one below twice over two ways of different length: naive propagation is exponential.
  values_.make_leaves = false;
  const Id x = unknown();
  Id rung = x;
  for (int i = 0; i < 60; ++i) rung = add(rung, neg(neg(rung)));
  egraph_.rebuild();
  values_.updates = 0;
  egraph_.merge(x, number(0));
  egraph_.rebuild();
  EXPECT_EQ(value(rung), 0);
  EXPECT_LT(values_.updates, 3000);
}

TEST_F(AnalysisTest, ContradictionNamesItsRuleAndStopsTheRun) {
  const Id x = unknown();
  const Id wrapped = egraph_.add(values_.wrap, std::vector{x});
  egraph_.merge(wrapped, number(1));
  egraph_.merge(x, number(2));
  egraph_.rebuild();
  EXPECT_FALSE(egraph_.contradiction());
  Rewrite unsound;
  unsound.name = "unwrap";
  unsound.left.nodes.resize(2);
  unsound.left.nodes[1] = {PatternNode::Type::kOperator, ValueAnalysis::kWrap, kNone, nullptr, nullptr, {0}};
  unsound.right = Template{{{kNone, 0, {}}}};
  Rewrite harmless = unsound;
  harmless.name = "rewrap";
  harmless.right = Template{{{kNone, 0, {}}, {values_.wrap, kNone, {0}}}};
  const std::vector<Rewrite> rules{harmless, unsound};
  const RunReport report = run(egraph_, rules, {});
  EXPECT_EQ(report.stop, StopReason::kContradiction);
  ASSERT_TRUE(egraph_.contradiction());
  EXPECT_EQ(egraph_.contradiction()->rule, "unwrap");
  EXPECT_TRUE(egraph_.contradiction()->what == "1 and 2" || egraph_.contradiction()->what == "2 and 1");
  EXPECT_TRUE(egraph_.clean());
}

// Asks each match whether the analysis knows enough; what it makes of it is one e-node.
struct AsksKnowledge : Applier {
  const ValueAnalysis* values = nullptr;
  mutable int asked = 0;
  bool holds(const EGraph&, const Match&) const override { return ++asked, values->known > 0; }
  void apply(EGraph& egraph, const Match& match, std::vector<std::pair<Id, Id>>& unions) const override {
    unions.emplace_back(match.root(), egraph.add(values->neg, std::vector{match.root()}));
  }
};
// Puts another e-node, of the same fact, into the class below; and tells the analysis something, where asked to.
struct Grows : Applier {
  ValueAnalysis* values = nullptr;
  bool tells = false;
  void apply(EGraph& egraph, const Match& match, std::vector<std::pair<Id, Id>>& unions) const override {
    values->known += tells ? 1 : 0;
    unions.emplace_back(match.classes[0], egraph.add(values->wrap, std::vector{match.classes[0]}));
  }
};

TEST_F(AnalysisTest, AMatchOfUnchangedFactsIsLookedAtAgainWhenMoreIsKnown) {
  for (const bool of_facts_alone : {false, true})
    for (const bool tells : {false, true}) {
      ValueAnalysis values;
      EGraph egraph(&values);
      values.declare(egraph);
      egraph.add(values.neg, std::vector{egraph.add(values.unknown, {})});
      Rewrite asks, grows;
      asks.left.nodes.resize(2);
      asks.left.nodes[1] = {PatternNode::Type::kOperator, ValueAnalysis::kNeg, kNone, nullptr, nullptr, {0}};
      grows.left = asks.left;
      auto asking = std::make_shared<AsksKnowledge>();
      asking->values = &values;
      asks.applier = asking;
      asks.of_facts_alone = of_facts_alone;
      asks.budget = 1;
      auto growing = std::make_shared<Grows>();
      growing->values = &values;
      growing->tells = tells;
      grows.applier = growing;
      grows.budget = 1;
      const RunReport report = run(egraph, std::vector<Rewrite>{asks, grows}, {});
      EXPECT_EQ(report.rules[0].applied > 0, tells);
      if (!tells) {
        EXPECT_EQ(asking->asked, of_facts_alone ? 1 : 2);
      }
    }
}

TEST_F(AnalysisTest, TheFirstContradictionStays) {
  egraph_.merge(number(1), number(2));
  egraph_.rebuild();
  ASSERT_TRUE(egraph_.contradiction());
  const std::string first = egraph_.contradiction()->what;
  EXPECT_EQ(egraph_.contradiction()->rule, "");
  egraph_.merge(number(7), number(8));
  egraph_.rebuild();
  EXPECT_EQ(egraph_.contradiction()->what, first);
  EXPECT_EQ(run(egraph_, std::vector<Rewrite>(1), {}).stop, StopReason::kContradiction);
}

TEST_F(AnalysisTest, CongruenceAfterARuleCarriesItsName) {
  // x = y makes wrap(x) = wrap(y), whose values differ.
  const Id x = unknown(), y = unknown();
  const Id wx = egraph_.add(values_.wrap, std::vector{x}), wy = egraph_.add(values_.wrap, std::vector{y});
  egraph_.merge(wx, number(1));
  egraph_.merge(wy, number(2));
  const Id pair = egraph_.add(values_.add, std::vector{x, y});
  (void)pair;
  egraph_.rebuild();
  Rewrite rule;
  rule.name = "wrong";
  rule.left.nodes.resize(3);
  rule.left.nodes[2] = {PatternNode::Type::kOperator, ValueAnalysis::kAdd, kNone, nullptr, nullptr, {0, 1}};
  struct Unite : Applier {
    void apply(EGraph&, const Match& match, std::vector<std::pair<Id, Id>>& unions) const override {
      unions.emplace_back(match.classes[0], match.classes[1]);
    }
  };
  rule.applier = std::make_shared<Unite>();
  EXPECT_EQ(run(egraph_, std::span(&rule, 1), {}).stop, StopReason::kContradiction);
  EXPECT_EQ(egraph_.contradiction()->rule, "wrong");
}

// A guard that turns true only when a fact arrives at a class that the pattern's e-nodes do not name themselves.
class LateGuardTest : public AnalysisTest {
 protected:
  // wrap(neg(?x)) where ?x has a value  =>  ?x, the guard in one of three places.
  enum class Where { kVariable, kInner, kApplier };
  Rewrite guarded(Where where) {
    Rewrite rule;
    rule.name = "guarded";
    rule.left.nodes.resize(3);
    rule.left.nodes[1] = {PatternNode::Type::kOperator, ValueAnalysis::kNeg, kNone, nullptr, nullptr, {0}};
    rule.left.nodes[2] = {PatternNode::Type::kOperator, ValueAnalysis::kWrap, kNone, nullptr, nullptr, {1}};
    rule.right = Template{{{kNone, 0, {}}}};
    const auto known = [this](const EGraph&, Id id) { return values_.facts[id].has_value(); };
    if (where == Where::kVariable) rule.left.nodes[0].accepts = known;
    if (where == Where::kInner) rule.left.nodes[1].accepts = known;
    if (where == Where::kApplier) {
      struct Guard : Applier {
        std::function<bool(const EGraph&, Id)> known;
        bool holds(const EGraph& egraph, const Match& match) const override { return known(egraph, match.classes[0]); }
        void apply(EGraph&, const Match& match, std::vector<std::pair<Id, Id>>& unions) const override {
          unions.emplace_back(match.root(), match.classes[0]);
        }
      };
      auto applier = std::make_shared<Guard>();
      applier->known = known;
      rule.applier = applier;
      rule.right.reset();
    }
    return rule;
  }
};

TEST_F(LateGuardTest, IsRetriedWhenTheFactComes) {
  // One graph: as long as "teach" has not fired the guards are false. Teach fires in the third iteration only, by a chain of wraps.
  for (const Where where : {Where::kVariable, Where::kInner, Where::kApplier}) {
    for (const bool count_all : {false, true}) {
      ValueAnalysis values;
      values.make_leaves = false;  // facts alone, no unions that would make rows fresh
      EGraph egraph(&values);
      values.declare(egraph);
      const OpId step0 = egraph.add_op({.kind = 20}), step1 = egraph.add_op({.kind = 21}), step2 = egraph.add_op({.kind = 22});
      const OpId five = values.leaf(egraph, 5);
      const Id seed = egraph.add(step0, {});
      const Id x = egraph.add(values.neg, std::vector{seed});  // x has no value until seed has
      const Id root = egraph.add(values.wrap, std::vector{egraph.add(values.neg, std::vector{x})});
      const auto relabel = [](const char* name, Kind from, OpId to) {
        Rewrite rule;
        rule.name = name;
        rule.left.nodes = {{PatternNode::Type::kOperator, from, kNone, nullptr, nullptr, {}}};
        rule.right = Template{{{to, kNone, {}}}};
        return rule;
      };
      Rewrite guard = guarded(where);
      const auto known = [&values](const EGraph&, Id id) { return values.facts[id].has_value(); };
      for (auto& node : guard.left.nodes) {
        if (node.accepts) node.accepts = known;
      }
      if (guard.applier != nullptr) {
        struct Guard : Applier {
          const ValueAnalysis* values;
          bool holds(const EGraph&, const Match& match) const override { return values->facts[match.classes[0]].has_value(); }
          void apply(EGraph&, const Match& match, std::vector<std::pair<Id, Id>>& unions) const override {
            unions.emplace_back(match.root(), match.classes[0]);
          }
        };
        auto applier = std::make_shared<Guard>();
        applier->values = &values;
        guard.applier = applier;
      }
      const std::vector<Rewrite> rules{guard, relabel("one", 20, step1), relabel("two", 21, step2), relabel("teach", 22, five)};
      RunOptions options;
      options.count_stale_matches = count_all;
      const RunReport report = run(egraph, rules, options);
      EXPECT_EQ(report.stop, StopReason::kSaturated);
      EXPECT_GE(report.rules[0].applied, 1u);
      EXPECT_LE(report.rules[0].applied, 2u);  // once more where the union itself has changed facts
      EXPECT_EQ(egraph.find(root), egraph.find(x));
      EXPECT_GE(report.iterations.size(), 4u);
    }
  }
}

}  // namespace
}  // namespace saturate
