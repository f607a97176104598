#include <cmath>
#include <limits>

#include "kernel_test_util.h"

namespace saturate {
namespace {

using test::eval, test::expect_near, test::floats, test::ints;

TEST(Reduce, AxesAsAttributeAndAsInput) {
  const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_near(eval({"ReduceSum", "", 11, {Attribute::of("axes", std::vector<std::int64_t>{-1})}}, {x}), floats({2, 1}, {6, 15}));
  expect_near(eval({"ReduceSum", "", 13, {Attribute::of("keepdims", std::int64_t{0})}}, {x, ints({1}, {0})}), floats({3}, {5, 7, 9}));
  // As ONNX Runtime and the standard's shape inference: only 1 keeps the axis.
  expect_near(eval({"ReduceSum", "", 13, {Attribute::of("keepdims", std::int64_t{-1})}}, {x, ints({1}, {0})}), floats({3}, {5, 7, 9}));
  expect_near(eval({"ReduceMean", "", 18}, {x}), floats({1, 1}, {3.5f}));
  expect_near(eval({"ReduceSum", "", 13, {Attribute::of("noop_with_empty_axes", std::int64_t{1})}}, {x}), x);
  EXPECT_FALSE(test::run({"ReduceSum", "", 13}, {x, ints({1}, {2})}).ok());
}

TEST(Reduce, EmptySetsGiveTheNeutralElement) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Tensor x = floats({2, 0}, {}), axis = ints({1}, {1});
  expect_near(eval({"ReduceSum"}, {x, axis}), floats({2, 1}, {0, 0}));
  expect_near(eval({"ReduceProd"}, {x, axis}), floats({2, 1}, {1, 1}));
  expect_near(eval({"ReduceMax"}, {x, axis}), floats({2, 1}, {-kInf, -kInf}));
  expect_near(eval({"ReduceLogSumExp"}, {x, axis}), floats({2, 1}, {-kInf, -kInf}));
}

TEST(Reduce, LogSumExpDoesNotOverflow) {
  expect_near(eval({"ReduceLogSumExp"}, {floats({2}, {1000, 1000})}), floats({1}, {1000.6931f}), 1e-3);
}

TEST(Reduce, LargeFloatSumsAreKeptInDouble) {
  std::vector<float> x(1 << 16, 0.1f);
  x[0] = 1e8f;
  const Tensor sum = eval({"ReduceSum"}, {floats({1 << 16}, x)});
  EXPECT_NEAR(sum.data<float>()[0], 1e8 + 65535 * static_cast<double>(0.1f), 8);
}

TEST(Reduce, FastEqualsReferenceOverAnyAxes) {
  const Tensor x = test::noise_tensor({3, 4, 5, 6}, 11);
  for (int mask = 1; mask < 16; ++mask) {
    std::vector<std::int64_t> axes;
    for (int k = 0; k < 4; ++k) {
      if ((mask >> k) & 1) axes.push_back(k);
    }
    const Tensor a = ints({static_cast<std::int64_t>(axes.size())}, axes);
    for (const char* op : {"ReduceSum", "ReduceMean", "ReduceL2", "ReduceMax", "ReduceSumSquare", "ReduceL1"}) {
      expect_near(eval({op, "", 18}, {x, a}), eval({op, "", 18, {}, 1, true}, {x, a}), 1e-5);
    }
  }
}

TEST(Reduce, ArgMaxTiesAndLastIndex) {
  const Tensor x = floats({2, 3}, {2, 7, 7, 5, 5, 1});
  expect_near(eval({"ArgMax", "", 13, {Attribute::of("axis", std::int64_t{1})}}, {x}), ints({2, 1}, {1, 0}));
  expect_near(eval({"ArgMax",
                    "",
                    13,
                    {Attribute::of("axis", std::int64_t{1}), Attribute::of("select_last_index", std::int64_t{1}),
                     Attribute::of("keepdims", std::int64_t{0})}},
                   {x}),
              ints({2}, {2, 1}));
}

}  // namespace
}  // namespace saturate
