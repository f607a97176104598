#include "rules/masks.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/runtime.h"
#include "rules/opkey.h"

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

TEST_F(Masks, MayBeAssumedOfInputsThatAreHandedOn) {
  const Id x = input("x", DType::kFloat), i = input("i", DType::kInt64);
  EXPECT_TRUE(may_be_mask(g_, x));
  EXPECT_TRUE(may_be_mask(g_, op("Unsqueeze", {x, g_.constant(Tensor::vector_int64(std::vector<std::int64_t>{1}))})));
  EXPECT_TRUE(may_be_mask(g_, cast(input("b", DType::kBool), DType::kFloat)));
  EXPECT_FALSE(may_be_mask(g_, cast(i, DType::kFloat)));
  EXPECT_FALSE(may_be_mask(g_, op("Tanh", {x})));
  EXPECT_FALSE(may_be_mask(g_, floats({0.5f})));
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

}  // namespace
}  // namespace saturate
