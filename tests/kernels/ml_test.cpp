#include <cmath>
#include <limits>

#include "kernel_test_util.h"

namespace saturate::test {
namespace {

constexpr const char* kMl = "ai.onnx.ml";
Attribute ints_attr(std::string name, std::vector<std::int64_t> v) { return Attribute::of(std::move(name), std::move(v)); }

TEST(Ml, LabelEncoderMapsNanAndDefaults) {
  const Call call{"LabelEncoder",
                  kMl,
                  2,
                  {Attribute::of("keys_floats", std::vector<float>{NAN, 1.5f}), ints_attr("values_int64s", {7, 8}),
                   Attribute::of("default_int64", std::int64_t{-3})}};
  const Tensor y = eval(call, {floats({3}, {1.5f, 2, NAN})});
  EXPECT_TRUE(identical(y, ints({3}, {8, -3, 7})));
  const Call old{"LabelEncoder",
                 kMl,
                 1,
                 {Attribute::of("classes_strings", std::vector<std::string>{"a", "b"}), Attribute::of("default_string", std::string("?"))}};
  EXPECT_TRUE(identical(eval(old, {Tensor::strings({2}, {"b", "z"})}), ints({2}, {1, -1})));
  EXPECT_TRUE(identical(eval(old, {ints({2}, {1, 9})}), Tensor::strings({2}, {"b", "?"})));
}

Call tree(std::vector<std::int64_t> true_at, std::vector<std::int64_t> true_leaf) {
  const Tensor modes = make<std::uint8_t>({2}, {0, 0}), splits = floats({2}, {1, 2}), weights = floats({3}, {10, 20, 30});
  return {
      "TreeEnsemble",
      kMl,
      5,
      {ints_attr("tree_roots", {0}), Attribute::of("nodes_modes", modes), Attribute::of("nodes_splits", splits),
       ints_attr("nodes_featureids", {0, 1}), ints_attr("nodes_truenodeids", std::move(true_at)), ints_attr("nodes_falsenodeids", {1, 2}),
       ints_attr("nodes_trueleafs", std::move(true_leaf)), ints_attr("nodes_falseleafs", {0, 1}), Attribute::of("leaf_weights", weights),
       ints_attr("leaf_targetids", {0, 0, 1}), Attribute::of("n_targets", std::int64_t{2})}};
}

TEST(Ml, TreesDecide) {
  const Tensor x = floats({3, 2}, {0, 0, 5, 2, NAN, NAN});
  expect_near(eval(tree({0, 1}, {1, 1}), {x}), floats({3, 2}, {10, 0, 20, 0, 0, 30}));
}

TEST(Ml, TreesThatRunInACircleAreRefused) {
  EXPECT_FALSE(run(tree({0, 1}, {0, 1}), {floats({1, 2}, {0, 0})}).ok());
  EXPECT_FALSE(run(tree({9, 1}, {1, 1}), {floats({1, 2}, {0, 0})}).ok());
  EXPECT_FALSE(run(tree({0, 1}, {1, 1}), {floats({1, 1}, {0})}).ok());
}

TEST(Ml, RandomOperatorsKeepTheirPromises) {
  const Tensor p = floats({4}, {0, 1, 0, 1});
  expect_near(eval({"Bernoulli", "", 15}, {p}), p);
  const Tensor u =
      eval({"RandomUniform",
            "",
            1,
            {ints_attr("shape", {1000}), Attribute::of("low", 2.0f), Attribute::of("high", 3.0f), Attribute::of("seed", 5.0f)}},
           {});
  ASSERT_EQ(u.dims(), Shape{1000});
  double sum = 0;
  for (float v : u.span<float>()) {
    EXPECT_TRUE(v >= 2.0f && v <= 3.0f);
    sum += v;
  }
  EXPECT_NEAR(sum / 1000, 2.5, 0.05);
  EXPECT_FALSE(run({"RandomNormal", "", 1, {ints_attr("shape", {-1})}}, {}).ok());
  const Tensor draws = eval({"Multinomial", "", 7, {Attribute::of("sample_size", std::int64_t{50})}}, {floats({1, 2}, {-1000, 0})});
  for (std::int64_t i = 0; i < draws.size(); ++i) EXPECT_EQ(*element_as_int(draws, i), 1);
}

TEST(Ml, MomentumOfTwoParameters) {
  const Call call{"Momentum",
                  "ai.onnx.preview.training",
                  1,
                  {Attribute::of("alpha", 0.5f), Attribute::of("beta", 2.0f), Attribute::of("norm_coefficient", 0.0f),
                   Attribute::of("mode", std::string("standard"))},
                  4};
  const auto out = run(call, {floats({}, {0.1f}), ints({}, {1}), floats({1}, {1}), floats({1}, {5}), floats({1}, {2}), floats({1}, {0}),
                              floats({1}, {4}), floats({1}, {8})});
  ASSERT_TRUE(out.ok()) << out.status();
  expect_near((*out)[0].tensor(), floats({1}, {0.4f}));  // v = 0.5 * 4 + 2 * 2 = 6
  expect_near((*out)[1].tensor(), floats({1}, {4.6f}));  // v = 4
  expect_near((*out)[2].tensor(), floats({1}, {6}));
}

}  // namespace
}  // namespace saturate::test
