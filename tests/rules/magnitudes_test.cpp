// How large the numbers of constants are, told without computing what is large.
#include "rules/values/magnitudes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/runtime/runtime.h"
#include "onnx_bridge/convert/op_key.h"

namespace saturate {
namespace {

class MagnitudesOfProducts : public testing::Test {
 protected:
  static constexpr std::int64_t kSide = 512;
  MagnitudesOfProducts() : evaluator_(make_evaluator({.memory = std::size_t{100} << 10})), g_(*evaluator_) {
    std::vector<float> numbers(kSide * kSide, 3.0f);
    numbers[7] = -0.25f;
    numbers[9] = 0;
    weight_ = g_.constant(Tensor::of<float>(DType::kFloat, {kSide, kSide}, numbers));
  }
  Id scale(std::vector<float> numbers) {
    return g_.constant(Tensor::of<float>(DType::kFloat, {static_cast<std::int64_t>(numbers.size()), 1}, numbers));
  }
  Id times(Id x, Id s) {
    const std::vector<Id> factors = {x, s};
    const Id product = g_.add(make_key("", "Mul", {}, 1, 14), factors);
    g_.egraph().rebuild();
    return product;
  }
  std::unique_ptr<Evaluator> evaluator_;
  OnnxEGraph g_;
  Id weight_ = kNone;
};

// A weight of a network whose layers share a scale was computed from the start for each of its spellings (PoolFormer: a minute).
TEST_F(MagnitudesOfProducts, NeedNoValues) {
  std::vector<float> signs(kSide, 0.5f);
  signs[3] = -0.5f;
  const Id channels = scale(signs);
  Id x = weight_;
  for (int i = 0; i < 40; ++i) x = i % 2 == 0 ? times(x, channels) : times(scale({0.5f}), x);
  EXPECT_FALSE(g_.value(x, ~std::size_t{0})) << "there should be no memory for it";
  const auto found = magnitudes(g_, x);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->most, std::ldexp(3.0, -40));
  EXPECT_EQ(found->least, std::ldexp(0.25, -40));
}

// A zero may hide the largest, and what leaves the normal numbers loses digits.
TEST_F(MagnitudesOfProducts, PromiseNothingElse) {
  std::vector<float> masked(kSide, 0.5f), uneven(kSide, 0.5f);
  masked[3] = 0;
  uneven[3] = 0.25f;
  for (const auto& s : {masked, uneven}) EXPECT_FALSE(magnitudes(g_, times(weight_, scale(s))));
  for (const float s : {0x1p-130f, 0x1p127f, HUGE_VALF, NAN}) EXPECT_FALSE(magnitudes(g_, times(weight_, scale({s}))));
  const auto small = magnitudes(g_, times(weight_, scale({0x1p-127f})));
  ASSERT_TRUE(small);
  EXPECT_EQ(small->most, std::ldexp(3.0, -127));
  EXPECT_LE(small->least, std::ldexp(0.25, -127));
  EXPECT_GT(small->least, 0);
}

}  // namespace
}  // namespace saturate
