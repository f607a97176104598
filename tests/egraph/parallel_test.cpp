// Several threads: each piece of work done once, and e-graphs the same id for id, also where thousands of matches are applied at once.
#include "egraph/parallel.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "egraph/egraph_impl.h"
#include "egraph/invariants.h"
#include "egraph/rewrite.h"
#include "egraph/text/text_workload.h"

namespace saturate {
namespace {

TEST(TeamTest, EachPieceOnceAndSeenAfterwards) {
  for (const int threads : {1, 2, 4}) {
    Team team(threads);
    std::vector<std::uint32_t> done;
    for (std::size_t phase = 0; phase < 3'000; ++phase) {
      const std::size_t n = phase % 37;
      done.assign(n, 0);
      std::atomic<bool> wrong_worker = false;
      team.run(n, [&](std::size_t i, std::size_t worker) {
        ++done[i];
        if (worker >= team.threads()) wrong_worker = true;
      });
      ASSERT_FALSE(wrong_worker);
      ASSERT_EQ(done, std::vector<std::uint32_t>(n, 1));
    }
  }
}

TEST(TeamTest, LongAndShortPieces) {
  Team team(3);
  std::vector<std::uint64_t> sums(64);
  for (int phase = 0; phase < 20; ++phase) {
    team.run(sums.size(), [&](std::size_t i, std::size_t) {
      for (std::size_t k = 0; k < i * i * 20; ++k) sums[i] += k ^ i;
    });
  }
  Team alone(1);
  std::vector<std::uint64_t> want(64);
  for (int phase = 0; phase < 20; ++phase) {
    alone.run(want.size(), [&](std::size_t i, std::size_t) {
      for (std::size_t k = 0; k < i * i * 20; ++k) want[i] += k ^ i;
    });
  }
  EXPECT_EQ(sums, want);
}

// A binary tree over leaves of which some are equal: thousands of matches at once, many of which need the same e-nodes.
std::string tree(std::size_t leaves, std::size_t first = 0) {
  if (leaves == 1) return fmt::format("v{}", first * 7 % 61);
  const std::string left = tree(leaves / 2, first), right = tree(leaves - leaves / 2, first + leaves / 2);
  return fmt::format("({} {} {})", first % 3 == 0 ? '*' : '+', left, right);
}

struct Dump {
  std::vector<PackedENode> recs;
  std::vector<Id> classes;
  std::vector<std::vector<NodeId>> users;
  bool operator==(const Dump& other) const {
    const auto same = [](const PackedENode& a, const PackedENode& b) { return EGraph::Impl::equal_inline(a, b); };
    return classes == other.classes && users == other.users &&
           std::equal(recs.begin(), recs.end(), other.recs.begin(), other.recs.end(), same);
  }
};

Dump grow(const std::string& text, int threads, std::size_t iterations, std::size_t nodes) {
  auto w = Workload::parse(text);
  EXPECT_TRUE(w.ok()) << w.status();
  RunOptions options;
  options.limits.iterations = iterations;
  options.limits.nodes = nodes;
  options.limits.threads = threads;
  options.limits.threads_from = 0;
  const RunReport report = run(*w->egraph, w->rules, options);
  EXPECT_LE(w->egraph->num_nodes(), nodes);
  EXPECT_EQ(check_invariants(*w->egraph), "") << threads << " threads";
  Dump dump;
  const EGraph::Impl& g = w->egraph->impl();
  dump.recs.assign(g.recs.begin(), g.recs.end());
  for (NodeId n = 0; n < g.recs.size(); ++n) {
    dump.classes.push_back(g.find(n));
    if (g.find(n) == n) dump.users.push_back(w->egraph->class_users(n));
  }
  std::uint64_t most = 0;
  for (const RuleStats& rule : report.rules) most = std::max(most, rule.fresh);
  EXPECT_GT(most, 20'000u) << "too few to be applied at once";
  return dump;
}

constexpr const char* kRules = R"(
  (rule comm-add (+ ?a ?b) (+ ?b ?a))
  (rule comm-mul (* ?a ?b) (* ?b ?a))
  (rule assoc (+ ?a (+ ?b ?c)) (+ (+ ?a ?b) ?c))
  (rule dist (* ?a (+ ?b ?c)) (+ (* ?a ?b) (* ?a ?c)))
  (rule fact (+ (* ?a ?b) (* ?a ?c)) (* ?a (+ ?b ?c)))
  (rule square (* ?a ?a) (pow ?a 2))
  (rule three (+ ?a ?b) (f ?a ?b ?a))
  (rule drop (f ?a ?b ?a) (+ ?b ?a))
  (rule wrap (* ?a ?b) (g (h ?a) (h ?b))))";

TEST(BulkTest, SameIdForIdWithAnyNumberOfThreads) {
  const std::string text = fmt::format("{} (root {})", kRules, tree(600));
  const Dump one = grow(text, 1, 5, 120'000);
  for (const int threads : {2, 3}) EXPECT_TRUE(grow(text, threads, 5, 120'000) == one) << threads << " threads";
}

// The node limit is met in the middle of many matches: smaller batches, then single matches.
TEST(BulkTest, SameAtTheNodeLimit) {
  const std::string text = fmt::format("{} (root {})", kRules, tree(600));
  for (const std::size_t nodes : {60'001, 90'000}) {
    const Dump one = grow(text, 1, 8, nodes);
    EXPECT_TRUE(grow(text, 2, 8, nodes) == one) << nodes;
  }
}

}  // namespace
}  // namespace saturate
