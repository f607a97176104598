#include <cmath>
#include <limits>

#include "kernel_test_util.h"

namespace saturate::test {
namespace {

constexpr const char* kMl = "ai.onnx.ml";

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

// Votes for these classes at the two leaves of a stump, the last class twice where there are three; ONNX Runtime's outputs.
Call stump(std::vector<std::int64_t> classes, std::vector<float> weights, std::vector<Attribute> more = {}) {
  const std::vector<std::int64_t> zeros(classes.size());
  std::vector<Attribute> attributes = {
      ints_attr("nodes_treeids", {0, 0, 0}),
      ints_attr("nodes_nodeids", {0, 1, 2}),
      ints_attr("nodes_featureids", {0, 0, 0}),
      Attribute::of("nodes_modes", std::vector<std::string>{"BRANCH_LEQ", "LEAF", "LEAF"}),
      Attribute::of("nodes_values", std::vector<float>{1, 0, 0}),
      ints_attr("nodes_truenodeids", {1, 0, 0}),
      ints_attr("nodes_falsenodeids", {2, 0, 0}),
      ints_attr("class_treeids", zeros),
      ints_attr("class_nodeids", classes.size() == 2 ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{1, 1, 2}),
      ints_attr("class_ids", std::move(classes)),
      Attribute::of("class_weights", std::move(weights)),
      ints_attr("classlabels_int64s", {7, 9})};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return {"TreeEnsembleClassifier", kMl, 3, std::move(attributes), 2};
}

void expect_classes(const Call& call, const Tensor& x, const Tensor& labels, const Tensor& scores) {
  const auto out = run(call, {x});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_TRUE(identical((*out)[0].tensor(), labels));
  expect_near((*out)[1].tensor(), scores);
}

TEST(Ml, TreesClassify) {
  const Tensor x = floats({2, 2}, {0, 0, 5, 2});
  expect_classes(stump({1, 1}, {0.2f, 0.9f}), x, ints({2}, {7, 9}), floats({2, 2}, {0, 0.2f, 0, 0.9f}));
  expect_classes(stump({0, 0}, {0.2f, 0.9f}), x, ints({2}, {7, 9}), floats({2, 2}, {0.8f, 0.2f, 0.1f, 0.9f}));
  expect_classes(stump({0, 1, 1}, {0.75f, 0.25f, 1}), x, ints({2}, {7, 9}), floats({2, 2}, {0.75f, 0.25f, 0, 1}));
  expect_classes(stump({0, 0}, {-0.2f, 0.9f},
                       {Attribute::of("post_transform", std::string("LOGISTIC")), Attribute::of("base_values", std::vector<float>{-0.1f})}),
                 x, ints({2}, {7, 9}), floats({2, 2}, {0.5744425f, 0.4255575f, 0.31002557f, 0.6899744f}));
  EXPECT_FALSE(run(stump({2, 2}, {1, 1}), {x}).ok());
}

Call machine(std::vector<Attribute> more = {}) {
  std::vector<Attribute> attributes = {Attribute::of("classlabels_strings", std::vector<std::string>{"a", "b", "c"}),
                                       Attribute::of("kernel_type", std::string("RBF")),
                                       Attribute::of("kernel_params", std::vector<float>{0.1f, 0, 0}),
                                       Attribute::of("support_vectors", std::vector<float>{0, 0, 4, 1, 1, -2}),
                                       ints_attr("vectors_per_class", {1, 1, 1}),
                                       Attribute::of("coefficients", std::vector<float>{1, -0.5f, -0.25f, 0.75f, 0.5f, -1}),
                                       Attribute::of("rho", std::vector<float>{0.1f, -0.2f, 0.05f})};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return {"SVMClassifier", kMl, 1, std::move(attributes), 2};
}

// ONNX Runtime's outputs.
TEST(Ml, SupportVectorsClassify) {
  const Tensor x = floats({2, 2}, {0, 0, 1.5f, -3}), labels = Tensor::strings({2}, {"a", "c"});
  expect_classes(machine(), x, labels, floats({2, 3}, {1.0086583f, 0.39836735f, -0.46518892f, 0.37061876f, -0.17713487f, -0.7784632f}));
  expect_classes(
      machine({Attribute::of("prob_a", std::vector<float>{-2, -1.5f, -1}), Attribute::of("prob_b", std::vector<float>{0.1f, 0, -0.1f})}), x,
      labels, floats({2, 3}, {0.5868445f, 0.12511846f, 0.28803712f, 0.35348874f, 0.20534404f, 0.44116738f}));
  EXPECT_FALSE(run(machine(), {floats({1, 3}, {0, 0, 0})}).ok());
  const Call regressor{"SVMRegressor",
                       kMl,
                       1,
                       {Attribute::of("kernel_type", std::string("POLY")), Attribute::of("kernel_params", std::vector<float>{0.5f, 1, 2}),
                        Attribute::of("support_vectors", std::vector<float>{0, 1, 4, 1}), Attribute::of("n_supports", std::int64_t{2}),
                        Attribute::of("coefficients", std::vector<float>{1, -0.5f}), Attribute::of("rho", std::vector<float>{0.25f})}};
  expect_near(eval(regressor, {floats({3, 2}, {0, 0, 5, 2, 1.5f, -3})}), floats({3, 1}, {0.75f, -67.75f, -2.625f}));
}

TEST(Ml, ZipMapGivesAMapForEachRow) {
  const Call call{"ZipMap", kMl, 1, {Attribute::of("classlabels_strings", std::vector<std::string>{"n", "y"})}};
  const auto out = run(call, {floats({2, 2}, {1, 2, 3, 4})});
  ASSERT_TRUE(out.ok()) << out.status();
  const Sequence& maps = std::get<Sequence>((*out)[0].v);
  ASSERT_EQ(maps.items.size(), 2u);
  const Sequence& second = std::get<Sequence>(maps.items[1].v);
  EXPECT_TRUE(identical(second.items[0].tensor(), Tensor::strings({2}, {"n", "y"})));
  EXPECT_TRUE(identical(second.items[1].tensor(), floats({2}, {3, 4})));
  EXPECT_FALSE(run(call, {floats({2, 3}, {1, 2, 3, 4, 5, 6})}).ok());
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
