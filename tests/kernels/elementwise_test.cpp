#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernel_test_util.h"
#include "kernels/elementwise/activation.h"

namespace saturate {
namespace {

using test::eval, test::expect_near, test::floats, test::ints, test::make;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

TEST(Elementwise, BroadcastsBothWays) {
  expect_near(eval({"Add"}, {floats({2, 1}, {1, 2}), floats({3}, {10, 20, 30})}), floats({2, 3}, {11, 21, 31, 12, 22, 32}));
  expect_near(eval({"Sub"}, {floats({}, {5}), floats({2, 2}, {1, 2, 3, 4})}), floats({2, 2}, {4, 3, 2, 1}));
  EXPECT_EQ(eval({"Mul"}, {floats({0, 3}, {}), floats({3}, {1, 2, 3})}).dims(), (Shape{0, 3}));
  EXPECT_FALSE(test::run({"Add"}, {floats({2}, {1, 2}), floats({3}, {1, 2, 3})}).ok());
}

TEST(Elementwise, IntegersWrapAndTruncate) {
  expect_near(eval({"Add"}, {make<std::int8_t>({1}, {127}), make<std::int8_t>({1}, {1})}), make<std::int8_t>({1}, {-128}));
  expect_near(eval({"Div"}, {ints({4}, {-7, 7, 5, std::numeric_limits<std::int64_t>::min()}), ints({4}, {2, -2, 0, -1})}),
              ints({4}, {-3, -3, 0, std::numeric_limits<std::int64_t>::min()}));
  expect_near(eval({"Mod"}, {ints({4}, {-7, 7, -7, 7}), ints({4}, {3, -3, -3, 3})}), ints({4}, {2, -2, -1, 1}));
  expect_near(eval({"Mod", "", 21, {Attribute::of("fmod", std::int64_t{1})}}, {ints({2}, {-7, 7}), ints({2}, {3, -3})}),
              ints({2}, {-1, 1}));
  expect_near(eval({"Pow"}, {ints({3}, {3, 2, -1}), ints({3}, {4, -1, -3})}), ints({3}, {81, 0, -1}));
  expect_near(eval({"Pow"}, {floats({2}, {9, 2}), ints({2}, {2, -1})}), floats({2}, {81, 0.5f}));
}

TEST(Elementwise, ShiftsBeyondTheWidth) {
  const Attribute right = Attribute::of("direction", std::string("RIGHT")), left = Attribute::of("direction", std::string("LEFT"));
  expect_near(eval({"BitShift", "", 28, {right}}, {make<std::int8_t>({3}, {-8, 8, -1}), make<std::int8_t>({3}, {1, 9, -1})}),
              make<std::int8_t>({3}, {-4, 0, -1}));
  expect_near(eval({"BitShift", "", 28, {left}}, {make<std::uint8_t>({2}, {255, 1}), make<std::uint8_t>({2}, {1, 8})}),
              make<std::uint8_t>({2}, {254, 0}));
}

TEST(Elementwise, NanWinsInMaxAndMin) {
  expect_near(eval({"Max"}, {floats({3}, {1, kNan, -kInf}), floats({3}, {kNan, 2, 0})}), floats({3}, {kNan, kNan, 0}));
  expect_near(eval({"Min"}, {floats({2}, {1, 5}), floats({2}, {2, 3}), floats({}, {4})}), floats({2}, {1, 3}));
}

TEST(Elementwise, RoundsHalvesToEven) {
  expect_near(eval({"Round"}, {floats({5}, {0.5f, 1.5f, -2.5f, 2.4f, -0.5f})}), floats({5}, {0, 2, -2, 2, 0}));
}

TEST(Elementwise, LegacyBroadcastAlignsAtAxis) {
  const test::Call call{"Add", "", 6, {Attribute::of("axis", std::int64_t{0}), Attribute::of("broadcast", std::int64_t{1})}};
  expect_near(eval(call, {floats({2, 3}, {0, 0, 0, 0, 0, 0}), floats({2}, {1, 2})}), floats({2, 3}, {1, 1, 1, 2, 2, 2}));
}

TEST(Elementwise, ClipTakesBoundsByVersion) {
  expect_near(eval({"Clip"}, {floats({4}, {-5, 0, 5, kNan}), floats({}, {-1}), Value(floats({}, {2}))}), floats({4}, {-1, 0, 2, kNan}));
  expect_near(eval({"Clip"}, {floats({2}, {-5, 5}), floats({}, {3}), Value(floats({}, {2}))}), floats({2}, {2, 2}));
  expect_near(eval({"Clip", "", 6, {Attribute::of("min", 0.0f)}}, {floats({2}, {-5, 5})}), floats({2}, {0, 5}));
  expect_near(eval({"Clip"}, {ints({2}, {-5, 5}), Value(), Value(ints({}, {1}))}), ints({2}, {-5, 1}));
}

TEST(Elementwise, WhereBroadcastsAndTakesStrings) {
  expect_near(eval({"Where"}, {make<bool>({2, 1}, {true, false}), floats({2}, {1, 2}), floats({}, {9})}), floats({2, 2}, {1, 2, 9, 9}));
  const Tensor s = eval({"Where"}, {make<bool>({2}, {false, true}), Tensor::strings({2}, {"a", "b"}), Tensor::strings({1}, {"c"})});
  EXPECT_EQ(s.string_data()[0], "c");
  EXPECT_EQ(s.string_data()[1], "b");
}

// Fast loops against the formula in double, over the whole range and at special values.
void expect_function(const char* op, double (*f)(double), double bound, std::vector<Attribute> attributes = {}) {
  std::vector<float> x;
  for (int i = -4000; i <= 4000; ++i) x.push_back(static_cast<float>(i) * 0.005f);
  x.insert(x.end(), {kInf, -kInf, 88.0f, -90.0f, 1e-30f, -0.0f, 1e6f, -1e6f, 3e14f, -3e14f, 1e30f, -1e30f});
  const auto n = static_cast<std::int64_t>(x.size());
  const Tensor fast = eval({op, "", 21, attributes}, {floats({n}, x)}),
               reference = eval({op, "", 21, attributes, 1, true}, {floats({n}, x)});
  for (std::int64_t i = 0; i < n; ++i) {
    const double want = f(static_cast<double>(x[static_cast<std::size_t>(i)]));
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(fast.data<float>()[i]) && std::isnan(reference.data<float>()[i]))
          << op << "(" << x[static_cast<std::size_t>(i)] << ")";
      continue;
    }
    const double allowed = bound * std::max(1.0, std::fabs(want));
    if (std::isinf(want)) {
      EXPECT_EQ(fast.data<float>()[i], want);
    } else {
      EXPECT_NEAR(fast.data<float>()[i], want, allowed) << op << "(" << x[static_cast<std::size_t>(i)] << ")";
      EXPECT_NEAR(reference.data<float>()[i], want, 1e-7 * std::max(1.0, std::fabs(want))) << op;
    }
  }
  EXPECT_TRUE(std::isnan(eval({op, "", 21, attributes}, {floats({1}, {kNan})}).data<float>()[0]));
}

TEST(Activation, FastLoopsAreWithinTheirBounds) {
  expect_function(
      "Exp", [](double x) { return static_cast<double>(static_cast<float>(std::exp(x))); }, 3e-7);
  expect_function(
      "Tanh", [](double x) { return std::tanh(x); }, 3e-7);
  expect_function(
      "Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, 3e-7);
  expect_function(
      "Erf", [](double x) { return std::erf(x); }, 3e-7);
  expect_function(
      "Gelu", [](double x) { return std::isinf(x) ? (x > 0 ? x : std::nan("")) : 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }, 1e-6);
}

TEST(Activation, KnownValues) {
  expect_near(eval({"HardSwish"}, {floats({4}, {-4, -1, 1, 4})}), floats({4}, {0, -1.0f / 3, 2.0f / 3, 4}));
  expect_near(eval({"PRelu"}, {floats({1, 2, 2}, {-1, 1, -2, 2}), floats({2, 1}, {0.5f, 0.25f})}), floats({1, 2, 2}, {-0.5f, 1, -0.5f, 2}));
  // Integers wrap around.
  expect_near(eval({"PRelu"}, {make<std::int32_t>({1}, {-46341}), make<std::int32_t>({1}, {1 << 30})}),
              make<std::int32_t>({1}, {-(1 << 30)}));
  expect_near(eval({"Swish", "", 24, {Attribute::of("alpha", 2.0f)}}, {floats({1}, {1})}), floats({1}, {0.8807970779f}));
  expect_near(eval({"Relu"}, {make<std::int8_t>({2}, {-3, 3})}), make<std::int8_t>({2}, {0, 3}));
  expect_near(eval({"Softplus"}, {floats({2}, {100, -100})}), floats({2}, {100, 0}));
}

TEST(Activation, SoftmaxByVersion) {
  const Tensor x = test::noise_tensor({2, 3, 4}, 3);
  // Axis 1 below opset 13 flattens the rest; from 13 on it is one axis.
  const Tensor flat = eval({"Softmax", "", 11, {Attribute::of("axis", std::int64_t{1})}}, {x});
  const Tensor axis = eval({"Softmax", "", 13, {Attribute::of("axis", std::int64_t{1})}}, {x});
  double flat_sum = 0, axis_sum = 0;
  for (int i = 0; i < 12; ++i) flat_sum += flat.data<float>()[i];
  for (int i = 0; i < 3; ++i) axis_sum += axis.data<float>()[4 * i];
  EXPECT_NEAR(flat_sum, 1, 1e-6);
  EXPECT_NEAR(axis_sum, 1, 1e-6);
  expect_near(eval({"Softmax"}, {floats({2}, {1000, -1000})}), floats({2}, {1, 0}));
  expect_near(eval({"LogSoftmax"}, {floats({1, 2}, {0, 0})}), floats({1, 2}, {-0.69314718f, -0.69314718f}));
  EXPECT_EQ(eval({"Softmax"}, {floats({0, 3}, {})}).dims(), (Shape{0, 3}));
}

// IsNaN-20 and IsInf-20 take the 8-bit floats.
TEST(Elementwise, NanAndInfinityOfEightBitFloats) {
  Tensor x(DType::kFloat8e5m2, {4});  // 1, -inf, inf, NaN
  const std::array<std::uint8_t, 4> codes{0x3c, 0xfc, 0x7c, 0x7f};
  std::memcpy(write<std::byte>(x), codes.data(), codes.size());
  test::expect_near(test::eval({"IsNaN", "", 20}, {x}), test::make<bool>({4}, {false, false, false, true}));
  test::expect_near(test::eval({"IsInf", "", 20}, {x}), test::make<bool>({4}, {false, true, true, false}));
  test::expect_near(test::eval({"IsInf", "", 20, {Attribute::of("detect_negative", std::int64_t{0})}}, {x}),
                    test::make<bool>({4}, {false, false, true, false}));
}

// Over the whole range, with tails of every length: 4 units in the last place, or 1e-36 where the result is next to nothing.
TEST(Elementwise, FastSigmoidAndSwish) {
  for (std::int64_t n : {1, 15, 16, 17, 2003}) {
    std::vector<float> x(static_cast<std::size_t>(n)), sigmoid(x.size(), 7.0f), swish(x.size(), 7.0f);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = (static_cast<float>(i) - static_cast<float>(n) / 2) * 0.11f;
    sigmoid_floats(x.data(), sigmoid.data(), n);
    swish_floats(x.data(), swish.data(), n, 1.7f);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double v = x[i], s = 1 / (1 + std::exp(-v)), w = v / (1 + std::exp(-static_cast<double>(1.7f * x[i])));
      EXPECT_NEAR(sigmoid[i], s, 5e-7 * s + 1e-36) << x[i];
      EXPECT_NEAR(swish[i], w, 5e-7 * std::fabs(w) * (1 + std::fabs(v)) + 1e-34) << x[i];
    }
  }
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> far{1e9f, -1e9f, 3e14f, -3e14f, 1e30f, -1e30f}, z(6);
  sigmoid_floats(far.data(), z.data(), 6);
  EXPECT_EQ(z, (std::vector<float>{1, 0, 1, 0, 1, 0}));
  swish_floats(far.data(), z.data(), 6, 1.0f);
  for (std::size_t i = 0; i < z.size(); ++i) EXPECT_EQ(z[i], std::max(0.0f, far[i]));
  std::vector<float> special{inf, -inf, std::numeric_limits<float>::quiet_NaN(), 0.0f}, y(4);
  sigmoid_floats(special.data(), y.data(), 4);
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 0.0f);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 0.5f);
  swish_floats(special.data(), y.data(), 4, 1.0f);
  EXPECT_EQ(y[0], inf);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 0.0f);
}

}  // namespace
}  // namespace saturate
