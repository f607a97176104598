// The text workloads: counts per iteration equal to those of egg (expected.json).
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "egraph/dump.h"
#include "egraph/explain.h"
#include "egraph/invariants.h"
#include "egraph/rewrite.h"
#include "egraph/text/text_workload.h"

namespace saturate {
namespace {

std::optional<std::string> read(const std::string& name) {
  std::ifstream in(SATURATE_SOURCE_DIR "/bench/workloads/" + name);
  if (!in) return std::nullopt;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Case {
  const char* workload;
  const char* scheduler;
  int threads;
  bool reverse_rules;
};
class WorkloadTest : public ::testing::TestWithParam<Case> {};

TEST_P(WorkloadTest, CountsEqualExpected) {
  const Case& c = GetParam();
  const auto text = read(std::string(c.workload) + ".txt"), expected_text = read("expected.json");
  ASSERT_TRUE(text && expected_text);
  const auto expected = nlohmann::json::parse(*expected_text)[c.workload][c.scheduler];
  auto w = Workload::parse(*text, {.reverse_rules = c.reverse_rules, .commutative_matching = false});
  ASSERT_TRUE(w.ok()) << w.status();
  EXPECT_EQ(w->egraph->num_nodes(), expected["start"]["nodes"]);
  EXPECT_EQ(w->egraph->num_classes(), expected["start"]["classes"]);
  RunOptions options;
  options.scheduler = std::string_view(c.scheduler) == "backoff" ? make_backoff_scheduler() : make_simple_scheduler();
  options.limits.iterations = expected["iterations"].size();
  options.limits.nodes = 100'000'000;
  options.limits.seconds = 600;
  options.limits.threads = c.threads;
  options.limits.threads_from = 0;
  options.count_stale_matches = true;
  const RunReport report = run(*w->egraph, w->rules, options);
  ASSERT_EQ(report.iterations.size(), expected["iterations"].size());
  for (std::size_t i = 0; i < report.iterations.size(); ++i) {
    const auto& want = expected["iterations"][i];
    ASSERT_EQ(report.iterations[i].nodes, want["nodes"]) << "iteration " << i + 1;
    ASSERT_EQ(report.iterations[i].classes, want["classes"]) << "iteration " << i + 1;
    ASSERT_EQ(report.iterations[i].matches, want["matches"]) << "iteration " << i + 1;
  }
  EXPECT_EQ(class_sizes_fnv1a64(*w->egraph), expected["class_sizes"]["fnv1a64"].get<std::string>());
  std::map<std::string, std::size_t> by_op;
  for (const Id id : w->egraph->classes()) {
    for (const NodeId n : w->egraph->class_nodes(id)) ++by_op[w->op_names[w->egraph->node(n).op]];
  }
  for (const auto& [name, count] : expected["nodes_by_op"].items()) EXPECT_EQ(by_op[name], count) << name;
  EXPECT_EQ(report.stop == StopReason::kSaturated, expected["stop"] == "Saturated");
  if (w->egraph->num_nodes() < 20000) {
    EXPECT_EQ(check_invariants(*w->egraph), "");
  }
}

INSTANTIATE_TEST_SUITE_P(All, WorkloadTest,
                         ::testing::Values(Case{"ac8", "simple", 1, false}, Case{"ac8", "simple", 2, true}, Case{"ac9", "simple", 1, true},
                                           Case{"ac10", "backoff", 1, false}, Case{"math", "backoff", 1, false},
                                           Case{"math", "backoff", 2, true}, Case{"math_cond", "backoff", 1, false},
                                           Case{"math_cond", "backoff", 2, true}, Case{"prop", "simple", 1, false},
                                           Case{"prop", "simple", 2, true}, Case{"prop", "backoff", 1, false},
                                           Case{"tensor12", "backoff", 2, false}, Case{"tensor24", "backoff", 1, false},
                                           Case{"tensor48", "simple", 1, false}, Case{"tensor48", "backoff", 1, true}),
                         [](const auto& info) {
                           return std::string(info.param.workload) + "_" + info.param.scheduler + "_" + std::to_string(info.param.threads) +
                                  (info.param.reverse_rules ? "_reversed" : "");
                         });

TEST(Workload, CommutativeMatchingOfPropGivesTheSameClasses) {
  // A small formula that saturates, with commutativity as rules and in the matcher.
  const std::string rules =
      "(rule c1 (& ?a ?b) (& ?b ?a)) (rule c2 (| ?a ?b) (| ?b ?a)) (rule i1 (& ?a ?a) ?a) (rule i2 (| ?a ?a) ?a) (rule lem (| ?a (~ ?a)) "
      "true)"
      "(rule t1 (| ?a true) true) (rule t2 (& ?a true) ?a) (rule dn (~ (~ ?a)) ?a) (rule a1 (& ?a (& ?b ?c)) (& (& ?a ?b) ?c))"
      "(root (& (| p (~ p)) (& q (& r (& (| true s) q)))))";
  auto as_rules = Workload::parse(rules);
  auto in_matcher = Workload::parse(rules, {.reverse_rules = false, .commutative_matching = true});
  ASSERT_TRUE(as_rules.ok() && in_matcher.ok());
  EXPECT_EQ(run(*as_rules->egraph, as_rules->rules, {}).stop, StopReason::kSaturated);
  EXPECT_EQ(run(*in_matcher->egraph, in_matcher->rules, {}).stop, StopReason::kSaturated);
  EXPECT_EQ(as_rules->egraph->num_classes(), in_matcher->egraph->num_classes());
  EXPECT_GT(as_rules->egraph->num_nodes(), in_matcher->egraph->num_nodes());
}

TEST(Workload, CommutativeMatchingOfProp) {
  // The workload, cut where it still is small: what commutativity as a rule finds equal, the matcher finds equal as well.
  const auto text = read("prop.txt");
  ASSERT_TRUE(text);
  auto as_rules = Workload::parse(*text);
  auto in_matcher = Workload::parse(*text, {.reverse_rules = false, .commutative_matching = true});
  ASSERT_TRUE(as_rules.ok() && in_matcher.ok());
  ASSERT_TRUE(record_explanations(*as_rules->egraph));  // so that e-nodes print as they were made
  EXPECT_EQ(as_rules->rules.size(), in_matcher->rules.size() + 2);
  RunOptions options;
  options.limits.iterations = 4;
  run(*as_rules->egraph, as_rules->rules, options);
  run(*in_matcher->egraph, in_matcher->rules, options);
  // Each class of terms that the rules made equal is one class of the matcher's e-graph too.
  std::map<Id, Id> image;
  std::size_t compared = 0;
  for (NodeId n = 0; n < as_rules->egraph->num_ids(); ++n) {
    const auto other = in_matcher->add_term(term_text(
        *as_rules->egraph, n, [&](OpId op) { return as_rules->op_texts[op]; }, 200));
    if (!other.ok()) continue;  // too long to be printed whole
    in_matcher->egraph->rebuild();
    const auto [it, fresh] = image.try_emplace(as_rules->egraph->find(n), *other);
    if (!fresh) {
      EXPECT_EQ(in_matcher->egraph->find(it->second), in_matcher->egraph->find(*other));
    }
    ++compared;
  }
  EXPECT_GT(compared, 500u);
}

TEST(Workload, BadTextIsRefusedWithItsLine) {
  for (const auto& [text, message] :
       std::vector<std::pair<const char*, const char*>>{{"(root a", "line 1: '(' without ')'"},
                                                        {"\n\n)", "line 3: ')' without '('"},
                                                        {"(root $x)", "line 1: unknown name $x"},
                                                        {"(rule r (f ?x) ?y)", "line 1: ?y does not stand on the left"},
                                                        {"(nonsense)", "line 1: unknown form 'nonsense' or wrong number of parts"},
                                                        {"atom", "line 1: a form (name ...) was expected"},
                                                        {"(rule r (f ?x) ?x (is-num ?z))", "line 1: a condition on an unbound variable"},
                                                        {"(root ?x)", "line 1: a pattern variable in a term"},
                                                        {"(root ())", "line 1: a term (operator ...) was expected"}}) {
    const auto w = Workload::parse(text);
    ASSERT_FALSE(w.ok()) << text;
    EXPECT_EQ(std::string(w.status().message()), message);
  }
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "(f ";
  EXPECT_FALSE(Workload::parse("(root " + deep).ok());
  EXPECT_TRUE(Workload::parse("; nothing but a comment").ok());
}

}  // namespace
}  // namespace saturate
