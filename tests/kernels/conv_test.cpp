#include "kernel_test_util.h"

namespace saturate {
namespace {

using test::eval, test::expect_near, test::floats;
using Ints = std::vector<std::int64_t>;

// The definition, element by element: x [n, c, h, w], w [m, c / g, kh, kw].
Tensor direct(const Tensor& x, const Tensor& w, std::int64_t group, const Ints& strides, const Ints& dilations, const Ints& pads) {
  const auto &xd = x.dims(), &wd = w.dims();
  const std::int64_t oh = (xd[2] + pads[0] + pads[2] - (wd[2] - 1) * dilations[0] - 1) / strides[0] + 1,
                     ow = (xd[3] + pads[1] + pads[3] - (wd[3] - 1) * dilations[1] - 1) / strides[1] + 1;
  std::vector<float> y;
  for (std::int64_t n = 0; n < xd[0]; ++n) {
    for (std::int64_t m = 0; m < wd[0]; ++m) {
      for (std::int64_t i = 0; i < oh; ++i) {
        for (std::int64_t j = 0; j < ow; ++j) {
          double sum = 0;
          for (std::int64_t c = 0; c < wd[1]; ++c) {
            for (std::int64_t p = 0; p < wd[2]; ++p) {
              for (std::int64_t q = 0; q < wd[3]; ++q) {
                const std::int64_t h = i * strides[0] - pads[0] + p * dilations[0], v = j * strides[1] - pads[1] + q * dilations[1];
                if (h < 0 || h >= xd[2] || v < 0 || v >= xd[3]) continue;
                const std::int64_t channel = m / (wd[0] / group) * wd[1] + c;
                sum += static_cast<double>(x.data<float>()[((n * xd[1] + channel) * xd[2] + h) * xd[3] + v]) *
                       static_cast<double>(w.data<float>()[((m * wd[1] + c) * wd[2] + p) * wd[3] + q]);
              }
            }
          }
          y.push_back(static_cast<float>(sum));
        }
      }
    }
  }
  return floats({xd[0], wd[0], oh, ow}, y);
}

TEST(Conv, EqualsItsDefinition) {
  struct Case {
    Shape x, w;
    std::int64_t group;
    Ints strides, dilations, pads;
  };
  for (const Case& c :
       {Case{{2, 3, 7, 8}, {5, 3, 3, 2}, 1, {1, 1}, {1, 1}, {0, 0, 0, 0}},
        Case{{1, 4, 9, 7}, {6, 2, 3, 3}, 2, {2, 1}, {1, 2}, {1, 2, 0, 3}},
        Case{{2, 4, 6, 6}, {4, 1, 3, 3}, 4, {1, 2}, {2, 1}, {2, 1, 2, 1}},
        Case{{1, 4, 6, 6}, {8, 1, 3, 3}, 4, {1, 1}, {1, 1}, {1, 1, 1, 1}},
        Case{{2, 3, 5, 5}, {4, 3, 1, 1}, 1, {1, 1}, {1, 1}, {0, 0, 0, 0}},
        Case{{1, 2, 3, 3}, {2, 2, 3, 3}, 1, {1, 1}, {1, 1}, {3, 3, 3, 3}},
        Case{{1, 2, 8, 8}, {2, 2, 2, 2}, 1, {3, 3}, {1, 1}, {-1, 0, 0, -1}},
        // One channel in: rows of every length below and above the widths of registers, far steps, negative pads, edges alone.
        Case{{2, 2, 5, 90}, {4, 1, 3, 5}, 2, {1, 1}, {1, 1}, {1, 2, 1, 2}},
        Case{{1, 3, 6, 41}, {3, 1, 2, 4}, 3, {2, 3}, {1, 2}, {0, 3, 2, 1}},
        Case{{1, 1, 4, 300}, {5, 1, 1, 64}, 1, {1, 16}, {1, 1}, {0, 0, 0, 0}},
        Case{{1, 2, 9, 19}, {2, 1, 3, 3}, 2, {2, 2}, {2, 3}, {-1, -2, 0, -1}},
        Case{{1, 2, 2, 3}, {2, 1, 5, 7}, 2, {1, 1}, {1, 1}, {2, 3, 2, 3}},
        Case{{1, 2, 3, 2}, {2, 1, 1, 1}, 2, {900, 900}, {1, 1}, {0, 0, 1800, 1800}},
        // More positions than are copied to columns at once, and rows of them that are longer than that.
        Case{{2, 60, 30, 29}, {4, 30, 5, 5}, 2, {1, 1}, {1, 1}, {2, 1, 2, 3}},
        Case{{1, 60, 2, 700}, {3, 60, 2, 9}, 1, {1, 2}, {1, 3}, {1, 5, 0, 4}},
        Case{{1, 64, 3, 700}, {3, 64, 3, 7}, 1, {2, 1}, {1, 1}, {0, 0, 0, 0}}}) {
    const Tensor x = test::noise_tensor(c.x, 1), w = test::noise_tensor(c.w, 2);
    test::Call call{"Conv",
                    "",
                    11,
                    {Attribute::of("group", c.group), Attribute::of("strides", c.strides), Attribute::of("dilations", c.dilations),
                     Attribute::of("pads", c.pads)}};
    const Tensor want = direct(x, w, c.group, c.strides, c.dilations, c.pads);
    const double allowed = 1e-5 + 1e-7 * static_cast<double>(w.size() / c.w[0]);
    expect_near(eval(call, {x, w}), want, allowed);
    call.reference = true;
    expect_near(eval(call, {x, w}), want, allowed);
  }
}

// Zeros around an image take part in sums where all weights are finite, and are left out where one is not.
TEST(Conv, WeightsThatAreNotFiniteMeetNoPadding) {
  const float inf = std::numeric_limits<float>::infinity();
  const test::Call call{"Conv", "", 11, {Attribute::of("pads", Ints{1, 1})}};
  expect_near(eval(call, {floats({1, 1, 3}, {1, 2, 3}), floats({1, 1, 3}, {inf, 1, 1})}), floats({1, 1, 3}, {3, inf, inf}));
  expect_near(eval(call, {floats({1, 1, 3}, {inf, 2, 3}), floats({1, 1, 3}, {0, 1, 1})}), floats({1, 1, 3}, {inf, std::nanf(""), 3}));
}

TEST(Conv, OtherRanksAndAutoPad) {
  expect_near(eval({"Conv", "", 11, {Attribute::of("auto_pad", std::string("SAME_UPPER")), Attribute::of("strides", Ints{2})}},
                   {floats({1, 1, 5}, {1, 2, 3, 4, 5}), floats({1, 1, 2}, {1, 10})}),
              floats({1, 1, 3}, {21, 43, 5}));
  EXPECT_EQ(eval({"Conv"}, {test::noise_tensor({1, 2, 3, 4, 5}, 1), test::noise_tensor({3, 2, 2, 2, 2}, 2)}).dims(),
            (Shape{1, 3, 2, 3, 4}));
  EXPECT_EQ(eval({"Conv"}, {test::noise_tensor({0, 2, 3, 4}, 1), test::noise_tensor({3, 2, 2, 2}, 2)}).dims(), (Shape{0, 3, 2, 3}));
  EXPECT_FALSE(test::run({"Conv"}, {test::noise_tensor({1, 2, 3, 4}, 1), test::noise_tensor({3, 3, 2, 2}, 2)}).ok());
}

// <conv(x), y> = <x, conv_transpose(y)>: the transpose by its own definition.
TEST(Conv, TransposeIsTheAdjoint) {
  const Tensor x = test::noise_tensor({1, 4, 7, 6}, 1), w = test::noise_tensor({6, 2, 3, 2}, 2);
  const std::vector<Attribute> attributes{Attribute::of("group", std::int64_t{2}), Attribute::of("strides", Ints{2, 1}),
                                          Attribute::of("pads", Ints{1, 0, 1, 1})};
  const Tensor y = eval({"Conv", "", 11, attributes}, {x, w});
  const Tensor z = test::noise_tensor(y.dims(), 3);
  const Tensor back = eval({"ConvTranspose", "", 11, attributes}, {z, w});
  ASSERT_EQ(back.dims(), x.dims());
  double left = 0, right = 0;
  for (std::int64_t i = 0; i < y.size(); ++i) left += static_cast<double>(y.data<float>()[i]) * static_cast<double>(z.data<float>()[i]);
  for (std::int64_t i = 0; i < x.size(); ++i) right += static_cast<double>(x.data<float>()[i]) * static_cast<double>(back.data<float>()[i]);
  EXPECT_NEAR(left, right, 1e-4);
}

}  // namespace
}  // namespace saturate
