#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "egraph/explain.h"
#include "egraph/invariants.h"
#include "egraph/rewrite.h"
#include "egraph/text/text_workload.h"
#include "tests/egraph/ac_text.h"

namespace saturate {
namespace {

RunOptions with(std::shared_ptr<Scheduler> scheduler) {
  RunOptions options;
  options.scheduler = std::move(scheduler);
  options.limits.iterations = 10'000;
  options.limits.nodes = 1'000'000;
  return options;
}

TEST(Scheduler, AllSaturateToTheSameEGraph) {
  for (const int threads : {1, 2}) {
    for (const bool count_all : {false, true}) {
      for (const auto& make : {+[]() -> std::shared_ptr<Scheduler> { return make_simple_scheduler(); },
                               +[]() -> std::shared_ptr<Scheduler> { return make_backoff_scheduler(20, 2); },
                               +[]() -> std::shared_ptr<Scheduler> { return make_quota_scheduler(0.1, 1); },
                               +[]() -> std::shared_ptr<Scheduler> { return make_quota_scheduler(); }}) {
        auto w = Workload::parse(ac_text(6));
        ASSERT_TRUE(w.ok());
        RunOptions options = with(make());
        options.limits.threads = threads;
        options.limits.threads_from = 0;
        options.count_stale_matches = count_all;
        EXPECT_EQ(run(*w->egraph, w->rules, options).stop, StopReason::kSaturated) << options.scheduler->name();
        EXPECT_EQ(w->egraph->num_classes(), 63u) << options.scheduler->name();
        EXPECT_EQ(w->egraph->num_nodes(), 6u + 729 - 128 + 1) << options.scheduler->name();
        EXPECT_EQ(check_invariants(*w->egraph), "");
      }
    }
  }
}

TEST(Scheduler, TheQuotaBoundsWhatARuleDoesInAnIteration) {
  // Two rules that feed themselves, and one that has its places from the start.
  std::string text = "(rule grow (f ?x) (f (g ?x))) (rule wrap (g ?x) (g (h ?x))) (rule few (k ?x) (m ?x)) (root (f a))";
  for (int i = 0; i < 40; ++i) text += fmt::format("(root (k b{}))", i);
  auto w = Workload::parse(text);
  ASSERT_TRUE(w.ok());
  RunOptions options = with(make_quota_scheduler(0.5, 3));
  options.limits.iterations = 20;
  std::vector<std::size_t> nodes{w->egraph->num_nodes()};
  options.on_iteration = [&](const IterationStats& it) { nodes.push_back(it.nodes); };
  const RunReport report = run(*w->egraph, w->rules, options);
  EXPECT_EQ(report.stop, StopReason::kIterationLimit);
  EXPECT_EQ(report.rules[2].applied, 40u);
  EXPECT_EQ(report.rules[2].nodes_made, 40u);
  // 82 e-nodes at the start: at most 41 applications of a rule, two e-nodes each.
  for (std::size_t i = 1; i < nodes.size(); ++i) EXPECT_LE(nodes[i], nodes[i - 1] + 3 * 2 * 41);
  EXPECT_EQ(check_invariants(*w->egraph), "");

  // Where everything feeds everything, it keeps the e-graph small.
  std::size_t sizes[2];
  for (const bool quota : {false, true}) {
    auto ac = Workload::parse(ac_text(9));
    RunOptions limited = with(quota ? make_quota_scheduler() : make_simple_scheduler());
    limited.limits.iterations = 8;
    run(*ac->egraph, ac->rules, limited);
    sizes[quota] = ac->egraph->num_nodes();
  }
  EXPECT_LT(10 * sizes[1], sizes[0]);
}

TEST(Scheduler, WhatTheQuotaLeavesIsAppliedOldestFirst) {
  std::string text = "(rule r (k ?x) (m ?x))";
  for (int i = 0; i < 10; ++i) text += fmt::format("(root (k b{}))", i);
  auto w = Workload::parse(text);
  RunOptions options = with(make_quota_scheduler(0, 4));
  std::vector<std::size_t> nodes;
  options.on_iteration = [&](const IterationStats& it) { nodes.push_back(it.nodes); };
  const RunReport report = run(*w->egraph, w->rules, options);
  EXPECT_EQ(report.stop, StopReason::kSaturated);
  // Four an iteration; the rule is searched again (and finds nothing) once nothing is left.
  EXPECT_EQ(nodes, (std::vector<std::size_t>{24, 28, 30, 30}));
  EXPECT_EQ(report.rules[0].fresh, 10u);
  EXPECT_EQ(report.rules[0].applied, 10u);
}

TEST(Scheduler, ABudgetHoldsUnderAQuota) {
  std::string text = "(rule r (k ?x) (m ?x))";
  for (int i = 0; i < 10; ++i) text += fmt::format("(root (k b{}))", i);
  for (const std::uint64_t budget : {1u, 3u, 4u, 5u, 9u, 10u, 11u}) {
    auto w = Workload::parse(text);
    w->rules[0].budget = budget;
    const RunReport report = run(*w->egraph, w->rules, with(make_quota_scheduler(0, 4)));
    EXPECT_EQ(report.rules[0].nodes_made, std::min<std::uint64_t>(budget, 10)) << budget;
    EXPECT_EQ(report.budget_exhausted, budget < 10) << budget;
    EXPECT_EQ(report.stop == StopReason::kSaturated, budget >= 10) << budget;
  }
}

TEST(Scheduler, LimitsHoldWhileMatchesAreLeft) {
  for (const std::size_t limit : {50u, 77u, 300u}) {
    auto w = Workload::parse(ac_text(7));
    RunOptions options = with(make_quota_scheduler(0.2, 5));
    options.limits.nodes = limit;
    const RunReport report = run(*w->egraph, w->rules, options);
    EXPECT_EQ(report.stop, StopReason::kNodeLimit);
    EXPECT_LE(w->egraph->num_nodes(), limit);
    EXPECT_EQ(check_invariants(*w->egraph), "");
  }
}

TEST(Scheduler, LeftMatchesAreExplained) {
  auto w = Workload::parse(ac_text(5));
  ASSERT_TRUE(record_explanations(*w->egraph));
  EXPECT_EQ(run(*w->egraph, w->rules, with(make_quota_scheduler(0, 3))).stop, StopReason::kSaturated);
  for (Id a = 0; a < w->egraph->num_ids(); ++a) {
    const Id b = w->egraph->find(a);
    const auto why = explain(*w->egraph, a, b);
    ASSERT_TRUE(why.has_value());
    ASSERT_EQ(check_explanation(*w->egraph, *why, a, b), "");
  }
}

TEST(Scheduler, BackoffBansDoublesAndCallsBack) {
  const auto backoff = make_backoff_scheduler(10, 3);
  backoff->start(2, 100);
  EXPECT_EQ(backoff->match_limit(0), 10u);
  backoff->passed(0, 5);
  EXPECT_FALSE(backoff->searches(0, 7));
  EXPECT_TRUE(backoff->searches(0, 8));
  EXPECT_TRUE(backoff->searches(1, 7));
  EXPECT_EQ(backoff->match_limit(0), 20u);
  backoff->passed(0, 8);
  EXPECT_FALSE(backoff->searches(0, 13));
  EXPECT_TRUE(backoff->resume(9));
  EXPECT_TRUE(backoff->searches(0, 9));
  EXPECT_FALSE(backoff->resume(10));
  for (int i = 0; i < 80; ++i) backoff->passed(0, 10);
  EXPECT_EQ(backoff->match_limit(0), Scheduler::kAll);
  EXPECT_FALSE(backoff->searches(0, 1'000'000)) << "the ban grows beyond all numbers too";
  EXPECT_TRUE(backoff->resume(20));
  EXPECT_TRUE(backoff->searches(0, 20));
}

// A scheduler of a user: rules take turns.
struct Turns : Scheduler {
  std::size_t rules = 1;
  std::size_t idle = 0;
  void start(std::size_t n, std::size_t) override { rules = n, idle = 0; }
  bool searches(std::size_t rule, std::size_t iteration) const override { return iteration % rules == rule; }
  void applied(std::size_t, const Applied& what) override {
    if (what.effective > 0) idle = 0;
  }
  bool resume(std::size_t) override { return ++idle < rules; }
};

TEST(Scheduler, AUsersOwnWorksToo) {
  auto w = Workload::parse(ac_text(5));
  const RunReport report = run(*w->egraph, w->rules, with(std::make_shared<Turns>()));
  EXPECT_EQ(report.stop, StopReason::kSaturated);
  EXPECT_EQ(w->egraph->num_classes(), 31u);
}

}  // namespace
}  // namespace saturate
