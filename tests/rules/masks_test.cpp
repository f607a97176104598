#include "rules/values/masks.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/runtime/runtime.h"
#include "onnx_bridge/convert/op_key.h"
#include "rules/values/fills.h"

namespace saturate {
namespace {

class Masks : public testing::Test {
 protected:
  Masks() : evaluator_(make_evaluator()), g_(*evaluator_) {}
  Id input(const char* name, DType dtype) {
    Facts facts;
    facts.kind = Facts::Kind::kTensor;
    facts.dtype = dtype;
    facts.shape = std::vector<Dim>{g_.dims().constant(2), g_.dims().constant(3)};
    return g_.input(name, facts);
  }
  Id op(std::string_view type, std::vector<Id> children, std::vector<Attribute> attributes = {}) {
    return g_.add(make_key("", type, std::move(attributes), 1, std::nullopt), children);
  }
  Id cast(Id x, DType to) { return op("Cast", {x}, {Attribute::of("to", static_cast<std::int64_t>(to))}); }
  Id floats(std::vector<float> values) {
    return g_.constant(Tensor::of<float>(DType::kFloat, {static_cast<std::int64_t>(values.size())}, values));
  }

  std::unique_ptr<Evaluator> evaluator_;
  OnnxEGraph g_;
};

TEST_F(Masks, AreProven) {
  EXPECT_TRUE(is_zero_or_one(g_, floats({0, 1, 1})));
  EXPECT_FALSE(is_zero_or_one(g_, floats({0, 1, 0.5f})));
  const Id truth = cast(input("b", DType::kBool), DType::kFloat), x = input("x", DType::kFloat);
  EXPECT_TRUE(is_zero_or_one(g_, op("Mul", {truth, floats({0, 1, 1})})));
  EXPECT_FALSE(is_zero_or_one(g_, op("Mul", {truth, x})));
  EXPECT_FALSE(is_zero_or_one(g_, x));
}

TEST_F(Masks, MayBeAssumedOfInputsThatAreUsedAsTruthValues) {
  const Id x = input("x", DType::kFloat), i = input("i", DType::kInt64), gate = input("gate", DType::kFloat);
  EXPECT_FALSE(may_be_mask(g_, x));
  op("Mul", {op("Sub", {floats({1}), gate}), floats({-10000})});  // nobody takes it for scores
  EXPECT_FALSE(may_be_mask(g_, gate));
  cast(x, DType::kBool);
  EXPECT_TRUE(may_be_mask(g_, x));
  EXPECT_TRUE(may_be_mask(g_, op("Unsqueeze", {x, g_.constant(Tensor::vector_int64(std::vector<std::int64_t>{1}))})));
  EXPECT_TRUE(may_be_mask(g_, cast(input("b", DType::kBool), DType::kFloat)));
  EXPECT_FALSE(may_be_mask(g_, cast(i, DType::kFloat)));
  EXPECT_FALSE(may_be_mask(g_, op("Tanh", {x})));
  EXPECT_FALSE(may_be_mask(g_, floats({0.5f})));
}

TEST_F(Masks, OfFloatsAreSeenByTheScoresThatTheyHide) {
  const Id x = input("x", DType::kFloat), scores = input("scores", DType::kFloat);
  const Id mask = op("Mul", {op("Sub", {floats({1}), x}), floats({-10000})});
  EXPECT_FALSE(reaches_scores(g_, mask));
  op("Softmax", {op("Add", {scores, op("Mul", {mask, floats({0.5f})})})}, {Attribute::of("axis", std::int64_t{1})});
  EXPECT_TRUE(reaches_scores(g_, mask));
  EXPECT_TRUE(may_be_mask(g_, x));
  EXPECT_FALSE(reaches_scores(g_, op("MatMul", {mask, scores})));
}

TEST_F(Masks, HaveFillsThatAddUp) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  const Id c = input("b", DType::kBool), none = floats({0}), low = floats({kLowest}), x = input("x", DType::kFloat);
  const Id mask = op("Where", {c, none, low}), scores = op("Tanh", {x});
  EXPECT_TRUE(hides_by_numbers(g_, mask));
  EXPECT_FALSE(is_above_lowest(g_, mask));
  EXPECT_FALSE(hides_by_numbers(g_, op("Add", {mask, op("Mul", {floats({kLowest}), cast(c, DType::kFloat)})})));
  EXPECT_FALSE(hides_by_numbers(g_, op("Where", {c, none, floats({-std::numeric_limits<float>::infinity()})})));
  EXPECT_FALSE(fills_of(g_, x).has_value());
  EXPECT_EQ(fills_of(g_, scores)->sum, 1);
  EXPECT_EQ(fills_of(g_, op("Add", {scores, op("Mul", {scores, floats({0.5f})})}))->sum, 1.5);
}

TEST_F(Masks, AreRaised) {
  const Id c = input("b", DType::kBool), none = floats({0}), x = input("x", DType::kFloat);
  const Id mask = op("Where", {c, none, floats({std::numeric_limits<float>::lowest()})});
  const Id raised = *with_raised_fills(g_, op("Add", {mask, mask}), UnknownFills::kRefused),
           wanted = op("Where", {c, none, floats({-1e30f})});
  EXPECT_EQ(raised, op("Add", {wanted, wanted}));
  EXPECT_EQ(with_raised_fills(g_, raised, UnknownFills::kRefused), raised);
  EXPECT_EQ(with_raised_fills(g_, x, UnknownFills::kRefused), std::nullopt);
  const Id pads = input("p", DType::kInt64);
  EXPECT_EQ(with_raised_fills(g_, op("Pad", {mask, pads}), UnknownFills::kRefused), op("Pad", {wanted, pads}));
  for (const UnknownFills unknown : {UnknownFills::kBounded, UnknownFills::kHalved}) {
    const Id given = *with_raised_fills(g_, x, unknown);
    EXPECT_NE(given, x);
    EXPECT_TRUE(is_above_lowest(g_, given));
    EXPECT_EQ(with_raised_fills(g_, given, UnknownFills::kRefused), given);
  }
}

// A row that is hidden as a whole shows what the highest fill hides.
TEST_F(Masks, KeepTheOrderOfFillsWhereTheyAreRaised) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  const Id c = input("b", DType::kBool), other = input("other", DType::kBool), none = floats({0});
  const auto raised = [&](float a, float b) {
    return with_raised_fills(g_, op("Add", {op("Where", {c, none, floats({a})}), op("Where", {other, none, floats({b})})}),
                             UnknownFills::kRefused);
  };
  const auto made = [&](float a, float b) {
    return op("Add", {op("Where", {c, none, floats({a})}), op("Where", {other, none, floats({b})})});
  };
  const auto above = static_cast<float>(lowest_result(DType::kFloat));
  EXPECT_EQ(raised(kLowest, -1e4f), made(-1e30f, -1e4f));
  EXPECT_EQ(raised(kLowest, -1e30f), made(above, -1e30f));
  EXPECT_EQ(raised(-1e38f, -1e35f), made(-1e38f, -1e35f));
  EXPECT_EQ(raised(kLowest, -3.4e38f), made(above, -3.4e38f));
  EXPECT_EQ(raised(kLowest, -3.40282e38f), std::nullopt);  // too near
}

// Operators that undo each other make classes that read each other; the fill stands in the last node of one.
TEST_F(Masks, AreRaisedBesideOperatorsThatUndoEachOther) {
  const Id c = input("b", DType::kBool), none = floats({0}), x = input("x", DType::kFloat);
  const Id there = op("Transpose", {x}), back = op("Transpose", {there});
  g_.egraph().merge(x, back);
  g_.egraph().rebuild();
  g_.egraph().merge(x, op("Where", {c, none, floats({std::numeric_limits<float>::lowest()})}));
  g_.egraph().rebuild();
  for (const Id mask : {x, there}) {
    EXPECT_TRUE(hides_by_numbers(g_, mask));
    const auto raised = with_raised_fills(g_, mask, UnknownFills::kRefused);
    ASSERT_TRUE(raised.has_value());
    EXPECT_TRUE(is_above_lowest(g_, *raised));
  }
}

TEST_F(Masks, CountsAreMadeOfSizes) {
  const Id x = input("x", DType::kFloat), given = input("n", DType::kInt64), one = g_.constant(Tensor::scalar_int64(1));
  const Id size = op("Size", {x});
  EXPECT_TRUE(is_count(g_, size));
  EXPECT_TRUE(is_count(g_, op("Range", {g_.constant(Tensor::scalar_int64(0)), size, one})));
  EXPECT_FALSE(is_count(g_, given));
  EXPECT_FALSE(is_count(g_, op("Add", {size, given})));
  EXPECT_FALSE(is_count(g_, g_.constant(Tensor::scalar_int64(1'700'000'000))));
}

TEST_F(Masks, HideByInfinity) {
  const Id none = floats({0}), all = floats({-std::numeric_limits<float>::infinity()}), c = input("b", DType::kBool);
  EXPECT_TRUE(hides_by_infinity(g_, all));
  EXPECT_FALSE(hides_by_infinity(g_, floats({-1e30f, std::numeric_limits<float>::infinity()})));
  const Id mask = op("Where", {c, none, all});
  EXPECT_TRUE(hides_by_infinity(g_, mask));
  EXPECT_TRUE(hides_by_infinity(g_, op("Where", {c, all, none})));
  EXPECT_TRUE(hides_by_infinity(g_, op("Expand", {mask, input("shape", DType::kInt64)})));
  EXPECT_FALSE(hides_by_infinity(g_, op("Where", {c, none, floats({-1e30f})})));
  EXPECT_FALSE(hides_by_infinity(g_, input("x", DType::kFloat)));
}

// Each class of a layer is a product of any two of the layer below: without a memory of what was looked at there are (2 * 36)^7 ways down.
TEST_F(Masks, AreLookedForInAMomentAmongManyProducts) {
  std::vector<Id> layer, counts;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    layer.push_back(input(name, DType::kFloat));
    counts.push_back(op("Shape", {layer.back()}));
  }
  for (int depth = 0; depth < 7; ++depth) {
    std::vector<Id> above, sums;
    for (std::size_t k = 0; k < layer.size(); ++k) {
      Id product = kNone, sum = kNone;
      for (const Id x : layer)
        for (const Id y : layer) {
          const Id other = op("Mul", {x, y});
          if (product != kNone) g_.egraph().merge(product, other);
          product = other;
        }
      for (const Id x : counts)
        for (const Id y : counts) {
          const Id other = op("Add", {x, y});
          if (sum != kNone) g_.egraph().merge(sum, other);
          sum = other;
        }
      above.push_back(op("Neg", {op("Neg", {product})}));
      sums.push_back(op("Neg", {sum}));
      g_.egraph().merge(above.back(), product);
      g_.egraph().merge(sums.back(), sum);
      g_.egraph().rebuild();
    }
    layer = above;
    counts = sums;
  }
  EXPECT_FALSE(may_be_mask(g_, layer.front()));
  EXPECT_FALSE(is_zero_or_one(g_, layer.front()));
  is_count(g_, counts.front());
}

}  // namespace
}  // namespace saturate
