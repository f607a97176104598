#include <cmath>
#include <limits>

#include "kernel_test_util.h"

namespace saturate {
namespace {

using test::eval, test::expect_near, test::floats, test::ints, test::make;

// softmax(q k^T * scale + bias) v for one head, by the formula.
std::vector<float> head(const float* q, const float* k, const float* v, std::int64_t rows, std::int64_t keys, std::int64_t size,
                        double scale, const std::function<bool(std::int64_t, std::int64_t)>& sees) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < rows; ++i) {
    std::vector<double> p(static_cast<std::size_t>(keys), 0);
    double sum = 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      double dot = 0;
      for (std::int64_t d = 0; d < size; ++d) dot += static_cast<double>(q[i * size + d]) * static_cast<double>(k[j * size + d]);
      if (sees(i, j)) sum += p[static_cast<std::size_t>(j)] = std::exp(dot * scale);
    }
    for (std::int64_t d = 0; d < size; ++d) {
      double y = 0;
      for (std::int64_t j = 0; j < keys; ++j) y += p[static_cast<std::size_t>(j)] * static_cast<double>(v[j * size + d]);
      out.push_back(sum == 0 ? 0.0f : static_cast<float>(y / sum));
    }
  }
  return out;
}

TEST(Attention, ManyQueriesBlockByBlock) {
  const Tensor q = test::noise_tensor({1, 1, 250, 8}, 1), k = test::noise_tensor({1, 1, 130, 8}, 2),
               v = test::noise_tensor({1, 1, 130, 8}, 3);
  const auto all = [](std::int64_t, std::int64_t) { return true; };
  expect_near(eval({"Attention", "", 23}, {q, k, v}),
              floats({1, 1, 250, 8}, head(q.data<float>(), k.data<float>(), v.data<float>(), 250, 130, 8, 1 / std::sqrt(8.0), all)), 1e-5);
}

TEST(Attention, CausalWithPastIsAlignedAtTheBottomRight) {
  const Tensor q = test::noise_tensor({1, 1, 3, 4}, 1), k = test::noise_tensor({1, 1, 5, 4}, 2), v = test::noise_tensor({1, 1, 5, 4}, 3);
  const auto part = [](const Tensor& t, std::int64_t from, std::int64_t to) {
    return floats({1, 1, to - from, 4}, std::vector<float>(t.data<float>() + from * 4, t.data<float>() + to * 4));
  };
  const test::Call call{"Attention", "", 23, {Attribute::of("is_causal", std::int64_t{1}), Attribute::of("scale", 0.7f)}, 3};
  const auto out = test::run(call, {q, part(k, 2, 5), part(v, 2, 5), Value(), part(k, 0, 2), part(v, 0, 2)});
  ASSERT_TRUE(out.ok()) << out.status();
  const auto sees = [](std::int64_t i, std::int64_t j) { return j <= i + 2; };
  expect_near((*out)[0].tensor(),
              floats({1, 1, 3, 4}, head(q.data<float>(), k.data<float>(), v.data<float>(), 3, 5, 4, static_cast<double>(0.7f), sees)),
              1e-5);
  expect_near((*out)[1].tensor(), k);
  expect_near((*out)[2].tensor(), v);
}

TEST(Attention, FullyMaskedRowsAreZero) {
  const Tensor x = test::noise_tensor({1, 1, 2, 4}, 1);
  const Tensor y = eval({"Attention", "", 23}, {x, x, x, make<bool>({2, 2}, {false, false, true, true})});
  for (int d = 0; d < 4; ++d) EXPECT_EQ(y.data<float>()[d], 0.0f);
  EXPECT_NE(y.data<float>()[4], 0.0f);
}

TEST(Attention, GroupsOfQueriesShareKeys) {
  const Tensor q = test::noise_tensor({1, 3, 2 * 4 * 6}, 1), k = test::noise_tensor({1, 5, 2 * 6}, 2),
               v = test::noise_tensor({1, 5, 2 * 6}, 3);
  const test::Call call{
      "Attention", "", 23, {Attribute::of("q_num_heads", std::int64_t{8}), Attribute::of("kv_num_heads", std::int64_t{2})}};
  const Tensor y = eval(call, {q, k, v});
  ASSERT_EQ(y.dims(), (Shape{1, 3, 48}));
  std::vector<float> q5, k1, v1;  // query head 5 reads key head 1
  for (int i = 0; i < 3; ++i) q5.insert(q5.end(), q.data<float>() + i * 48 + 30, q.data<float>() + i * 48 + 36);
  for (int j = 0; j < 5; ++j) {
    k1.insert(k1.end(), k.data<float>() + j * 12 + 6, k.data<float>() + j * 12 + 12);
    v1.insert(v1.end(), v.data<float>() + j * 12 + 6, v.data<float>() + j * 12 + 12);
  }
  const std::vector<float> want = head(q5.data(), k1.data(), v1.data(), 3, 5, 6, 1 / std::sqrt(6.0), [](auto, auto) { return true; });
  for (int i = 0; i < 3; ++i) {
    for (int d = 0; d < 6; ++d) EXPECT_NEAR(y.data<float>()[i * 48 + 30 + d], want[static_cast<std::size_t>(i * 6 + d)], 1e-5);
  }
}

TEST(Attention, FastEqualsReference) {
  const Tensor q = test::noise_tensor({2, 4, 7, 8}, 1), k = test::noise_tensor({2, 2, 9, 8}, 2), v = test::noise_tensor({2, 2, 9, 5}, 3),
               mask = test::noise_tensor({2, 1, 7, 9}, 4);
  const std::vector<Attribute> attributes{Attribute::of("softcap", 1.5f), Attribute::of("is_causal", std::int64_t{1})};
  expect_near(eval({"Attention", "", 23, attributes}, {q, k, v, mask}), eval({"Attention", "", 23, attributes, 1, true}, {q, k, v, mask}),
              1e-5);
}

TEST(Attention, RefusesWhatDoesNotFit) {
  const Tensor x = test::noise_tensor({1, 2, 3, 4}, 1);
  EXPECT_FALSE(test::run({"Attention", "", 23}, {x, test::noise_tensor({1, 2, 3, 5}, 1), x}).ok());
  EXPECT_FALSE(test::run({"Attention", "", 23}, {x, test::noise_tensor({1, 3, 3, 4}, 1), test::noise_tensor({1, 3, 3, 4}, 1)}).ok());
  EXPECT_FALSE(test::run({"Attention", "", 23}, {x, x, x, make<bool>({4, 3}, std::vector<bool>(12, true))}).ok());
  EXPECT_FALSE(test::run({"Attention", "", 23}, {x, x, x, Value(), x}).ok());
}

}  // namespace
}  // namespace saturate
