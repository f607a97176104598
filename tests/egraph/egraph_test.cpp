#include "egraph/egraph.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "egraph/invariants.h"
#include "tests/egraph/naive.h"

namespace saturate {
namespace {

TEST(EGraph, EqualTermsShareOneNode) {
  EGraph egraph;
  const OpId a = egraph.add_op({.kind = 0}), f = egraph.add_op({.kind = 1});
  const Id x = egraph.add(a, {});
  const Id fx = egraph.add(f, std::vector{x});
  EXPECT_EQ(egraph.add(a, {}), x);
  EXPECT_EQ(egraph.add(f, std::vector{x}), fx);
  EXPECT_EQ(egraph.num_nodes(), 2u);
  EXPECT_EQ(egraph.num_classes(), 2u);
  EXPECT_EQ(egraph.lookup(f, std::vector{x}), fx);
  EXPECT_EQ(egraph.lookup(f, std::vector{fx}), kNone);
  EXPECT_EQ(check_invariants(egraph), "");
}

TEST(EGraph, CongruenceClosesUpwards) {
  EGraph egraph;
  const OpId a = egraph.add_op({.kind = 0}), b = egraph.add_op({.kind = 1}), f = egraph.add_op({.kind = 2});
  Id x = egraph.add(a, {}), y = egraph.add(b, {});
  const Id x0 = x, y0 = y;
  for (int i = 0; i < 50; ++i) {
    x = egraph.add(f, std::vector{x});
    y = egraph.add(f, std::vector{y});
  }
  EXPECT_NE(egraph.find(x), egraph.find(y));
  EXPECT_TRUE(egraph.merge(x0, y0));
  EXPECT_FALSE(egraph.merge(x0, y0));
  EXPECT_FALSE(egraph.clean());
  egraph.rebuild();
  EXPECT_TRUE(egraph.clean());
  EXPECT_EQ(egraph.find(x), egraph.find(y));
  EXPECT_EQ(egraph.num_nodes(), 52u);
  EXPECT_EQ(egraph.num_classes(), 51u);
  EXPECT_EQ(check_invariants(egraph), "");
}

TEST(EGraph, CommutativeChildrenAreStoredSorted) {
  EGraph egraph;
  const OpId a = egraph.add_op({.kind = 0}), b = egraph.add_op({.kind = 1}), add = egraph.add_op({.kind = 2, .commutative = true});
  const OpId sub = egraph.add_op({.kind = 3});
  const Id x = egraph.add(a, {}), y = egraph.add(b, {});
  EXPECT_EQ(egraph.add(add, std::vector{y, x}), egraph.add(add, std::vector{x, y}));
  EXPECT_NE(egraph.add(sub, std::vector{y, x}), egraph.add(sub, std::vector{x, y}));
  EXPECT_EQ(egraph.lookup(add, std::vector{y, x}), egraph.lookup(add, std::vector{x, y}));
  // With one or three children there is nothing to swap.
  EXPECT_NE(egraph.add(add, std::vector{y, x, x}), egraph.add(add, std::vector{x, y, x}));
  EXPECT_EQ(check_invariants(egraph), "");
}

TEST(EGraph, ManyChildrenAreCongruentToo) {
  EGraph egraph;
  const OpId a = egraph.add_op({.kind = 0}), b = egraph.add_op({.kind = 1}), cat = egraph.add_op({.kind = 2});
  const Id x = egraph.add(a, {}), y = egraph.add(b, {});
  const Id p = egraph.add(cat, std::vector{x, y, x, y, x}), q = egraph.add(cat, std::vector{x, x, x, x, x});
  EXPECT_EQ(egraph.add(cat, std::vector{x, y, x, y, x}), p);
  EXPECT_NE(p, q);
  EXPECT_NE(egraph.add(cat, std::vector{x, x, x, x}), q);  // another arity is another e-node
  EXPECT_EQ(egraph.lookup(cat, std::vector{x, y, x, y, x}), p);
  EXPECT_EQ(egraph.lookup(cat, std::vector{y, y, x, y, x}), kNone);
  // Children read out of the e-graph may be handed back to it.
  EXPECT_EQ(egraph.add(cat, egraph.node(p).children), p);
  egraph.merge(x, y);
  egraph.rebuild();
  EXPECT_EQ(egraph.find(p), egraph.find(q));
  EXPECT_EQ(egraph.node(egraph.class_nodes(p)[0]).children.size(), 5u);
  EXPECT_EQ(check_invariants(egraph), "");
}

TEST(EGraph, AUserOfManyClassesIsListedOnceInEach) {
  EGraph egraph;
  const OpId a = egraph.add_op({.kind = 0}), f = egraph.add_op({.kind = 1}), cat = egraph.add_op({.kind = 2});
  constexpr std::size_t kMany = 300'000;  // minutes where each child is compared with those before it
  std::vector<Id> children{egraph.add(a, {})};
  while (children.size() < kMany) children.push_back(egraph.add(f, std::vector{children.back()}));
  for (std::size_t i = 0; i < kMany; ++i) children.push_back(children[i]);
  const Id user = egraph.add(cat, children);
  egraph.rebuild();
  for (const std::size_t i : {std::size_t{0}, kMany / 2, kMany - 1}) {
    const std::vector<NodeId> users = egraph.class_users(children[i]);
    EXPECT_EQ(std::count(users.begin(), users.end(), user), 1) << i;
  }
}

TEST(EGraph, ClassesAndTheirNodes) {
  EGraph egraph;
  const OpId a = egraph.add_op({.kind = 0}), b = egraph.add_op({.kind = 1}), f = egraph.add_op({.kind = 2});
  const Id x = egraph.add(a, {}), y = egraph.add(b, {}), fx = egraph.add(f, std::vector{x});
  egraph.merge(fx, y);
  egraph.rebuild();
  EXPECT_EQ(egraph.classes(), (std::vector<Id>{x, egraph.find(y)}));
  EXPECT_EQ(egraph.class_nodes(y), (std::vector<NodeId>{1, 2}));
  EXPECT_EQ(egraph.class_size(fx), 2u);
  EXPECT_EQ(egraph.class_of(2), egraph.find(y));
  EXPECT_EQ(egraph.class_users(x), std::vector<NodeId>{2});
  EXPECT_EQ(egraph.made_by(2), kNone);
}

TEST(EGraph, SelfLoopsAreFine) {
  EGraph egraph;
  const OpId a = egraph.add_op({.kind = 0}), f = egraph.add_op({.kind = 1});
  const Id x = egraph.add(a, {}), fx = egraph.add(f, std::vector{x}), ffx = egraph.add(f, std::vector{fx});
  egraph.merge(x, fx);
  egraph.rebuild();
  EXPECT_EQ(egraph.find(ffx), egraph.find(x));
  EXPECT_EQ(egraph.num_nodes(), 2u);
  EXPECT_EQ(egraph.num_classes(), 1u);
  EXPECT_EQ(check_invariants(egraph), "");
}

TEST(EGraph, AChainOfAMillionTerms) {
  EGraph egraph;
  const OpId a = egraph.add_op({.kind = 0}), b = egraph.add_op({.kind = 1}), f = egraph.add_op({.kind = 2});
  constexpr int kLength = 1'000'000;
  Id x = egraph.add(a, {}), y = egraph.add(b, {});
  const Id x0 = x, y0 = y;
  for (int i = 0; i < kLength; ++i) x = egraph.add(f, std::vector{x});
  for (int i = 0; i < kLength; ++i) y = egraph.add(f, std::vector{y});
  egraph.merge(x0, y0);
  egraph.rebuild();
  EXPECT_EQ(egraph.find(x), egraph.find(y));
  EXPECT_EQ(egraph.num_nodes(), kLength + 2u);
  EXPECT_EQ(egraph.class_nodes(x).size(), 1u);
}

TEST(EGraph, MovedGraphsWork) {
  EGraph first;
  const OpId a = first.add_op({.kind = 0}), f = first.add_op({.kind = 1});
  const Id x = first.add(a, {});
  EGraph second = std::move(first);
  const Id fx = second.add(f, std::vector{x});
  second.merge(x, fx);
  second.rebuild();
  EXPECT_EQ(second.num_classes(), 1u);
  EXPECT_EQ(check_invariants(second), "");
}

// Random terms and merges against the naive closure: the same partition and the same number of e-nodes.
TEST(EGraph, RandomMergesGiveTheNaiveClosure) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
    std::vector<OpTraits> ops;
    for (Kind k = 0; k < 8; ++k) ops.push_back({.kind = k, .commutative = k == 6});
    const std::size_t arity[] = {0, 0, 0, 1, 2, 3, 2, 5};
    EGraph egraph;
    for (const OpTraits& op : ops) egraph.add_op(op);
    NaiveEGraph naive(ops);
    std::vector<std::pair<Id, Id>> ids;
    for (int step = 0; step < 60; ++step) {
      const std::size_t action = pick(10);
      if (ids.size() < 3 || action < 7) {
        const std::size_t op = ids.size() < 3 ? ids.size() : pick(8);
        std::vector<Id> ours, theirs;
        for (std::size_t i = 0; i < arity[op]; ++i) {
          const auto [a, b] = ids[pick(ids.size())];
          ours.push_back(a);
          theirs.push_back(b);
        }
        ids.emplace_back(egraph.add(static_cast<OpId>(op), ours), naive.add(static_cast<OpId>(op), theirs));
      } else if (action < 9) {
        const auto [a, b] = ids[pick(ids.size())];
        const auto [c, d] = ids[pick(ids.size())];
        egraph.merge(a, c);
        naive.merge(b, d);
      } else {
        egraph.rebuild();
        ASSERT_EQ(check_invariants(egraph), "") << "seed " << seed;
      }
    }
    egraph.rebuild();
    naive.rebuild();
    ASSERT_EQ(check_invariants(egraph), "") << "seed " << seed;
    ASSERT_EQ(egraph.num_nodes(), naive.num_nodes()) << "seed " << seed;
    ASSERT_EQ(egraph.num_classes(), naive.num_classes()) << "seed " << seed;
    for (const auto& [a, b] : ids) {
      for (const auto& [c, d] : ids) ASSERT_EQ(egraph.find(a) == egraph.find(c), naive.find(b) == naive.find(d)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace saturate
