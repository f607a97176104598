#include "rules/values/triangles.h"

#include <gtest/gtest.h>

#include "kernels/runtime/runtime.h"
#include "onnx_bridge/convert/op_key.h"

namespace saturate {
namespace {

Tensor matrix(Shape dims, std::vector<float> values) { return Tensor::of<float>(DType::kFloat, std::move(dims), values); }

TEST(Triangles, OfTensors) {
  EXPECT_EQ(lower_triangle(matrix({3, 3}, {1, 0, 0, 1, 1, 0, 1, 1, 1})), 0);
  EXPECT_EQ(lower_triangle(matrix({2, 4}, {1, 1, 1, 0, 1, 1, 1, 1})), 2);
  EXPECT_EQ(lower_triangle(matrix({1, 4}, {1, 1, 1, 1})), 3);
  EXPECT_EQ(lower_triangle(matrix({3, 2}, {0, 0, 1, 0, 1, 1})), -1);
  EXPECT_EQ(lower_triangle(matrix({2, 2, 2}, {1, 0, 1, 1, 1, 0, 1, 1})), 0);
  EXPECT_EQ(lower_triangle(matrix({2, 2, 2}, {1, 0, 1, 1, 1, 1, 1, 1})), std::nullopt);  // two of them, each its own
  EXPECT_EQ(lower_triangle(matrix({3, 2}, {0, 0, 1, 1, 1, 1})), std::nullopt);           // a step of two
  EXPECT_EQ(lower_triangle(matrix({2, 3}, {1, 0, 1, 1, 1, 1})), std::nullopt);
  EXPECT_EQ(lower_triangle(matrix({2, 2}, {1, 0, 1, 0.5f})), std::nullopt);
  EXPECT_EQ(lower_triangle(matrix({2, 2}, {0, 0, 0, 0})), std::nullopt);
  EXPECT_EQ(lower_triangle(matrix({4}, {1, 1, 0, 0})), std::nullopt);
}

class TrianglesOfClasses : public testing::Test {
 protected:
  TrianglesOfClasses() : evaluator_(make_evaluator()), g_(*evaluator_) {}
  Id op(std::string_view type, std::vector<Id> children, std::vector<Attribute> attributes = {}) {
    return g_.add(make_key("", type, std::move(attributes), 1, std::nullopt), children);
  }
  Id ints(std::vector<std::int64_t> values) { return g_.constant(Tensor::vector_int64(std::move(values))); }
  Id sizes(std::vector<Dim> dims) { return g_.literal(dims, false); }
  std::optional<Dim> offset(Id id) {
    g_.egraph().rebuild();
    return lower_triangle(g_, id);
  }

  std::unique_ptr<Evaluator> evaluator_;
  OnnxEGraph g_;
};

TEST_F(TrianglesOfClasses, SlicesOfAConstant) {
  std::vector<float> ones(64 * 64);
  for (int i = 0; i < 64; ++i)
    for (int j = 0; j <= i; ++j) ones[static_cast<std::size_t>(i * 64 + j)] = 1;
  const Id table = g_.constant(matrix({1, 1, 64, 64}, ones));
  Facts f;
  f.kind = Facts::Kind::kTensor;
  f.dtype = DType::kFloat;
  const Dim s = g_.dims().declared("s", "x"), p = g_.dims().declared("p", "x");
  f.shape = std::vector<Dim>{s, p};
  g_.input("x", f);
  const Id rows = op("Slice", {table, sizes({p}), sizes({g_.dims().add(s, p)}), ints({2})});
  const Id both = op("Slice", {rows, ints({0}), sizes({g_.dims().add(s, p)}), ints({-1}), ints({1})});
  const auto n = offset(op("Cast", {both}, {Attribute::of("to", std::int64_t{9})}));
  ASSERT_TRUE(n.has_value());
  EXPECT_TRUE(g_.dims().equal(*n, p)) << g_.dims().to_string(*n);
  EXPECT_FALSE(offset(op("Slice", {rows, ints({0}), sizes({s}), ints({3}), ints({2})})).has_value());  // every second column
  const auto later = offset(op("Slice", {rows, ints({1}), sizes({s}), ints({3})}));
  ASSERT_TRUE(later.has_value());
  EXPECT_TRUE(g_.dims().equal(*later, g_.dims().sub(p, g_.dims().constant(1))));
}

}  // namespace
}  // namespace saturate
