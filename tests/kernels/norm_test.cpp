#include <cmath>

#include "kernel_test_util.h"

namespace saturate {
namespace {

using test::eval, test::expect_near, test::floats;

TEST(Norm, LayerNormalizationGivesItsStatistics) {
  const Tensor x = floats({2, 2}, {1, 3, -4, 4});
  const auto out =
      test::run({"LayerNormalization", "", 17, {Attribute::of("epsilon", 0.0f)}, 3}, {x, floats({2}, {2, 3}), floats({2}, {0.5f, 0})});
  ASSERT_TRUE(out.ok()) << out.status();
  expect_near((*out)[0].tensor(), floats({2, 2}, {-1.5f, 3, -1.5f, 3}));
  expect_near((*out)[1].tensor(), floats({2, 1}, {2, 0}));
  expect_near((*out)[2].tensor(), floats({2, 1}, {1, 0.25f}));
}

TEST(Norm, FastEqualsReference) {
  for (std::int64_t axis : {-1, 1, 0}) {
    const Tensor x = test::noise_tensor({3, 5, 17}, 1);
    const Shape inner = axis == 0 ? Shape{3, 5, 17} : axis == 1 ? Shape{5, 17} : Shape{17};
    const Tensor scale = test::noise_tensor(inner, 2), bias = test::noise_tensor(inner, 3);
    const std::vector<Attribute> attributes{Attribute::of("axis", axis)};
    expect_near(eval({"LayerNormalization", "", 17, attributes}, {x, scale, bias}),
                eval({"LayerNormalization", "", 17, attributes, 1, true}, {x, scale, bias}), 1e-5);
    expect_near(eval({"RMSNormalization", "", 23, attributes}, {x, scale}),
                eval({"RMSNormalization", "", 23, attributes, 1, true}, {x, scale}), 1e-5);
  }
}

// "Scale and B should be unidirectional broadcastable to tensor X": to all of it, not to the normalized dims alone.
TEST(Norm, ScaleAndBiasAsWideAsTheInput) {
  const Tensor x = floats({2, 2}, {1, 3, -4, 4}), scale = floats({2, 2}, {2, 3, 5, 7}), bias = floats({2, 1}, {10, 20});
  expect_near(eval({"LayerNormalization", "", 17, {Attribute::of("epsilon", 0.0f)}}, {x, scale, bias}), floats({2, 2}, {8, 13, 15, 27}));
  EXPECT_FALSE(test::run({"LayerNormalization", "", 17}, {x, floats({3, 2}, {1, 1, 1, 1, 1, 1})}).ok());
}

TEST(Norm, RmsHasTheTypeOfItsScale) {
  const Tensor scale = Tensor::of<double>(DType::kDouble, {2}, std::vector<double>{1, 2});
  const Tensor y = eval({"RMSNormalization", "", 23, {Attribute::of("epsilon", 0.0f)}}, {floats({1, 2}, {3, 3}), scale});
  ASSERT_EQ(y.dtype(), DType::kDouble);
  EXPECT_EQ(y.data<double>()[0], 1);
  EXPECT_EQ(y.data<double>()[1], 2);
}

// A mean far from zero must not cancel the variance away.
TEST(Norm, VarianceAboutALargeMean) {
  const Tensor y =
      eval({"LayerNormalization", "", 17, {Attribute::of("epsilon", 0.0f)}}, {floats({1, 2}, {10000, 10002}), floats({2}, {1, 1})});
  expect_near(y, floats({1, 2}, {-1, 1}), 1e-5);
}

TEST(Norm, BatchNormalizationInferenceAndTraining) {
  const Tensor x = floats({2, 1, 2}, {1, 2, 3, 6}), scale = floats({1}, {2}), bias = floats({1}, {1}), mean = floats({1}, {2}),
               variance = floats({1}, {4});
  expect_near(eval({"BatchNormalization", "", 15, {Attribute::of("epsilon", 0.0f)}}, {x, scale, bias, mean, variance}),
              floats({2, 1, 2}, {0, 1, 2, 5}));
  const auto out =
      test::run({"BatchNormalization",
                 "",
                 15,
                 {Attribute::of("epsilon", 0.0f), Attribute::of("training_mode", std::int64_t{1}), Attribute::of("momentum", 0.5f)},
                 3},
                {x, scale, bias, mean, variance});
  ASSERT_TRUE(out.ok()) << out.status();
  expect_near((*out)[1].tensor(), floats({1}, {2.5f}));   // (2 + 3) / 2
  expect_near((*out)[2].tensor(), floats({1}, {3.75f}));  // (4 + 3.5) / 2
  expect_near((*out)[0].tensor(), floats({2, 1, 2}, {1 - 4 / std::sqrt(3.5f), 1 - 2 / std::sqrt(3.5f), 1, 1 + 6 / std::sqrt(3.5f)}), 1e-5);
}

TEST(Norm, GroupNormalizationWeightsByVersion) {
  const Tensor x = test::noise_tensor({2, 4, 3}, 1);
  const std::vector<Attribute> two{Attribute::of("num_groups", std::int64_t{2})};
  const Tensor groups = eval({"GroupNormalization", "", 18, two}, {x, floats({2}, {2, 3}), floats({2}, {0, 1})});
  const Tensor channels = eval({"GroupNormalization", "", 21, two}, {x, floats({4}, {2, 2, 3, 3}), floats({4}, {0, 0, 1, 1})});
  expect_near(groups, channels);
  EXPECT_FALSE(test::run({"GroupNormalization", "", 21, two}, {x, floats({2}, {2, 3}), floats({2}, {0, 1})}).ok());
}

TEST(Norm, InstanceNormalizationIsPerPlane) {
  expect_near(eval({"InstanceNormalization", "", 6, {Attribute::of("epsilon", 0.0f)}},
                   {floats({1, 2, 2}, {1, 3, 10, 30}), floats({2}, {1, 1}), floats({2}, {0, 0})}),
              floats({1, 2, 2}, {-1, 1, -1, 1}));
}

TEST(Norm, LpNormalizationOfZerosIsZero) {
  expect_near(eval({"LpNormalization", "", 22, {Attribute::of("axis", std::int64_t{1})}}, {floats({2, 2}, {3, 4, 0, 0})}),
              floats({2, 2}, {0.6f, 0.8f, 0, 0}));
}

}  // namespace
}  // namespace saturate
