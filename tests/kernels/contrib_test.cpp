// Identities between fused operators and what they fuse. suites/contrib_vs_ort.py compares with ONNX Runtime's own kernels.
#include <cmath>
#include <limits>

#include "kernel_test_util.h"

namespace saturate {
namespace {

using test::eval, test::expect_near, test::floats, test::ints, test::make;
const std::string kMs = "com.microsoft";

TEST(Contrib, SkipLayerNormalizationIsAddThenNorm) {
  const Tensor x = test::noise_tensor({2, 3, 8}, 1), skip = test::noise_tensor({3, 8}, 2), g = test::noise_tensor({8}, 3),
               b = test::noise_tensor({8}, 4), bias = test::noise_tensor({8}, 5);
  const auto out = test::run({"SkipLayerNormalization", kMs, 1, {Attribute::of("epsilon", 1e-3f)}, 4}, {x, skip, g, b, bias});
  ASSERT_TRUE(out.ok()) << out.status();
  const Tensor sum = eval({"Add"}, {eval({"Add"}, {x, skip}), bias});
  expect_near((*out)[3].tensor(), sum);
  expect_near((*out)[0].tensor(), eval({"LayerNormalization", "", 17, {Attribute::of("epsilon", 1e-3f)}}, {sum, g, b}), 1e-6);
  const auto simple = test::run({"SkipSimplifiedLayerNormalization", kMs, 1, {Attribute::of("epsilon", 1e-3f)}, 4}, {x, skip, g, bias});
  ASSERT_TRUE(simple.ok()) << simple.status();
  expect_near((*simple)[0].tensor(), eval({"RMSNormalization", "", 23, {Attribute::of("epsilon", 1e-3f)}}, {sum, g}), 1e-6);
}

TEST(Contrib, GelusAddTheirBiasFirst) {
  const Tensor x = test::noise_tensor({2, 6}, 1), b = test::noise_tensor({6}, 2), sum = eval({"Add"}, {x, b});
  expect_near(eval({"BiasGelu", kMs, 1}, {x, b}), eval({"Gelu"}, {sum}));
  expect_near(eval({"FastGelu", kMs, 1}, {x, b}), eval({"Gelu", "", 20, {Attribute::of("approximate", std::string("tanh"))}}, {sum}));
  expect_near(eval({"FastGelu", kMs, 1}, {x}), eval({"Gelu", "", 20, {Attribute::of("approximate", std::string("tanh"))}}, {x}));
  const Tensor split = eval({"BiasSplitGelu", kMs, 1}, {x, b});
  const Tensor gelu = eval({"Gelu"}, {sum});
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j)
      EXPECT_NEAR(split.data<float>()[i * 3 + j], sum.data<float>()[i * 6 + j] * gelu.data<float>()[i * 6 + 3 + j], 1e-6);
  }
}

TEST(Contrib, GroupNormOfEachLayoutIsGroupNormalization) {
  const Tensor x = test::noise_tensor({2, 6, 3, 5}, 1), g = test::noise_tensor({6}, 2), b = test::noise_tensor({6}, 3);
  const auto norm = [](std::int64_t activation, std::int64_t last) {
    return std::vector<Attribute>{Attribute::of("activation", activation), Attribute::of("channels_last", last),
                                  Attribute::of("epsilon", 1e-3f), Attribute::of("groups", std::int64_t{3})};
  };
  const auto transposed = [](const Tensor& t, std::vector<std::int64_t> perm) {
    return eval({"Transpose", "", 21, {Attribute::of("perm", std::move(perm))}}, {t});
  };
  const Tensor y =
      eval({"GroupNormalization", "", 21, {Attribute::of("epsilon", 1e-3f), Attribute::of("num_groups", std::int64_t{3})}}, {x, g, b});
  const Tensor swish = eval({"Mul"}, {y, eval({"Sigmoid"}, {y})}), last = transposed(x, {0, 2, 3, 1});
  expect_near(eval({"GroupNorm", kMs, 1, norm(0, 0)}, {x, g, b}), y, 1e-6);
  expect_near(eval({"GroupNorm", kMs, 1, norm(1, 0)}, {x, g, b}), swish, 1e-6);
  expect_near(transposed(eval({"GroupNorm", kMs, 1, norm(1, 1)}, {last, g, b}), {0, 3, 1, 2}), swish, 1e-6);

  const Tensor skip = test::noise_tensor({2, 6}, 4), bias = test::noise_tensor({6}, 5);
  const Tensor sum = eval({"Add"}, {eval({"Add"}, {last, skip.reshaped({2, 1, 1, 6})}), bias});
  for (const Tensor& s : {skip, skip.reshaped({2, 1, 1, 6})}) {
    const auto out = test::run({"SkipGroupNorm", kMs, 1, norm(0, 1), 2}, {last, g, b, s, bias});
    ASSERT_TRUE(out.ok()) << out.status();
    expect_near((*out)[1].tensor(), sum);
    expect_near((*out)[0].tensor(), eval({"GroupNorm", kMs, 1, norm(0, 1)}, {sum, g, b}), 1e-6);
  }
  EXPECT_FALSE(test::run({"SkipGroupNorm", kMs, 1, norm(0, 1), 2}, {last, g, b, skip.reshaped({1, 2, 1, 6})}).ok());
  EXPECT_FALSE(test::run({"SkipGroupNorm", kMs, 1, norm(0, 1), 2}, {last, g, b, skip, skip}).ok());
  EXPECT_FALSE(test::run({"GroupNorm", kMs, 1, norm(2, 1)}, {last, g, b}).ok());
  EXPECT_FALSE(test::run({"GroupNorm", kMs, 1, norm(0, 1)}, {x, g, b}).ok());  // five channels make no three groups
}

TEST(Contrib, BiasAddTakesWholeRowsOnly) {
  const Tensor x = test::noise_tensor({2, 3, 4}, 1), skip = test::noise_tensor({2, 3, 4}, 2), b = test::noise_tensor({4}, 3);
  expect_near(eval({"BiasAdd", kMs, 1}, {x, b, skip}), eval({"Add"}, {eval({"Add"}, {x, b}), skip}));
  EXPECT_FALSE(test::run({"BiasAdd", kMs, 1}, {x, test::noise_tensor({1}, 3), skip}).ok());
  EXPECT_FALSE(test::run({"BiasAdd", kMs, 1}, {x, b, test::noise_tensor({1, 3, 4}, 2)}).ok());
}

TEST(Contrib, RotaryOfBothDomainsAgree) {
  const Tensor x = test::noise_tensor({2, 3, 2, 8}, 1), cos = test::noise_tensor({10, 4}, 2), sin = test::noise_tensor({10, 4}, 3),
               at = ints({2, 2}, {0, 9, 4, 1});
  for (std::int64_t interleaved : {0, 1}) {
    const std::vector<Attribute> a{Attribute::of("interleaved", interleaved)};
    expect_near(eval({"RotaryEmbedding", "", 23, a}, {x, cos, sin, at}), eval({"RotaryEmbedding", kMs, 1, a}, {x, at, cos, sin}));
  }
  EXPECT_FALSE(test::run({"RotaryEmbedding", "", 23}, {x, cos, sin, ints({2, 2}, {0, 10, 0, 0})}).ok());
  for (const std::int64_t first : {std::int64_t{-1}, std::int64_t{9}, std::numeric_limits<std::int64_t>::max()})
    EXPECT_FALSE(test::run({"RotaryEmbedding", kMs, 1}, {x, ints({1}, {first}), cos, sin}).ok()) << first;
  EXPECT_TRUE(test::run({"RotaryEmbedding", kMs, 1}, {x, ints({1}, {8}), cos, sin}).ok());
}

TEST(Contrib, MultiHeadAttentionIsAttention) {
  const Tensor q = test::noise_tensor({2, 3, 8}, 1), k = test::noise_tensor({2, 5, 8}, 2), v = test::noise_tensor({2, 5, 8}, 3);
  const Tensor want = eval(
      {"Attention", "", 23, {Attribute::of("q_num_heads", std::int64_t{2}), Attribute::of("kv_num_heads", std::int64_t{2})}}, {q, k, v});
  expect_near(eval({"MultiHeadAttention", kMs, 1, {Attribute::of("num_heads", std::int64_t{2})}}, {q, k, v}), want);
  // Masked keys are as good as absent.
  const Tensor mask = make<std::int32_t>({2, 5}, {1, 1, 1, 0, 0, 1, 1, 1, 0, 0});
  const Tensor masked = eval({"MultiHeadAttention", kMs, 1, {Attribute::of("num_heads", std::int64_t{2})}}, {q, k, v, Value(), mask});
  const Tensor lengths = eval({"MultiHeadAttention", kMs, 1, {Attribute::of("num_heads", std::int64_t{2})}},
                              {q, k, v, Value(), make<std::int32_t>({2}, {3, 3})});
  expect_near(masked, lengths);
}

TEST(Contrib, PackedAttentionIsAttentionOfEachSequence) {
  constexpr std::int64_t kTokens = 5, kLongest = 4;
  const Tensor q = test::noise_tensor({kTokens, 8}, 1), k = test::noise_tensor({kTokens, 8}, 2), v = test::noise_tensor({kTokens, 6}, 3),
               bias = test::noise_tensor({22}, 4), scores = test::noise_tensor({2, 1, kLongest, kLongest}, 5);
  const std::vector<Attribute> heads{Attribute::of("num_heads", std::int64_t{2})};
  const auto bounds = [](std::vector<std::int32_t> at) { return make<std::int32_t>({static_cast<std::int64_t>(at.size())}, at); };
  const Tensor offset = make<std::int32_t>({2, kLongest}, {0, 4, 5, 6, 7, 1, 2, 3});
  const auto packed = [&](const Value& of_q, const Value& of_k, const Value& of_v, const Value& b, const Tensor& at, const Value& s) {
    return test::run({"PackedMultiHeadAttention", kMs, 1, heads}, {of_q, of_k, of_v, b, offset, at, s});
  };
  const auto got = packed(q, k, v, bias, bounds({0, 1, 5}), scores);
  ASSERT_TRUE(got.ok()) << got.status();
  const auto rows = [](const Tensor& t, std::int64_t from, std::int64_t to) {
    const std::int64_t n = t.dims()[1];
    return floats({1, to - from, n}, std::vector<float>(t.data<float>() + from * n, t.data<float>() + to * n));
  };
  const float* s = scores.data<float>();
  const Tensor one = floats({1, 1, 1, 1}, {s[0]}), four = floats({1, 1, 4, 4}, std::vector<float>(s + 16, s + 32));
  for (const auto& [from, to, added] : {std::tuple(0, 1, one), {1, 5, four}}) {
    const Tensor want =
        eval({"MultiHeadAttention", kMs, 1, heads}, {rows(q, from, to), rows(k, from, to), rows(v, from, to), bias, Value(), added});
    expect_near(rows((*got)[0].tensor(), from, to), want);
  }
  EXPECT_EQ((*got)[0].tensor().dims(), (Shape{kTokens, 6}));
  // Q, K and V in one tensor: [tokens, heads, 3, size].
  std::vector<float> together;
  for (std::int64_t i = 0; i < kTokens * 2; ++i)
    for (const Tensor* t : {&q, &k, &k}) together.insert(together.end(), t->data<float>() + i * 4, t->data<float>() + (i + 1) * 4);
  const auto joined = packed(floats({kTokens, 2, 3, 4}, together), Value(), Value(), Value(), bounds({0, 0, 5}), Value());
  const auto apart = packed(q, k, k, Value(), bounds({0, 0, 5}), Value());
  ASSERT_TRUE(joined.ok() && apart.ok()) << joined.status() << apart.status();
  expect_near((*joined)[0].tensor(), (*apart)[0].tensor());
  for (const std::vector<std::int32_t>& wrong : {std::vector<std::int32_t>{0, 4}, {1, 5}, {0, 3, 2, 5}, {0, 6}, {}})
    EXPECT_FALSE(packed(q, k, v, Value(), bounds(wrong), Value()).ok());
  EXPECT_FALSE(packed(q, k, v, Value(), bounds({0, 5}), scores).ok());  // the bias is of four rows, the sequence of five
}

TEST(Contrib, GroupQueryDecodingContinuesThePrompt) {
  // Three rows at once give the same as two and then one with the cache.
  const Tensor q = test::noise_tensor({1, 3, 16}, 1), k = test::noise_tensor({1, 3, 8}, 2), v = test::noise_tensor({1, 3, 8}, 3),
               cos = test::noise_tensor({8, 2}, 4), sin = test::noise_tensor({8, 2}, 5);
  const test::Call call{"GroupQueryAttention",
                        kMs,
                        1,
                        {Attribute::of("num_heads", std::int64_t{4}), Attribute::of("kv_num_heads", std::int64_t{2}),
                         Attribute::of("do_rotary", std::int64_t{1})},
                        3};
  const auto rows = [](const Tensor& t, std::int64_t from, std::int64_t to) {
    const std::int64_t n = t.dims()[2];
    return floats({1, to - from, n}, std::vector<float>(t.data<float>() + from * n, t.data<float>() + to * n));
  };
  const auto length = [](std::int32_t n) { return make<std::int32_t>({1}, {n}); };
  const auto all = test::run(call, {q, k, v, Value(), Value(), length(2), length(3), cos, sin});
  ASSERT_TRUE(all.ok()) << all.status();
  const auto first = test::run(call, {rows(q, 0, 2), rows(k, 0, 2), rows(v, 0, 2), Value(), Value(), length(1), length(2), cos, sin});
  ASSERT_TRUE(first.ok()) << first.status();
  const auto next =
      test::run(call, {rows(q, 2, 3), rows(k, 2, 3), rows(v, 2, 3), (*first)[1], (*first)[2], length(2), length(3), cos, sin});
  ASSERT_TRUE(next.ok()) << next.status();
  expect_near((*next)[0].tensor(), rows((*all)[0].tensor(), 2, 3), 1e-6);
  expect_near((*next)[1].tensor(), (*all)[1].tensor());
}

TEST(Contrib, ScoresThatAreNotANumberAreNoMask) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor q = floats({1, 1, 8}, std::vector<float>(8, 1.0f)), v = test::noise_tensor({1, 2, 8}, 3);
  Tensor k = test::noise_tensor({1, 2, 8}, 2);
  k.mutable_as<float>()[0] = -inf;                                     // the score of the first key: minus infinity
  k.mutable_as<float>()[8] = std::numeric_limits<float>::quiet_NaN();  // of the second
  for (const bool reference : {false, true}) {
    const Tensor y = eval({"MultiHeadAttention", kMs, 1, {Attribute::of("num_heads", std::int64_t{1})}, 1, reference}, {q, k, v});
    const Tensor z = eval({"GroupQueryAttention",
                           kMs,
                           1,
                           {Attribute::of("num_heads", std::int64_t{1}), Attribute::of("kv_num_heads", std::int64_t{1})},
                           3,
                           reference},
                          {floats({1, 2, 8}, std::vector<float>(16, 1.0f)), k, v, Value(), Value(), make<std::int32_t>({1}, {1}),
                           make<std::int32_t>({1}, {2})});
    EXPECT_TRUE(std::isnan(y.data<float>()[0])) << reference;
    EXPECT_TRUE(std::isnan(z.data<float>()[8])) << reference;
  }
}

// What ONNX Runtime 1.20 to 1.32 computes (values 1, 10, 100, 1000 of equal scores; the first two tokens are hidden, too).
TEST(Contrib, TheFutureIsHiddenByTheLowestFloat) {
  constexpr float kLowest = std::numeric_limits<float>::lowest(), kInf = std::numeric_limits<float>::infinity();
  const Tensor q = floats({1, 4, 1}, std::vector<float>(4, 0.0f)), v = floats({1, 4, 1}, {1, 10, 100, 1000});
  const Tensor tokens = make<std::int32_t>({1, 4}, {0, 0, 1, 1});
  const auto attend = [&](const Value& mask, const Value& bias, float fill, bool reference) {
    return eval({"MultiHeadAttention",
                 kMs,
                 1,
                 {Attribute::of("num_heads", std::int64_t{1}), Attribute::of("unidirectional", std::int64_t{1}),
                  Attribute::of("mask_filter_value", fill)},
                 1,
                 reference},
                {q, q, v, Value(), mask, bias});
  };
  const auto rows_of = [&](float f) {
    std::vector<float> bias;
    for (int i = 0; i < 4; ++i) bias.insert(bias.end(), {f, f, 0.0f, 0.0f});
    return floats({1, 1, 4, 4}, bias);
  };
  for (const bool reference : {false, true}) {
    expect_near(attend(Value(), Value(), -1e4f, reference), floats({1, 4, 1}, {1, 5.5f, 37, 277.75f}), 1e-3);
    expect_near(attend(tokens, Value(), -1e4f, reference), floats({1, 4, 1}, {1, 5.5f, 100, 550}), 1e-3);
    expect_near(attend(tokens, Value(), kLowest, reference), floats({1, 4, 1}, {277.75f, 277.75f, 100, 550}), 1e-3);
    expect_near(attend(tokens, Value(), -kInf, reference), floats({1, 4, 1}, {370, 550, 100, 550}), 1e-3);
    expect_near(attend(Value(), rows_of(-1e38f), -1e4f, reference), floats({1, 4, 1}, {1, 5.5f, 100, 550}), 1e-3);
    expect_near(attend(Value(), rows_of(kLowest), -1e4f, reference), floats({1, 4, 1}, {367, 277.75f, 100, 550}), 1e-3);
    expect_near(attend(Value(), rows_of(-kInf), -1e4f, reference), floats({1, 4, 1}, {550, 550, 100, 550}), 1e-3);
  }
}

TEST(Contrib, FusedMatMulTransposesAndScales) {
  const Tensor a = test::noise_tensor({2, 4, 3}, 1), b = test::noise_tensor({2, 5, 4}, 2);
  const Tensor at = eval({"Transpose", "", 21, {Attribute::of("perm", std::vector<std::int64_t>{0, 2, 1})}}, {a}),
               bt = eval({"Transpose", "", 21, {Attribute::of("perm", std::vector<std::int64_t>{0, 2, 1})}}, {b});
  const Tensor want = eval({"Mul"}, {eval({"MatMul"}, {at, bt}), floats({}, {0.5f})});
  expect_near(eval({"FusedMatMul",
                    kMs,
                    1,
                    {Attribute::of("transA", std::int64_t{1}), Attribute::of("transB", std::int64_t{1}), Attribute::of("alpha", 0.5f)}},
                   {a, b}),
              want, 1e-6);
}

TEST(Contrib, FusedMatMulMovesBatchesOfEqualRanksFromThreeOn) {
  const auto refused = [](std::int64_t left, std::int64_t right, const Shape& a, const Shape& b) {
    return !test::run({"FusedMatMul", kMs, 1, {Attribute::of("transBatchA", left), Attribute::of("transBatchB", right)}},
                      {test::noise_tensor(a, 1), test::noise_tensor(b, 2)})
                .ok();
  };
  EXPECT_FALSE(refused(1, 0, {3, 2, 4}, {2, 4, 5}));
  EXPECT_TRUE(refused(1, 0, {3, 4}, {4, 5}));
  EXPECT_TRUE(refused(0, 1, {2, 3, 4}, {4, 5}));
}

TEST(Contrib, EmbedLayerNormalizationCountsItsMask) {
  const Tensor ids = make<std::int32_t>({1, 2}, {2, 0}), words = test::noise_tensor({3, 4}, 1), positions = test::noise_tensor({2, 4}, 2),
               ones = floats({4}, {1, 1, 1, 1}), zeros = floats({4}, {0, 0, 0, 0});
  const auto out = test::run({"EmbedLayerNormalization", kMs, 1, {}, 3},
                             {ids, Value(), words, positions, Value(), ones, zeros, make<std::int32_t>({1, 2}, {1, 0})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[1].tensor().data<std::int32_t>()[0], 1);
  EXPECT_NEAR((*out)[2].tensor().data<float>()[0], words.data<float>()[8] + positions.data<float>()[0], 1e-6);
  EXPECT_FALSE(test::run({"EmbedLayerNormalization", kMs, 1, {}, 2},
                         {make<std::int32_t>({1, 1}, {3}), Value(), words, positions, Value(), ones, zeros})
                   .ok());
}

}  // namespace
}  // namespace saturate
