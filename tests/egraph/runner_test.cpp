#include <cmath>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "egraph/explain.h"
#include "egraph/invariants.h"
#include "egraph/rewrite.h"
#include "egraph/text/text_workload.h"
#include "tests/egraph/ac_text.h"
#include "tests/egraph/naive.h"

namespace saturate {
namespace {

// (+ v1 (+ v2 ... vn)) with associativity, and commutativity as a rule.
RunOptions roomy() {
  RunOptions options;
  options.limits.iterations = 100;
  options.limits.nodes = 10'000'000;
  options.limits.seconds = 600;
  return options;
}

TEST(Runner, AssociativityAndCommutativityHaveAClosedForm) {
  for (int n = 3; n <= 10; ++n) {
    for (const int threads : {1, 2}) {
      for (const bool count_all : {false, true}) {
        auto w = Workload::parse(ac_text(n));
        ASSERT_TRUE(w.ok());
        RunOptions options = roomy();
        options.limits.threads = threads;
        options.limits.threads_from = 0;
        options.count_stale_matches = count_all;
        const RunReport report = run(*w->egraph, w->rules, options);
        EXPECT_EQ(report.stop, StopReason::kSaturated);
        EXPECT_EQ(w->egraph->num_classes(), (std::size_t{1} << n) - 1) << n;
        EXPECT_EQ(w->egraph->num_nodes(), n + static_cast<std::size_t>(std::pow(3, n)) - (std::size_t{1} << (n + 1)) + 1) << n;
        if (n <= 8) {
          EXPECT_EQ(check_invariants(*w->egraph), "");
        }
      }
    }
  }
}

TEST(Runner, AssociativityAndCommutativityOfElevenAndTwelve) {
  for (const int n : {11, 12}) {
    auto w = Workload::parse(ac_text(n));
    ASSERT_TRUE(w.ok());
    RunOptions options = roomy();
    options.limits.threads = n == 12 ? 2 : 1;
    options.limits.threads_from = 0;
    EXPECT_EQ(run(*w->egraph, w->rules, options).stop, StopReason::kSaturated);
    EXPECT_EQ(w->egraph->num_classes(), (std::size_t{1} << n) - 1) << n;
    EXPECT_EQ(w->egraph->num_nodes(), n + static_cast<std::size_t>(std::pow(3, n)) - (std::size_t{1} << (n + 1)) + 1) << n;
  }
}

TEST(Runner, CommutativityInTheMatcherGivesTheSameClasses) {
  for (int n = 3; n <= 9; ++n) {
    auto w = Workload::parse(ac_text(n), {.reverse_rules = false, .commutative_matching = true});
    ASSERT_TRUE(w.ok());
    EXPECT_EQ(w->rules.size(), 1u);
    const RunReport report = run(*w->egraph, w->rules, roomy());
    EXPECT_EQ(report.stop, StopReason::kSaturated);
    EXPECT_EQ(w->egraph->num_classes(), (std::size_t{1} << n) - 1) << n;
    // Each pair of children once: half of the sums.
    EXPECT_EQ(w->egraph->num_nodes() - n, (static_cast<std::size_t>(std::pow(3, n)) - (std::size_t{1} << (n + 1)) + 1) / 2) << n;
  }
}

TEST(Runner, NodeLimitIsNeverPassed) {
  for (const std::size_t limit : {20u, 21u, 37u, 100u, 500u, 1234u}) {
    auto w = Workload::parse(ac_text(8));
    ASSERT_TRUE(w.ok());
    RunOptions options = roomy();
    options.limits.nodes = limit;
    bool inside = true;
    options.on_iteration = [&](const IterationStats& it) { inside &= it.nodes <= limit; };
    const RunReport report = run(*w->egraph, w->rules, options);
    EXPECT_EQ(report.stop, StopReason::kNodeLimit);
    EXPECT_TRUE(inside);
    EXPECT_LE(w->egraph->num_nodes(), limit);
    EXPECT_EQ(check_invariants(*w->egraph), "");
  }
  // Just enough is enough: the limit counts canonical e-nodes, and nothing is refused that would not pass it.
  auto w = Workload::parse(ac_text(5));
  RunOptions options = roomy();
  options.limits.nodes = 5 + 243 - 64 + 1;
  options.limits.iterations = 1000;
  RunReport report = run(*w->egraph, w->rules, options);
  while (report.stop == StopReason::kNodeLimit && report.iterations.size() < 1000) {
    // Duplicates that only the next union shows may stand in the way for a while; the closed graph itself fits.
    const RunReport again = run(*w->egraph, w->rules, options);
    if (again.iterations.size() <= 1 && again.stop == StopReason::kNodeLimit) break;
    report = again;
  }
  EXPECT_LE(w->egraph->num_nodes(), options.limits.nodes);
}

TEST(Runner, IterationTimeMemoryAndCancelStop) {
  auto w = Workload::parse(ac_text(8));
  RunOptions options = roomy();
  options.limits.iterations = 2;
  RunReport report = run(*w->egraph, w->rules, options);
  EXPECT_EQ(report.stop, StopReason::kIterationLimit);
  EXPECT_EQ(report.iterations.size(), 2u);

  options = roomy();
  options.limits.seconds = 0;
  EXPECT_EQ(run(*w->egraph, w->rules, options).stop, StopReason::kTimeLimit);

  options = roomy();
  options.limits.memory_bytes = 1000;
  EXPECT_EQ(run(*w->egraph, w->rules, options).stop, StopReason::kMemoryLimit);

  for (const std::size_t limit : {300'000u, 1'000'000u, 3'000'000u}) {
    auto v = Workload::parse(ac_text(10));
    options = roomy();
    options.limits.memory_bytes = limit;
    const RunReport bounded = run(*v->egraph, v->rules, options);
    EXPECT_EQ(bounded.stop, StopReason::kMemoryLimit);
    EXPECT_LE(bounded.peak_memory_bytes, limit);
    EXPECT_GT(bounded.peak_memory_bytes, limit / 4);
    EXPECT_EQ(check_invariants(*v->egraph), "");
  }

  std::atomic<bool> cancel = false;
  options = roomy();
  options.limits.cancel = &cancel;
  options.on_iteration = [&](const IterationStats& it) { cancel = it.iteration == 3; };
  report = run(*w->egraph, w->rules, options);
  EXPECT_EQ(report.stop, StopReason::kCancelled);
  EXPECT_EQ(report.iterations.size(), 3u);
  EXPECT_EQ(check_invariants(*w->egraph), "");
}

TEST(Runner, NoRulesAndNoNodes) {
  EGraph empty;
  EXPECT_EQ(run(empty, {}, {}).stop, StopReason::kSaturated);
  auto w = Workload::parse("(rule r (f ?x) ?x)");
  const RunReport report = run(*w->egraph, w->rules, {});
  EXPECT_EQ(report.stop, StopReason::kSaturated);
  EXPECT_EQ(report.iterations.size(), 1u);
}

TEST(Runner, StatisticsPerRule) {
  auto w = Workload::parse("(rule wrap (f ?x) (g ?x)) (rule same (g ?x) (f ?x)) (rule never (h ?x) ?x) (root (f (f a)))");
  const RunReport report = run(*w->egraph, w->rules, roomy());
  EXPECT_EQ(report.stop, StopReason::kSaturated);
  EXPECT_EQ(report.rules[0].name, "wrap");
  EXPECT_EQ(report.rules[0].fresh, 2u);
  EXPECT_EQ(report.rules[0].applied, 2u);
  EXPECT_EQ(report.rules[0].nodes_made, 2u);
  EXPECT_EQ(report.rules[1].nodes_made, 0u);
  EXPECT_EQ(report.rules[2].matches, 0u);
  for (const Id c : w->egraph->classes()) {
    for (const NodeId n : w->egraph->class_nodes(c)) {
      EXPECT_EQ(w->egraph->made_by(n), w->op_names[w->egraph->node(n).op] == "g" ? 0u : kNone);
    }
  }
}

TEST(Runner, ABudgetEndsARuleAndThatIsNotSaturation) {
  auto w = Workload::parse("(rule grow (f ?x) (f (g ?x))) (root (f a))");
  w->rules[0].budget = 7;
  const RunReport report = run(*w->egraph, w->rules, roomy());
  EXPECT_EQ(report.rules[0].applied, 7u);
  EXPECT_EQ(w->egraph->num_nodes(), 2u + 14u);
  EXPECT_TRUE(report.budget_exhausted);
  EXPECT_NE(report.stop, StopReason::kSaturated);

  auto v = Workload::parse("(rule once (f ?x) (g ?x)) (root (f a))");
  v->rules[0].budget = 1;  // exactly enough
  const RunReport enough = run(*v->egraph, v->rules, roomy());
  EXPECT_EQ(enough.stop, StopReason::kSaturated);
  EXPECT_FALSE(enough.budget_exhausted);
}

TEST(Runner, PhasesComeOneAfterTheOther) {
  auto w = Workload::parse("(rule late (g ?x) (h ?x)) (rule early (f ?x) (g ?x)) (root (f (f a)))");
  w->rules[0].phase = 5;
  std::vector<std::size_t> nodes;
  RunOptions options = roomy();
  options.on_iteration = [&](const IterationStats& it) { nodes.push_back(it.nodes); };
  const RunReport report = run(*w->egraph, w->rules, options);
  EXPECT_EQ(report.stop, StopReason::kSaturated);
  EXPECT_EQ(nodes, (std::vector<std::size_t>{5, 5, 7, 7}));
  EXPECT_EQ(report.rules[0].applied, 2u);
}

TEST(Runner, RulesOfTheLastPhaseRunAloneAndOnce) {
  // `echo` would make h of g again, and `last` would find its own result.
  auto w = Workload::parse("(rule last (h ?x) (h (g ?x))) (rule echo (g ?x) (k ?x)) (rule early (f ?x) (h ?x)) (root (f a))");
  w->rules[0].phase = Rewrite::kLastPhase;
  const RunReport report = run(*w->egraph, w->rules, roomy());
  EXPECT_EQ(report.stop, StopReason::kSaturated);
  EXPECT_EQ(report.rules[0].applied, 1u);
  EXPECT_EQ(report.rules[1].applied, 0u);
  EXPECT_EQ(w->egraph->num_nodes(), 5u);  // f, a, h, g, and h of g
}

TEST(Runner, RulesOfTheLastPhaseRunAfterTheLastIterationToo) {
  auto w = Workload::parse("(rule last (f ?x) (k ?x)) (rule forever (f ?x) (f (g ?x))) (root (f a))");
  w->rules[0].phase = Rewrite::kLastPhase;
  RunOptions options = roomy();
  options.limits.iterations = 3;
  const RunReport report = run(*w->egraph, w->rules, options);
  EXPECT_EQ(report.stop, StopReason::kIterationLimit);
  EXPECT_GT(report.rules[0].applied, 0u);
  EXPECT_EQ(report.iterations.size(), 4u);
}

TEST(Runner, RulesOfAnAlonePhaseRunToTheEndWithoutTheOthers) {
  // `alone` goes on through what it makes; `echo` does not see it.
  auto w = Workload::parse("(rule alone (h (g ?x)) (g (h ?x))) (rule echo (h ?x) (k ?x)) (rule early (f ?x) (g ?x)) (root (h (f (f a))))");
  w->rules[0].phase = Rewrite::kAlonePhase;
  const RunReport report = run(*w->egraph, w->rules, roomy());
  EXPECT_EQ(report.stop, StopReason::kSaturated);
  EXPECT_EQ(report.rules[0].applied, 2u);  // h g g a = g h g a = g g h a
  EXPECT_EQ(report.rules[1].applied, 1u);  // of the h that was given
}

TEST(Runner, AnAlonePhaseHasIterationsOfItsOwn) {
  auto w = Workload::parse("(rule alone (f ?x) (k ?x)) (rule forever (f ?x) (f (g ?x))) (root (f a))");
  w->rules[0].phase = Rewrite::kAlonePhase;
  RunOptions options = roomy();
  options.limits.iterations = 3;
  const RunReport report = run(*w->egraph, w->rules, options);
  EXPECT_EQ(report.stop, StopReason::kIterationLimit);  // `forever` had more to do
  EXPECT_EQ(report.rules[0].applied, 4u);
  EXPECT_EQ(report.iterations.size(), 5u);  // the last one has nothing left to do
}

TEST(Runner, ARuleIsAppliedToAMatchOnce) {
  auto w = Workload::parse(ac_text(6));
  const RunReport report = run(*w->egraph, w->rules, roomy());
  // Commutativity fires once for each sum with an order of its children; re-canonicalized ones may come again, but not each iteration.
  EXPECT_LT(report.rules[0].applied, 3 * w->egraph->num_nodes());
  EXPECT_EQ(report.rules[0].applied, report.rules[0].fresh);
}

TEST(Runner, RulesAreMadeWhenTheyCanMatch) {
  for (const bool reasons : {false, true}) {
    const char* text = "(rule late (g ?x (f ?y)) (h ?x)) (rule early (f ?x) (g ?x ?x)) (rule never (k ?x) (h ?x)) (root (f (f a)))";
    auto ready = Workload::parse(text), w = Workload::parse(text);
    if (reasons) record_explanations(*w->egraph);
    std::vector<std::string> made;
    std::vector<Rewrite> rules;
    for (const Rewrite& rule : w->rules) {
      Rewrite later;
      later.name = rule.name;
      for (const PatternNode& node : rule.left.nodes)
        if (node.type == PatternNode::Type::kOperator) later.wants.push_back(node.kind);
      later.make = [&made, rule] {
        made.push_back(rule.name);
        return rule;
      };
      rules.push_back(std::move(later));
    }
    const RunReport report = run(*w->egraph, rules, roomy()), wanted = run(*ready->egraph, ready->rules, roomy());
    EXPECT_EQ(made, reasons ? (std::vector<std::string>{"late", "early", "never"}) : (std::vector<std::string>{"early", "late"}));
    EXPECT_EQ(report.stop, wanted.stop);
    ASSERT_EQ(report.rules.size(), 3u);
    for (std::size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(report.rules[r].name, wanted.rules[r].name);
      EXPECT_EQ(report.rules[r].matches, wanted.rules[r].matches);
      EXPECT_EQ(report.rules[r].applied, wanted.rules[r].applied);
    }
    EXPECT_EQ(report.iterations.size(), wanted.iterations.size());
    EXPECT_EQ(w->egraph->num_nodes(), ready->egraph->num_nodes());
    EXPECT_EQ(check_invariants(*w->egraph), "");
  }
}

// ---- appliers ----

struct TwoLeaves : Applier {
  OpId h = 0, a = 0;
  void apply(EGraph& egraph, const Match& match, std::vector<std::pair<Id, Id>>& unions) const override {
    const Id x = egraph.add(a, {});
    unions.emplace_back(match.root(), egraph.add(h, std::vector{x, match.classes[0]}));
  }
};

TEST(Runner, AnApplierAddsAndUnites) {
  auto w = Workload::parse("(rule r (f ?x) (h b ?x)) (root (f (f b)))");
  auto applier = std::make_shared<TwoLeaves>();
  applier->h = static_cast<OpId>(std::find(w->op_names.begin(), w->op_names.end(), "h") - w->op_names.begin());
  applier->a = w->egraph->add_op({.kind = 77});
  Rewrite rule;
  rule.name = "native";
  rule.left = w->rules[0].left;
  rule.applier = applier;
  const RunReport report = run(*w->egraph, std::span(&rule, 1), roomy());
  EXPECT_EQ(report.stop, StopReason::kSaturated);
  EXPECT_EQ(report.rules[0].applied, 2u);
  EXPECT_EQ(report.rules[0].nodes_made, 3u);
  EXPECT_EQ(w->egraph->num_nodes(), 6u);
  EXPECT_EQ(w->egraph->num_classes(), 4u);
  EXPECT_EQ(w->egraph->made_by(w->egraph->class_nodes(w->egraph->lookup(applier->a, {}))[0]), 0u);
  EXPECT_EQ(check_invariants(*w->egraph), "");
}

TEST(Runner, AnApplierCannotPassTheNodeLimit) {
  for (const std::size_t limit : {3u, 4u, 5u, 6u}) {
    auto w = Workload::parse("(rule r (f ?x) (h b ?x)) (root (f (f b)))");
    auto applier = std::make_shared<TwoLeaves>();
    applier->h = static_cast<OpId>(std::find(w->op_names.begin(), w->op_names.end(), "h") - w->op_names.begin());
    applier->a = w->egraph->add_op({.kind = 77});
    Rewrite rule;
    rule.left = w->rules[0].left;
    rule.applier = applier;
    RunOptions options = roomy();
    options.limits.nodes = limit;
    const RunReport report = run(*w->egraph, std::span(&rule, 1), options);
    EXPECT_EQ(report.stop, limit < 6 ? StopReason::kNodeLimit : StopReason::kSaturated);
    EXPECT_EQ(w->egraph->num_nodes(), limit < 5 ? 3 : limit);
    EXPECT_EQ(check_invariants(*w->egraph), "");
  }
}

// ---- random rule sets against a naive saturation ----

TEST(Runner, RandomRulesGiveTheNaiveResult) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::srand(seed);
    const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(std::rand()) % n; };
    Language language;
    EGraph egraph;
    language.egraph = &egraph;
    for (const char* name : {"a", "b", "f", "g", "sub"}) language.declare(name);
    language.declare("add", seed % 2 == 0);
    NaiveEGraph naive(language.traits);
    const std::size_t arity[] = {0, 0, 1, 1, 2, 2};
    std::vector<Id> ids;
    for (int i = 0; i < 12; ++i) {
      const std::size_t op = i < 2 ? i : pick(6);
      std::vector<Id> children;
      for (std::size_t k = 0; k < arity[op]; ++k) children.push_back(ids[pick(ids.size())]);
      ids.push_back(egraph.add(static_cast<OpId>(op), children));
      ASSERT_EQ(naive.add(static_cast<OpId>(op), children), ids.back());
    }
    std::vector<Rewrite> rules;
    for (int i = 0; i < 4; ++i) {
      const auto& [left, right] = kRandomRules[pick(std::size(kRandomRules))];
      rules.push_back(rule_of(language, left, left, right));
    }
    RunOptions options = roomy();
    options.limits.iterations = 3;
    options.limits.threads = static_cast<int>(1 + seed % 2);
    options.limits.threads_from = 0;
    options.limits.nodes = 400;
    const RunReport report = run(egraph, rules, options);
    if (report.stop == StopReason::kNodeLimit) continue;
    for (int iteration = 0; iteration < 3; ++iteration) {
      std::vector<std::pair<const Rewrite*, std::vector<Id>>> todo;
      for (const Rewrite& rule : rules) {
        for (const auto& binding : naive.match(rule.left)) todo.emplace_back(&rule, binding);
      }
      for (const auto& [rule, binding] : todo) {
        std::vector<Id> values;
        for (const Template::Node& node : rule->right->nodes) {
          std::vector<Id> children;
          for (const std::uint32_t child : node.children) children.push_back(values[child]);
          values.push_back(node.op == kNone ? binding[node.slot] : naive.add(node.op, children));
        }
        naive.merge(binding.back(), values.back());
      }
      naive.rebuild();
    }
    ASSERT_EQ(egraph.num_nodes(), naive.num_nodes()) << "seed " << seed;
    ASSERT_EQ(egraph.num_classes(), naive.num_classes()) << "seed " << seed;
    for (const Id a : ids) {
      for (const Id b : ids) ASSERT_EQ(egraph.find(a) == egraph.find(b), naive.find(a) == naive.find(b)) << "seed " << seed;
    }
    ASSERT_EQ(check_invariants(egraph), "");
  }
}

TEST(Runner, AMillionDeepChainIsRewritten) {
  EGraph egraph;
  Language language;
  language.egraph = &egraph;
  for (const char* name : {"a", "f", "g"}) language.declare(name);
  Id x = egraph.add(0, {});
  for (int i = 0; i < 1'000'000; ++i) x = egraph.add(1, std::vector{x});
  std::vector<Rewrite> rules{rule_of(language, "collapse", "(f (f ?x))", "?x")};
  RunOptions options = roomy();
  EXPECT_EQ(run(egraph, rules, options).stop, StopReason::kSaturated);
  EXPECT_EQ(egraph.num_classes(), 2u);
  EXPECT_EQ(egraph.num_nodes(), 3u);
}

TEST(Runner, SameResultWhateverTheThreads) {
  std::vector<std::string> dumps;
  for (const int threads : {1, 2, 4, 0}) {
    auto w = Workload::parse(ac_text(8));
    RunOptions options = roomy();
    options.limits.threads = threads;
    options.limits.threads_from = 0;
    options.limits.iterations = 6;
    options.limits.nodes = 3000;  // stops inside an iteration
    run(*w->egraph, w->rules, options);
    std::string dump;
    for (const Id c : w->egraph->classes()) {
      for (const NodeId n : w->egraph->class_nodes(c)) {
        dump += std::to_string(c) + ":" + std::to_string(n) + "(";
        for (const Id child : w->egraph->node(n).children) dump += std::to_string(child) + " ";
      }
    }
    dumps.push_back(dump);
  }
  for (const std::string& dump : dumps) EXPECT_EQ(dump, dumps[0]);
}

}  // namespace
}  // namespace saturate
