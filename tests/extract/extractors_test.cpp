#include "extract/solve/extractors.h"

#include <limits>
#include <optional>
#include <random>

#include "extract/solve/greedy.h"
#include "extract/solve/ilp.h"
#include "extract/solve/large_neighbourhood.h"
#include "extract/solve/local_search.h"
#include "extract/solve/presolve.h"
#include "gtest/gtest.h"

namespace saturate {
namespace {

struct TextNode {
  double cost;
  std::vector<std::uint32_t> children;
};

ExtractionProblem problem(const std::vector<std::vector<TextNode>>& classes, std::vector<std::uint32_t> roots) {
  ExtractionProblem p;
  for (const auto& nodes : classes) {
    for (const TextNode& n : nodes) p.add_node(n.cost, n.children);
    p.end_class();
  }
  p.roots = std::move(roots);
  return p;
}

// Every choice there is; the least DAG price of a complete acyclic one.
std::optional<Price> brute_force(const ExtractionProblem& p) {
  std::optional<Price> best;
  NodeChoice choice(p.num_classes());
  for (std::uint32_t c = 0; c < p.num_classes(); ++c) choice[c] = p.node_begin[c + 1] > p.node_begin[c] ? p.node_begin[c] : kUnchosen;
  for (;;) {
    const ChoiceValue value = evaluate_choice(p, choice);
    if (value.wrong.empty() && value.dag.is_finite() && (!best || value.dag < *best)) best = value.dag;
    std::uint32_t c = 0;
    for (; c < p.num_classes(); ++c) {
      if (choice[c] == kUnchosen) continue;
      if (++choice[c] < p.node_begin[c + 1]) break;
      choice[c] = p.node_begin[c];
    }
    if (c == p.num_classes()) return best;
  }
}

// Cycles, shared classes, repeated children, several roots, zero and infinite costs, empty classes; in half of them refused nodes, beside
// which costs as small as seconds must still count.
ExtractionProblem random_problem(std::mt19937& random) {
  auto draw = [&](int n) { return static_cast<std::uint32_t>(random() % static_cast<unsigned>(n)); };
  const int classes = 2 + static_cast<int>(draw(8));
  const bool refuses = draw(2) == 0;
  ExtractionProblem p;
  for (int c = 0; c < classes; ++c) {
    const std::uint32_t nodes = draw(12) == 0 ? 0 : 1 + draw(3);
    for (std::uint32_t n = 0; n < nodes; ++n) {
      std::vector<std::uint32_t> children(draw(3) == 0 ? 0 : 1 + draw(3));
      for (std::uint32_t& k : children) k = draw(3) > 0 && c > 0 ? draw(c) : draw(classes);
      const double costs[] = {0, 0, 1, 1, 2, 3.5, 10, 0.25, 1e7, draw(10) == 0 ? kInfinity : 4};
      Price price = costs[draw(10)];
      if (refuses && price.is_finite()) price = {draw(4) == 0 ? 1.0 : 0.0, price.cost * 1e-7};
      p.add_node(price, children);
    }
    p.end_class();
  }
  p.roots.resize(1 + draw(3));
  for (std::uint32_t& r : p.roots) r = draw(classes);
  return p;
}

TEST(Extractors, AgreeWithBruteForceOnRandomProblems) {
  std::mt19937 random(7);
  std::size_t feasible = 0;
  for (int i = 0; i < 1500; ++i) {
    const ExtractionProblem p = random_problem(random);
    const auto best = brute_force(p);
    feasible += best.has_value();
    for (const Extractor& e : extractors()) {
      if (e.name == "local" && i % 50 != 0) continue;  // it kicks a thousand times
      const auto result = e.run(p, {.seconds = 2, .seed = 1});
      ASSERT_EQ(result.ok(), best.has_value()) << e.name << " on problem " << i << ": " << result.status();
      if (!result.ok()) continue;
      const ChoiceValue value = evaluate_choice(p, result->choice);
      ASSERT_EQ(value.wrong, "") << e.name << " on problem " << i;
      EXPECT_EQ(value.dag, result->cost) << e.name;
      EXPECT_FALSE(clearly_less(value.dag, *best, 1e-6)) << e.name << " on problem " << i;
      if (result->proved || (ilp_available() && (e.name == "ilp" || e.name == "portfolio"))) {
        EXPECT_EQ(value.dag.refused, best->refused) << e.name << " on problem " << i;
        EXPECT_LE(value.dag.cost, best->cost + 1e-6 * (best->cost + (best->cost > 1e-3 ? 1 : 1e-7))) << e.name << " on problem " << i;
      }
    }
  }
  EXPECT_GT(feasible, 800u);
}

// HiGHS and CBC where both are there: whichever a build has, extraction is exact.
TEST(Extractors, EverySolverProvesTheBest) {
  std::mt19937 random(17);
  std::size_t solved = 0;
  for (int i = 0; i < 5000; ++i) {
    const ExtractionProblem p = random_problem(random);
    const auto best = brute_force(p);
    if (!best) continue;
    const Presolved s = presolve(p);
    if (s.problem.num_nodes() == s.problem.num_classes()) continue;  // nothing is left to choose
    const NodeChoice warm = bottom_up(s.problem, ParentIndex(s.problem));
    for (const IntegerSolver& solver : integer_solvers()) {
      const IlpResult result = solve_ilp(s, warm, 5, &solver);
      EXPECT_TRUE(result.proved) << solver.name << " on problem " << i;
      const Price found = evaluate_choice(p, s.restore(result.choice)).dag;
      EXPECT_EQ(found.refused, best->refused) << solver.name << " on problem " << i;
      EXPECT_LE(found.cost, best->cost + 1e-6 * (best->cost + (best->cost > 1e-3 ? 1 : 1e-7))) << solver.name << " on problem " << i;
      ++solved;
    }
  }
  EXPECT_EQ(solved > 100, !integer_solvers().empty());
}

TEST(Extractors, LocalEndsWhereKicksGainNothing) {
  std::mt19937 random(3);
  const auto* local = find_extractor("local");
  for (int i = 0; i < 20; ++i) {
    const ExtractionProblem p = random_problem(random);
    const auto result = local->run(p, {.seconds = kInfinity, .seed = 1});
    EXPECT_EQ(result.ok(), brute_force(p).has_value()) << result.status();
  }
}

TEST(Extractors, SimplifyKeepsTheLeastCost) {
  std::mt19937 random(11);
  for (int i = 0; i < 3000; ++i) {
    const ExtractionProblem p = random_problem(random);
    const auto best = brute_force(p);
    for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{0}}) {
      const Presolved s = presolve(p, {.cost_to_beat = best && i % 2 ? *best : Price(kInfinity), .most_bytes = bytes});
      ASSERT_EQ(s.unreachable_root == kUnchosen, best.has_value()) << i;
      if (!best) continue;
      const auto less = brute_force(s.problem);
      ASSERT_TRUE(less.has_value()) << i;
      EXPECT_EQ(less->refused, best->refused) << i;
      EXPECT_DOUBLE_EQ(less->cost, best->cost) << i;
    }
  }
}

TEST(Extractors, BottomUpFindsTheLeastTreeCost) {
  // As a tree the shared class 2 costs 6 + 6; alone, 7 and 4 are dearer by DAG but not as a tree.
  const auto p = problem({{{1, {1, 1}}}, {{1, {2}}, {4, {}}}, {{6, {}}}}, {0});
  const auto tree = find_extractor("bottom-up")->run(p, {});
  ASSERT_TRUE(tree.ok());
  EXPECT_EQ(evaluate_choice(p, tree->choice).tree, 9);
}

TEST(Extractors, SharingIsPaidOnce) {
  // Two roots: 10 shared, or 6 each.
  const auto p = problem({{{0, {2}}, {6, {}}}, {{0, {2}}, {6, {}}}, {{10, {}}}}, {0, 1});
  for (const char* name : {"heuristic", "ilp", "portfolio"}) {
    const auto result = find_extractor(name)->run(p, {.seconds = 2});
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->cost, 10) << name;
  }
}

TEST(Extractors, EvaluatorSeesCyclesAndHoles) {
  const auto p = problem({{{1, {1}}}, {{1, {0}}, {1, {}}}}, {0});
  EXPECT_NE(evaluate_choice(p, {0, 1}).wrong, "");
  EXPECT_NE(evaluate_choice(p, {0, kUnchosen}).wrong, "");
  EXPECT_NE(evaluate_choice(p, {0, 0}).wrong, "");
  const ChoiceValue good = evaluate_choice(p, {0, 2});
  EXPECT_EQ(good.wrong, "");
  EXPECT_EQ(good.dag, 2);
  EXPECT_EQ(good.classes, 2u);
}

TEST(Extractors, NegativeAndNotANumberCostsAreRefusedWithTheirNode) {
  for (const double cost : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    const auto p = problem({{{1, {1}}}, {{cost, {}}}}, {0});
    for (const Extractor& e : extractors()) {
      const auto result = e.run(p, {});
      ASSERT_FALSE(result.ok()) << e.name;
      EXPECT_NE(std::string(result.status().message()).find("node 1"), std::string::npos) << result.status();
    }
  }
}

TEST(Extractors, RootWithoutTermIsNamed) {
  const auto p = problem({{{1, {1}}}, {{1, {0}}}}, {1});
  EXPECT_EQ(root_without_term(p), 1u);
  for (const Extractor& e : extractors()) EXPECT_FALSE(e.run(p, {}).ok()) << e.name;
}

TEST(Extractors, DeepChainsAndTreesTooCostlyToCountDoNotOverflow) {
  std::vector<std::vector<TextNode>> classes{{{1, {}}}};
  for (std::uint32_t c = 0; c < 100'000; ++c) classes.push_back({{1, {c, c}}, {2, {c}}});
  const auto p = problem(classes, {100'000});
  const auto result = find_extractor("heuristic")->run(p, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->cost, 100'001);
}

TEST(Extractors, LocalSearchTakesSiblingsTogether) {
  // Projections 1 and 2 of the tuple 3 (cost 5) pay only together: 4 each otherwise.
  const auto p = problem({{{0, {1, 2}}}, {{4, {}}, {0, {3}}}, {{4, {}}, {0, {3}}}, {{5, {}}}}, {0});
  LocalSearch search(p, {0, 1, 3, 5});
  EXPECT_EQ(search.cost(), 8);
  EXPECT_TRUE(search.sweep());
  EXPECT_EQ(search.cost(), 5);
}

TEST(Extractors, LocalSearchOfALongChainTakesNoSquareOfItsLength) {
  // Each class may end the chain there: dearer than all below it, which is freed and taken again to find that out.
  constexpr std::uint32_t kLength = 20'000;
  std::vector<std::vector<TextNode>> classes{{{1, {}}}};
  NodeChoice start{0};
  for (std::uint32_t i = 1; i < kLength; ++i) {
    start.push_back(2 * i - 1);
    classes.push_back({{1, {i - 1}}, {i + 1.5, {}}});
  }
  const auto p = problem(classes, {kLength - 1});
  LocalSearch search(p, start);
  EXPECT_FALSE(search.sweep());
  EXPECT_EQ(search.cost(), kLength);
  EXPECT_LT(search.steps(), std::uint64_t{2'000} * p.num_nodes());
}

TEST(Extractors, NeighbourhoodsRepairABadChoice) {
  if (!ilp_available()) GTEST_SKIP() << "neither HiGHS nor CBC is there";
  // Twelve pairs, each cheaper by a class that all pairs may share.
  std::vector<std::vector<TextNode>> classes{{{0, {}}}};
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 1; i <= 12; ++i) all.push_back(i), classes.push_back({{3, {}}, {1, {13, 14}}});
  classes[0] = {{0, all}};
  classes.push_back({{5, {}}});
  classes.push_back({{6, {}}});
  const auto p = problem(classes, {0});
  const Presolved s = presolve(p);
  NodeChoice bad(s.problem.num_classes());
  for (std::uint32_t c = 0; c < bad.size(); ++c) bad[c] = s.problem.node_begin[c];
  const NodeChoice good = large_neighbourhood_search(s, bad, 0.5, 1);
  EXPECT_EQ(evaluate_choice(p, s.restore(good)).dag, 23);
}

TEST(Extractors, LookUpByName) {
  EXPECT_NE(find_extractor("portfolio"), nullptr);
  EXPECT_EQ(find_extractor("no such"), nullptr);
}

}  // namespace
}  // namespace saturate
