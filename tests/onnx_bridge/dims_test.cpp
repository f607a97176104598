#include "onnx_bridge/facts/dims/dims.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace saturate {
namespace {

class Dims : public ::testing::Test {
 protected:
  Dim c(std::int64_t v) { return t.constant(v); }
  std::string str(Dim d) { return t.to_string(d); }
  DimTable t;
  Dim b = t.symbol("B"), s = t.symbol("S"), p = t.symbol("P");
};

TEST_F(Dims, EqualPolynomialsHaveEqualIds) {
  EXPECT_EQ(t.symbol("S"), s);
  EXPECT_EQ(t.add(t.mul(b, s), c(3)), t.add(c(3), t.mul(s, b)));
  EXPECT_EQ(t.sub(t.add(s, p), p), s);
  EXPECT_EQ(t.mul(t.add(s, c(1)), t.sub(s, c(1))), t.sub(t.mul(s, s), c(1)));
  EXPECT_EQ(t.value(t.sub(s, s)), 0);
  EXPECT_NE(t.fresh("x"), t.fresh("x"));
}

TEST_F(Dims, AProductOfPositivesIsPositive) {
  t.assume_non_negative(t.sub(b, c(1)));
  EXPECT_TRUE(t.positive(b));
  EXPECT_TRUE(t.positive(t.mul(b, c(12))));
  EXPECT_FALSE(t.positive(t.mul(b, s)));
  t.assume_non_negative(t.sub(s, c(1)));
  EXPECT_TRUE(t.positive(t.mul(t.mul(b, s), c(3))));
  EXPECT_TRUE(t.positive(t.add(t.mul(b, s), t.symbol("Q"))));
  EXPECT_FALSE(t.positive(t.sub(t.mul(b, s), t.symbol("Q"))));
  EXPECT_FALSE(t.positive(t.symbol("Q")));
}

TEST_F(Dims, ExactDivision) {
  EXPECT_EQ(t.exact_div(t.mul(t.mul(b, s), c(768)), t.mul(b, c(64))), t.mul(s, c(12)));
  const Dim sum = t.add(s, p);
  EXPECT_EQ(t.exact_div(t.mul(t.mul(b, sum), sum), sum), t.mul(b, sum));  // a divisor of several terms
  EXPECT_EQ(t.exact_div(s, p), std::nullopt);
  EXPECT_EQ(t.exact_div(t.add(t.mul(s, c(2)), c(1)), c(2)), std::nullopt);
  EXPECT_EQ(t.exact_div(s, c(0)), std::nullopt);
  EXPECT_EQ(t.exact_div(c(0), s), c(0));
}

TEST_F(Dims, FloorCeilingAndModulus) {
  const Dim four = c(4), s4 = t.mul(s, four);
  EXPECT_EQ(t.floor_div(s4, four), s);
  EXPECT_EQ(t.floor_div(t.add(s4, c(3)), four), s);
  EXPECT_EQ(t.ceil_div(t.add(s4, c(1)), four), t.add(s, c(1)));
  EXPECT_EQ(t.mod(s4, four), c(0));
  EXPECT_EQ(t.mod(t.add(s4, c(7)), four), c(3));
  EXPECT_EQ(t.floor_div(t.add(s, c(1)), c(2)), t.ceil_div(s, c(2)));
  EXPECT_EQ(t.floor_div(t.floor_div(s, c(2)), c(3)), t.floor_div(s, c(6)));
  EXPECT_EQ(t.floor_div(c(-7), c(2)), c(-4));
  EXPECT_EQ(t.trunc_div(c(-7), c(2)), c(-3));
  EXPECT_EQ(t.trunc_div(s, c(2)), t.floor_div(s, c(2)));
  EXPECT_NE(t.trunc_div(t.sub(s, c(9)), c(2)), t.floor_div(t.sub(s, c(9)), c(2)));
  EXPECT_NE(t.floor_div(s, c(2)), t.floor_div(p, c(2)));
  EXPECT_EQ(t.value(t.floor_div(s, c(0))), std::nullopt);
  EXPECT_EQ(str(t.floor_div(s, c(2))), "floor(S / 2)");
}

TEST_F(Dims, MinimumAndMaximum) {
  EXPECT_EQ(t.max(s, c(0)), s);
  EXPECT_EQ(t.min(s, t.add(s, c(3))), s);
  EXPECT_EQ(t.max(s, t.add(s, p)), t.add(s, p));
  EXPECT_EQ(t.min(t.min(s, c(7)), c(9)), t.min(c(7), s));
  EXPECT_EQ(t.min(t.min(s, p), s), t.min(s, p));
  EXPECT_EQ(t.value(t.min(s, c(0))), 0);
  EXPECT_TRUE(t.non_negative(t.sub(s, t.min(s, p))));
  EXPECT_FALSE(t.non_negative(t.sub(s, c(1))));
  EXPECT_TRUE(t.non_negative(t.max(t.sub(s, c(1)), c(0))));
  EXPECT_FALSE(t.positive(s));
  EXPECT_TRUE(t.positive(t.add(s, c(1))));
}

TEST_F(Dims, BroadcastDoesNotGuess) {
  EXPECT_EQ(t.broadcast(c(1), s), s);
  EXPECT_EQ(t.broadcast(s, s), s);
  EXPECT_EQ(t.broadcast(s, c(5)), c(5));
  EXPECT_EQ(t.broadcast(c(0), s), c(0));
  EXPECT_EQ(t.broadcast(c(2), c(3)), std::nullopt);
  const Dim open = *t.broadcast(s, p);
  EXPECT_NE(open, s);
  EXPECT_NE(open, p);
  EXPECT_EQ(open, t.broadcast(p, s));
  EXPECT_EQ(t.broadcast(open, s), open);
  EXPECT_EQ(t.evaluate(open, {{"S", 1}, {"P", 0}}), 0);
  EXPECT_FALSE(t.equal(s, c(5)));  // S may be 1
}

TEST_F(Dims, DifferOnlyWhereNoSizeMakesThemEqual) {
  EXPECT_TRUE(t.differ(c(2), c(3)));
  EXPECT_TRUE(t.differ(s, t.add(s, c(1))));
  EXPECT_TRUE(t.differ(t.mul(s, c(2)), t.add(t.mul(p, c(2)), c(1))));
  EXPECT_TRUE(t.differ(s, t.add(t.add(s, p), c(1))));
  EXPECT_FALSE(t.differ(s, p));
  EXPECT_FALSE(t.differ(s, t.add(s, p)));
  EXPECT_FALSE(t.differ(s, c(3)));
  EXPECT_TRUE(t.differ(s, c(-1)));
}

TEST_F(Dims, UnifySolvesForASymbol) {
  const Dim total = t.symbol("total"), made_before = t.mul(total, b);
  const auto generation = t.generation();
  EXPECT_TRUE(t.unify(total, t.add(s, p)));
  EXPECT_GT(t.generation(), generation);
  EXPECT_TRUE(t.equal(made_before, t.add(t.mul(s, b), t.mul(p, b))));
  EXPECT_TRUE(t.equal(t.sub(total, p), s));
  EXPECT_TRUE(t.unify(t.mul(s, c(2)), c(10)));
  EXPECT_EQ(t.value(s), 5);
  EXPECT_TRUE(t.equal(total, t.add(p, c(5))));
  EXPECT_FALSE(t.unify(s, c(6)));
}

TEST_F(Dims, UnifyReachesInsideExpressions) {
  const Dim k = t.symbol("K"), half = t.floor_div(t.add(s, k), c(2)), low = t.min(s, k);
  EXPECT_TRUE(t.unify(k, s));
  EXPECT_TRUE(t.equal(half, s));
  EXPECT_TRUE(t.equal(low, s));
  const Dim q = t.symbol("Q"), quarter = t.floor_div(q, c(4));
  EXPECT_TRUE(t.unify(quarter, c(3)));  // an expression may be solved for as well
  EXPECT_EQ(t.value(quarter), 3);
  EXPECT_FALSE(t.value(q).has_value());
  const Dim r = t.symbol("R"), other = t.floor_div(r, c(4));
  EXPECT_TRUE(t.unify(r, q));
  EXPECT_EQ(t.value(other), 3);
}

TEST_F(Dims, UnifyRefusesWhatNoSizeSolves) {
  EXPECT_FALSE(t.unify(c(2), c(3)));
  EXPECT_FALSE(t.unify(s, t.add(s, c(2))));
  EXPECT_FALSE(t.unify(t.mul(s, c(2)), c(7)));
  EXPECT_FALSE(t.unify(s, c(-4)));
  EXPECT_TRUE(t.unify(t.mul(s, p), t.mul(s, b)));  // S may be 0: P = B does not follow
  EXPECT_FALSE(t.equal(p, b));
  EXPECT_TRUE(t.equal(t.mul(s, p), t.mul(s, b)));
}

TEST_F(Dims, FreshSymbolsGiveWayToNames) {
  const Dim u = t.fresh("unk");
  EXPECT_TRUE(t.unify(s, u));
  EXPECT_EQ(t.symbol_name(u), "S");
  const Dim v = t.fresh("unk");
  const std::string name = *t.symbol_name(v);
  EXPECT_NE(t.symbol(name), v);  // a model's own name is never a made-up one
  EXPECT_NE(t.symbol_name(v), name);
}

TEST_F(Dims, DeclaredNamesNeedAnOperatorToAgree) {
  const Dim ids = t.declared("seq", "ids"), mask = t.declared("seq", "mask"), past = t.declared("seq", "past");
  EXPECT_EQ(ids, t.declared("seq", "ids"));
  EXPECT_EQ(mask, t.declared("seq", "mask"));
  EXPECT_EQ(t.symbol_name(ids), "seq");
  EXPECT_FALSE(t.equal(ids, mask));
  EXPECT_EQ(t.name_apart(ids), std::nullopt);
  EXPECT_EQ(t.name_apart(mask), "seq@mask");
  EXPECT_EQ(t.name_apart(t.add(mask, p)), std::nullopt);
  EXPECT_EQ(t.evaluate(t.add(ids, mask), {{"seq", 4}}), 8);
  EXPECT_EQ(t.broadcast(t.add(mask, p), t.add(ids, p)), t.add(ids, p));
  EXPECT_TRUE(t.equal(ids, mask));
  EXPECT_EQ(t.name_apart(mask), std::nullopt);
  EXPECT_EQ(t.name_apart(past), "seq@past");
  EXPECT_FALSE(t.equal(ids, past));
  EXPECT_NE(t.broadcast(past, s), past);  // names that differ stay open
  EXPECT_FALSE(t.equal(past, s));
}

TEST_F(Dims, OverflowBecomesOpaque) {
  const Dim huge = c(std::int64_t{1} << 62);
  const Dim product = t.mul(huge, t.mul(s, c(4)));
  EXPECT_EQ(t.value(product), std::nullopt);
  EXPECT_EQ(t.evaluate(product, {{"S", 4}}), std::nullopt);
  EXPECT_EQ(product, t.mul(t.mul(c(4), s), huge));
  EXPECT_EQ(t.value(t.add(huge, huge)), std::nullopt);
}

TEST_F(Dims, Printing) {
  EXPECT_EQ(str(t.add(t.mul(c(2), s), c(3))), "2*S + 3");
  EXPECT_EQ(str(t.sub(c(3), s)), "-S + 3");
  EXPECT_EQ(str(c(0)), "0");
  EXPECT_EQ(str(t.mul(b, s)), "B*S");
}

// Every simplification against plain integers: random expressions, random sizes, some unifications on the way.
TEST(DimsProperty, ExpressionsMeanWhatTheySay) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    DimTable t;
    std::map<std::string, std::int64_t> sizes;
    struct Pair {
      Dim dim;
      std::int64_t value;
    };
    std::vector<Pair> pool;
    auto symbol = [&](const char* name) {
      const std::int64_t v = static_cast<std::int64_t>(random() % 7);
      sizes[name] = v;
      pool.push_back({t.symbol(name), v});
    };
    for (const char* name : {"a", "b", "c", "d"}) symbol(name);
    for (std::int64_t k : {-3, -1, 0, 1, 2, 3, 4, 6}) pool.push_back({t.constant(k), k});
    auto floor_div = [](std::int64_t x, std::int64_t y) { return x / y - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0); };
    for (int step = 0; step < 250; ++step) {
      const Pair x = pool[random() % pool.size()], y = pool[random() % pool.size()];
      if (std::abs(x.value) > 100000 || std::abs(y.value) > 100000) continue;
      const int op = static_cast<int>(random() % 11);
      if (op >= 3 && op <= 6 && y.value == 0) continue;
      switch (op) {
        case 0:
          pool.push_back({t.add(x.dim, y.dim), x.value + y.value});
          break;
        case 1:
          pool.push_back({t.sub(x.dim, y.dim), x.value - y.value});
          break;
        case 2:
          pool.push_back({t.mul(x.dim, y.dim), x.value * y.value});
          break;
        case 3:
          pool.push_back({t.floor_div(x.dim, y.dim), floor_div(x.value, y.value)});
          break;
        case 4:
          pool.push_back({t.trunc_div(x.dim, y.dim), x.value / y.value});
          break;
        case 5:
          pool.push_back({t.ceil_div(x.dim, y.dim), -floor_div(-x.value, y.value)});
          break;
        case 6:
          pool.push_back({t.mod(x.dim, y.dim), x.value - floor_div(x.value, y.value) * y.value});
          break;
        case 7:
          pool.push_back({t.min(x.dim, y.dim), std::min(x.value, y.value)});
          break;
        case 9: {
          if (y.value < 0) continue;
          const std::int64_t at = x.value < 0 ? x.value + y.value : x.value;
          pool.push_back({t.place(x.dim, y.dim), std::max<std::int64_t>(std::min(at, y.value), 0)});
          break;
        }
        case 8:
          pool.push_back({t.max(x.dim, y.dim), std::max(x.value, y.value)});
          break;
        default:
          if (x.value == y.value && random() % 4 == 0) {
            EXPECT_TRUE(t.unify(x.dim, y.dim)) << t.to_string(x.dim) << " = " << t.to_string(y.dim);
          }
      }
    }
    for (const Pair& p : pool) {
      const auto now = t.evaluate(t.canonical(p.dim), sizes);
      // Zero divisors inside a subterm have no value; everything else must agree.
      if (now) {
        ASSERT_EQ(*now, p.value) << t.to_string(p.dim);
      }
      if (t.non_negative(p.dim)) {
        ASSERT_GE(p.value, 0) << t.to_string(p.dim);
      }
      if (t.positive(p.dim)) {
        ASSERT_GE(p.value, 1) << t.to_string(p.dim);
      }
    }
    for (std::size_t i = 0; i < pool.size(); i += 3)
      for (std::size_t j = i + 1; j < pool.size(); j += 5) {
        if (t.equal(pool[i].dim, pool[j].dim)) {
          ASSERT_EQ(pool[i].value, pool[j].value) << t.to_string(pool[i].dim);
        }
        if (t.differ(pool[i].dim, pool[j].dim)) {
          ASSERT_NE(pool[i].value, pool[j].value) << t.to_string(pool[i].dim);
        }
      }
  }
}

// Where b = 1 has c = 1 in its wake, b is what the two give wherever they broadcast at all.
TEST_F(Dims, WhatIsOneWithAnotherDoesNotWidenIt) {
  EXPECT_EQ(t.broadcast(t.mul(b, s), s), t.mul(b, s));
  EXPECT_EQ(t.broadcast(s, t.mul(s, s)).value(), t.broadcast(t.mul(s, s), s).value());
  EXPECT_NE(t.broadcast(t.add(b, s), s), t.add(b, s));  // b + s = 1 leaves s = 0 or 1
  EXPECT_NE(t.broadcast(t.mul(b, c(2)), b), b);         // 2 and 1 broadcast
  const Dim tail = t.sub(c(64), t.place(t.sub(c(64), s), c(64)));
  EXPECT_EQ(t.broadcast(tail, s), s);
  EXPECT_NE(t.broadcast(t.sub(c(63), t.place(t.sub(c(64), s), c(64))), s), s);
}

// The last columns of a table of 64, as many as a cache and the new positions have (MPT's slopes).
TEST_F(Dims, WhatIsOneWithASumDoesNotWidenIt) {
  const Dim total = t.add(p, s), tail = t.sub(c(64), t.place(t.sub(c(64), total), c(64)));
  EXPECT_EQ(t.broadcast(tail, total), total);
  EXPECT_EQ(t.broadcast(total, tail), total);
  EXPECT_NE(t.broadcast(t.sub(c(63), t.place(t.sub(c(64), total), c(64))), total), total);
  EXPECT_NE(t.broadcast(tail, t.add(b, s)), t.add(b, s));
}

TEST_F(Dims, PlacesOfASlice) {
  EXPECT_EQ(t.value(t.place(c(-3), c(5))), 2);
  EXPECT_EQ(t.value(t.place(c(-7), c(5))), 0);
  EXPECT_EQ(t.value(t.place(c(7), c(5))), 5);
  EXPECT_EQ(t.place(s, c(5)), t.min(s, c(5)));
  const Dim open = t.place(t.sub(s, c(2)), c(5));
  EXPECT_TRUE(t.non_negative(open));
  EXPECT_TRUE(t.non_negative(t.sub(c(5), open)));
  EXPECT_EQ(t.evaluate(open, {{"S", 1}}), 4);
  EXPECT_EQ(t.evaluate(open, {{"S", 4}}), 2);
  EXPECT_TRUE(t.unify(s, c(1)));
  EXPECT_EQ(t.value(open), 4);
}

TEST_F(Dims, AProductOfSizesThatIsOne) {
  EXPECT_TRUE(t.unify(t.mul(t.mul(b, s), s), c(1)));
  EXPECT_EQ(t.value(b), 1);
  EXPECT_EQ(t.value(s), 1);
  EXPECT_TRUE(t.unify(t.mul(p, p), c(4)));  // not taken apart
  EXPECT_EQ(t.value(p), std::nullopt);
}

TEST_F(Dims, DeclaredNamesJoinInsideProducts) {
  const Dim ids = t.declared("batch", "ids"), cache = t.declared("batch", "cache"), other = t.declared("enc", "cache");
  EXPECT_EQ(t.broadcast(t.mul(ids, s), cache), t.mul(ids, s));
  EXPECT_TRUE(t.equal(ids, cache));
  EXPECT_NE(t.broadcast(t.mul(ids, s), other), t.mul(ids, s));
}

// A table of 64 positions sliced to the length of the input, then added to it: the input is not longer than the table.
TEST_F(Dims, AClippedDimThatBroadcastsAgainstItselfIsNotClipped) {
  const Dim seq = t.symbol("seq"), clipped = t.min(seq, t.constant(64));
  EXPECT_FALSE(t.equal(seq, clipped));
  EXPECT_TRUE(t.equal(t.broadcast(seq, clipped).value(), seq));
  EXPECT_TRUE(t.equal(seq, clipped));
  const Dim other = t.symbol("other"), to_one = t.min(other, t.constant(1));  // 1 broadcasts against any size: proves nothing
  t.broadcast(other, to_one);
  EXPECT_FALSE(t.equal(other, to_one));
}

// The rows of a table from `past` to `past + seq` that are broadcast against scores of as many columns: no row was clipped.
TEST_F(Dims, WhatIsBelowAClippedDimIsNotClippedEither) {
  const Dim past = t.symbol("past"), seq = t.symbol("seq"), total = t.add(past, seq), table = t.constant(32);
  const Dim rows = t.sub(t.min(total, table), t.min(past, table));
  EXPECT_FALSE(t.equal(rows, seq));
  EXPECT_TRUE(t.equal(t.broadcast(t.min(total, table), total).value(), total));
  EXPECT_TRUE(t.equal(rows, seq));
  EXPECT_TRUE(t.equal(t.min(past, table), past));
  EXPECT_FALSE(t.equal(t.min(past, t.constant(31)), past));
}

TEST_F(Dims, ClippedByAnotherInputOfTheName) {
  const Dim ids = t.declared("seq", "ids"), mask = t.declared("seq", "mask"), other = t.declared("enc", "other");
  EXPECT_TRUE(t.equal(t.broadcast(ids, t.min(mask, t.constant(64))).value(), ids));
  EXPECT_FALSE(t.equal(t.broadcast(ids, t.min(other, t.constant(64))).value(), ids));
}

// Scores of as many columns as the cache of keys and a mask have, times the cache of values.
TEST_F(Dims, DeclaredNamesJoinWhereABroadcastDimMustBeAnother) {
  const Dim keys = t.declared("past", "keys"), values = t.declared("past", "values"), mask = t.declared("total", "mask");
  const Dim columns = t.broadcast(t.add(keys, s), mask).value();
  EXPECT_FALSE(t.equal(keys, values));
  EXPECT_TRUE(t.unify(columns, t.add(values, s)));
  EXPECT_TRUE(t.equal(keys, values));
  EXPECT_FALSE(t.equal(mask, t.add(keys, s)));
}

TEST_F(Dims, DeclaredNamesJoinWhereAnOperatorPutsOneInThePlaceOfTheOther) {
  const Dim a = t.declared("seq", "ids"), b = t.declared("seq", "mask"), c = t.declared("enc", "mask");
  EXPECT_FALSE(t.equal(a, b));
  EXPECT_FALSE(t.join_named(a, c));
  EXPECT_TRUE(t.join_named(a, b));
  EXPECT_TRUE(t.equal(a, b));
}

TEST_F(Dims, ImportedDimsKeepWhatTheyAreMadeOf) {
  const Dim sum = t.add(s, p), half = t.floor_div(t.mul(b, s), c(2));
  DimTable other;
  const Dim s2 = other.symbol("S");
  EXPECT_EQ(other.imported(t, s), s2);
  EXPECT_EQ(other.imported(t, sum), other.add(other.symbol("P"), s2));
  EXPECT_EQ(other.imported(t, half), other.floor_div(other.mul(other.symbol("B"), s2), other.constant(2)));
  EXPECT_EQ(other.imported(t, c(7)), other.constant(7));
  ASSERT_TRUE(t.unify(p, c(4)));
  EXPECT_EQ(other.imported(t, sum), other.add(s2, other.constant(4)));
}

TEST_F(Dims, ImportedDimsKeepWhoDeclaredThem) {
  const Dim ids = t.declared("batch", "ids"), mask = t.declared("batch", "mask"), sum = t.add(mask, c(1));
  DimTable other;
  const Dim mask2 = other.imported(t, mask);  // first, and still not the one that has the plain name
  EXPECT_EQ(other.to_string(mask2), "batch@mask");
  const Dim ids2 = other.imported(t, ids);
  EXPECT_EQ(other.to_string(ids2), "batch");
  EXPECT_EQ(other.imported(t, sum), other.add(mask2, other.constant(1)));
  EXPECT_FALSE(other.equal(ids2, mask2));
  EXPECT_TRUE(other.join_named(ids2, mask2));
}

// A graph of 2 n operations that is a tree of 2^n leaves.
TEST_F(Dims, WhatSharesItsPartsStaysSmall) {
  const auto start = std::chrono::steady_clock::now();
  for (const bool divide : {false, true}) {
    Dim x = t.declared("n", "one"), y = t.declared("n", "two");
    for (int i = 0; i < 3000; ++i) {
      x = divide ? t.floor_div(t.mul(x, x), s) : t.mod(t.add(t.mul(x, x), x), p);
      y = divide ? t.floor_div(t.mul(y, y), s) : t.mod(t.add(t.mul(y, y), y), p);
      if (i % 100 == 0) t.broadcast(x, y);
    }
    EXPECT_LT(str(x).size(), 100'000u);
    t.evaluate(x, {{"n", 3}, {"S", 5}, {"P", 7}});
    t.unify(x, y);
  }
  Dim sum = c(0);
  for (int i = 0; i < 3000; ++i) sum = t.add(sum, t.symbol("s" + std::to_string(i)));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST_F(Dims, TheSameLargeExpressionIsTheSameSymbol) {
  Dim x = s;
  for (int i = 0; i < 40; ++i) x = t.mod(t.add(t.mul(x, x), b), p);
  EXPECT_EQ(t.mod(t.mul(x, x), p), t.mod(t.mul(x, x), p));
  EXPECT_FALSE(t.equal(t.mod(t.mul(x, x), p), t.mod(t.mul(x, x), b)));
}

// The lengths that three convolutions leave, as shape inference finds them one by one and as PyTorch writes them in one go.
TEST_F(Dims, FloorsOfFloorsWithConstants) {
  const Dim n = t.symbol("n"), one = t.constant(1);
  const auto floor_of = [&](Dim x, std::int64_t by) { return t.floor_div(x, t.constant(by)); };
  const Dim after = t.sub(floor_of(t.add(floor_of(t.add(floor_of(t.add(n, one), 64), one), 3), one), 2), t.constant(2));
  EXPECT_TRUE(t.equal(after, t.sub(floor_of(t.sub(n, t.constant(127)), 384), one)));
  EXPECT_FALSE(t.equal(after, t.sub(floor_of(t.sub(n, t.constant(126)), 384), one)));
}

// As a size, floor(x / m) - c says how large x is at least; a division that rounds towards zero is then one that rounds down.
TEST_F(Dims, ASizeBoundsWhatItIsAQuotientOf) {
  const Dim n = t.symbol("n"), x = t.sub(n, t.constant(127)), k = t.constant(384);
  const Dim rounded_to_zero = t.trunc_div(x, k), size = t.sub(t.floor_div(x, k), t.constant(1));
  EXPECT_FALSE(t.equal(rounded_to_zero, t.floor_div(x, k)));
  t.assume_non_negative(size);
  EXPECT_TRUE(t.non_negative(t.sub(n, t.constant(511))));
  EXPECT_FALSE(t.non_negative(t.sub(n, t.constant(512))));
  EXPECT_TRUE(t.equal(rounded_to_zero, t.floor_div(x, k)));
}

}  // namespace
}  // namespace saturate
