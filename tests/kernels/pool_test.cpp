#include <limits>

#include "kernel_test_util.h"

namespace saturate {
namespace {

using test::eval, test::expect_near, test::floats, test::ints;
using Ints = std::vector<std::int64_t>;

TEST(Pool, MaxWithPaddingAndIndices) {
  const Tensor x = floats({1, 1, 3, 3}, {-1, -2, -3, -4, -5, -6, -7, -8, -9});
  const test::Call call{
      "MaxPool",
      "",
      12,
      {Attribute::of("kernel_shape", Ints{2, 2}), Attribute::of("pads", Ints{1, 1, 0, 0}), Attribute::of("strides", Ints{2, 2})},
      2};
  const auto out = test::run(call, {x});
  ASSERT_TRUE(out.ok()) << out.status();
  expect_near((*out)[0].tensor(), floats({1, 1, 2, 2}, {-1, -2, -4, -5}));
  expect_near((*out)[1].tensor(), ints({1, 1, 2, 2}, {0, 1, 3, 4}));
}

TEST(Pool, MaxCountsColumnMajorWhenAsked) {
  const Tensor x = floats({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const auto out =
      test::run({"MaxPool", "", 12, {Attribute::of("kernel_shape", Ints{2, 3}), Attribute::of("storage_order", std::int64_t{1})}, 2}, {x});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ((*out)[1].tensor().data<std::int64_t>()[0], 5);
}

TEST(Pool, AverageCountsPaddingOnlyWhenAsked) {
  const Tensor x = floats({1, 1, 4}, {1, 2, 3, 4});
  std::vector<Attribute> attributes{Attribute::of("kernel_shape", Ints{3}), Attribute::of("pads", Ints{1, 1})};
  expect_near(eval({"AveragePool", "", 19, attributes}, {x}), floats({1, 1, 4}, {1.5f, 2, 3, 3.5f}));
  attributes.push_back(Attribute::of("count_include_pad", std::int64_t{1}));
  expect_near(eval({"AveragePool", "", 19, attributes}, {x}), floats({1, 1, 4}, {1, 2, 3, 7.0f / 3}));
}

TEST(Pool, CeilModeAddsAWindowThatStartsInside) {
  const Tensor x = floats({1, 1, 4}, {1, 2, 3, 4});
  expect_near(
      eval({"MaxPool",
            "",
            12,
            {Attribute::of("kernel_shape", Ints{3}), Attribute::of("strides", Ints{2}), Attribute::of("ceil_mode", std::int64_t{1})}},
           {x}),
      floats({1, 1, 2}, {3, 4}));
  // A window that would start in the trailing padding is dropped.
  const Tensor y = eval({"AveragePool",
                         "",
                         19,
                         {Attribute::of("kernel_shape", Ints{1}), Attribute::of("strides", Ints{2}), Attribute::of("pads", Ints{0, 1}),
                          Attribute::of("ceil_mode", std::int64_t{1})}},
                        {x});
  EXPECT_EQ(y.dims(), (Shape{1, 1, 2}));
}

// floor((padded - extent) / stride) + 1 windows: a size of 0 is a size, one below is none.
TEST(Pool, WindowsThatAreFarTooLargeAreRefused) {
  auto pooled = [](std::int64_t size, std::int64_t stride) {
    const test::Call call{"MaxPool", "", 12, {Attribute::of("kernel_shape", Ints{3}), Attribute::of("strides", Ints{stride})}};
    return test::run(call, {floats({1, 1, size}, std::vector<float>(static_cast<std::size_t>(size), 1))});
  };
  ASSERT_TRUE(pooled(2, 1).ok());
  EXPECT_EQ((*pooled(2, 1))[0].tensor().dims(), (Shape{1, 1, 0}));
  EXPECT_NE(pooled(1, 1).status().message().find("the window is larger than the input with its pads"), std::string::npos);
  EXPECT_TRUE(pooled(1, 2).ok());
}

TEST(Pool, GlobalFormsTakeTheWholePlane) {
  const Tensor x = floats({1, 2, 2, 2}, {1, 2, 3, 4, -1, -1, -1, 3});
  expect_near(eval({"GlobalAveragePool"}, {x}), floats({1, 2, 1, 1}, {2.5f, 0}));
  expect_near(eval({"GlobalMaxPool"}, {x}), floats({1, 2, 1, 1}, {4, 3}));
  expect_near(eval({"GlobalLpPool"}, {x}), floats({1, 2, 1, 1}, {5.477226f, 3.464102f}), 1e-5);
}

TEST(Pool, UnpoolPutsValuesBack) {
  const Tensor x = floats({1, 1, 2, 2}, {5, 6, 7, 8}), where = ints({1, 1, 2, 2}, {0, 3, 8, 15});
  const Tensor y =
      eval({"MaxUnpool", "", 11, {Attribute::of("kernel_shape", Ints{2, 2}), Attribute::of("strides", Ints{2, 2})}}, {x, where});
  expect_near(y, floats({1, 1, 4, 4}, {5, 0, 0, 6, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 8}));
  EXPECT_FALSE(test::run({"MaxUnpool", "", 11, {Attribute::of("kernel_shape", Ints{2, 2}), Attribute::of("strides", Ints{2, 2})}},
                         {x, ints({1, 1, 2, 2}, {0, 3, 8, 16})})
                   .ok());
}

}  // namespace
}  // namespace saturate
