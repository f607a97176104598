#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "kernel_test_util.h"
#include "kernels/core/processor.h"
#include "kernels/gemm/gemm.h"

namespace saturate {
namespace {

using test::eval, test::expect_near, test::floats;

// Every micro-kernel against plain sums, with all tails of rows and columns and depths around the blocking.
TEST(Gemm, TilesOfEveryKernel) {
  std::vector<GemmKernel> kernels{gemm_kernel_portable()};
  if (SATURATE_X86_HAS("avx2") && SATURATE_X86_HAS("fma")) kernels.push_back(gemm_kernel_avx2());
  if (SATURATE_X86_HAS("avx512f")) kernels.push_back(gemm_kernel_avx512());
  for (const GemmKernel& kernel : kernels) {
    for (int rows = 1; rows <= std::max(kernel.mr, kernel.narrow_mr); ++rows) {
      for (int cols = 1; cols <= (rows > kernel.mr ? kernel.narrow_nr : kernel.nr); ++cols) {
        const std::int64_t k = 7, lda = 9, ldb = kernel.nr + 3, ldc = kernel.nr + 1;
        const std::vector<float> a = test::noise(static_cast<std::size_t>(rows * lda), 5),
                                 b = test::noise(static_cast<std::size_t>(k * ldb), 6);
        std::vector<float> c(static_cast<std::size_t>(rows * ldc), 100.0f);
        const std::vector<float> bias = test::noise(static_cast<std::size_t>(cols), 7),
                                 residual = test::noise(static_cast<std::size_t>(rows * ldc), 8);
        const TileFinish finish{bias.data(), residual.data(), ldc, -1.0f, 1.5f};
        kernel.tile({rows, cols, k, a.data(), lda, b.data(), ldb, c.data(), ldc, false, nullptr});
        kernel.tile({rows, cols, k, a.data(), lda, b.data(), ldb, c.data(), ldc, true, &finish});
        for (int i = 0; i < rows; ++i) {
          for (int j = 0; j < ldc; ++j) {
            double want = 0;
            for (std::int64_t p = 0; p < k; ++p)
              want += 2.0 * static_cast<double>(a[static_cast<std::size_t>(i * lda + p)]) *
                      static_cast<double>(b[static_cast<std::size_t>(p * ldb + j)]);
            if (j < cols) {
              want += static_cast<double>(bias[static_cast<std::size_t>(j)]) +
                      static_cast<double>(residual[static_cast<std::size_t>(i * ldc + j)]);
              want = std::clamp(want, -1.0, 1.5);
            }
            ASSERT_NEAR(c[static_cast<std::size_t>(i * ldc + j)], j < cols ? want : 100.0, 1e-5)
                << kernel.nr << " " << rows << " " << cols << " at " << i << "," << j;
          }
        }
      }
    }
  }
}

// B is packed or converted in groups of columns where it is large: of either order, with few rows of A and many.
template <typename T>
void expect_groups(std::int64_t m, std::int64_t transposed) {
  const std::int64_t k = 300, n = 2 * (1 << 20) / k + 71;
  const auto numbers = [](Shape dims, std::uint32_t seed) {
    std::vector<T> out;
    for (const float x : test::noise(static_cast<std::size_t>(dims[0] * dims[1]), seed)) out.push_back(static_cast<T>(x));
    return test::make<T>(std::move(dims), std::move(out));
  };
  test::Call call{"Gemm"};
  call.attributes = {test::int_attr("transB", transposed)};
  const std::vector<Value> inputs{numbers({m, k}, 1), transposed != 0 ? numbers({n, k}, 2) : numbers({k, n}, 2)};
  const Tensor got = eval(call, inputs);
  call.reference = true;
  expect_near(got, eval(call, inputs), is_small_float_v<T> ? 0.1 : 1e-4);
}

TEST(Gemm, LargeMatricesGoInGroupsOfColumns) {
  for (const std::int64_t m : {1, 3, 7, 25})
    for (const std::int64_t transposed : {0, 1}) {
      expect_groups<float>(m, transposed);
      expect_groups<Half>(m, transposed);
      expect_groups<BFloat16>(m, transposed);
    }
}

// Rows in pieces that lie anywhere are the same rows.
TEST(Gemm, TilesReadRowsInPieces) {
  std::vector<GemmKernel> kernels{gemm_kernel_portable()};
  if (SATURATE_X86_HAS("avx2") && SATURATE_X86_HAS("fma")) kernels.push_back(gemm_kernel_avx2());
  if (SATURATE_X86_HAS("avx512f")) kernels.push_back(gemm_kernel_avx512());
  for (const GemmKernel& kernel : kernels) {
    for (int rows = 1; rows <= kernel.mr; ++rows) {
      const std::int64_t piece = 5, parts = 3, k = piece * parts, cols = kernel.nr - 1, ldb = kernel.nr;
      const std::vector<float> a = test::noise(static_cast<std::size_t>(rows * k), 1),
                               b = test::noise(static_cast<std::size_t>(k * ldb), 2);
      std::vector<float> moved(a.size()), want(static_cast<std::size_t>(rows * ldb)), got = want;
      std::vector<const float*> taps;
      for (std::int64_t i = 0; i < rows * parts; ++i) {  // the last piece first
        std::copy_n(a.data() + i * piece, piece, moved.data() + (rows * parts - 1 - i) * piece);
        taps.push_back(moved.data() + (rows * parts - 1 - i) * piece);
      }
      kernel.tile({rows, static_cast<int>(cols), k, a.data(), k, b.data(), ldb, want.data(), ldb, false, nullptr});
      kernel.tile({rows, static_cast<int>(cols), k, nullptr, 0, b.data(), ldb, got.data(), ldb, false, nullptr, nullptr, taps.data(), parts,
                   piece});
      EXPECT_EQ(got, want) << kernel.nr << " columns, " << rows << " rows";
    }
  }
}

// A clip leaves NaN as it is, whatever the micro-kernel.
TEST(Gemm, TilesKeepNanInAClip) {
  std::vector<GemmKernel> kernels{gemm_kernel_portable()};
  if (SATURATE_X86_HAS("avx2") && SATURATE_X86_HAS("fma")) kernels.push_back(gemm_kernel_avx2());
  if (SATURATE_X86_HAS("avx512f")) kernels.push_back(gemm_kernel_avx512());
  for (const GemmKernel& kernel : kernels) {
    const std::vector<float> a{1}, b{std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 9};
    std::vector<float> c(3);
    const TileFinish finish{nullptr, nullptr, 0, 0.0f, 6.0f};
    kernel.tile({1, 3, 1, a.data(), 1, b.data(), 3, c.data(), 3, false, &finish});
    EXPECT_TRUE(std::isnan(c[0]));
    EXPECT_EQ(c[1], 0.0f);
    EXPECT_EQ(c[2], 6.0f);
  }
}

TEST(MatMul, FastEqualsReferenceOverShapes) {
  const std::vector<std::pair<Shape, Shape>> shapes{{{5, 7}, {7, 9}},
                                                    {{1, 300}, {300, 65}},
                                                    {{70, 513}, {513, 130}},
                                                    {{2, 3, 4, 5}, {5, 6}},
                                                    {{2, 3, 4, 5}, {2, 1, 5, 6}},
                                                    {{3, 4, 5}, {2, 3, 5, 6}},
                                                    {{5}, {5}},
                                                    {{5}, {2, 5, 3}},
                                                    {{2, 3, 5}, {5}},
                                                    {{0, 5}, {5, 3}},
                                                    {{3, 0}, {0, 4}},
                                                    {{2, 0, 4}, {4, 4}},
                                                    {{288, 920}, {920, 600}},  // panels in groups
                                                    {{4, 1}, {1, 3}}};
  for (const auto& [a, b] : shapes) {
    const Tensor x = test::noise_tensor(a, 1), y = test::noise_tensor(b, 2);
    expect_near(eval({"MatMul"}, {x, y}), eval({"MatMul", "", 21, {}, 1, true}, {x, y}), 1e-4);
  }
  EXPECT_FALSE(test::run({"MatMul"}, {floats({2, 3}, std::vector<float>(6)), floats({4, 2}, std::vector<float>(8))}).ok());
}

TEST(MatMul, FollowsNumpyForVectorsAndBatches) {
  EXPECT_EQ(eval({"MatMul"}, {floats({2}, {1, 2}), floats({2}, {3, 4})}).dims(), Shape{});
  expect_near(eval({"MatMul"}, {floats({2}, {1, 2}), floats({2, 2}, {1, 2, 3, 4})}), floats({2}, {7, 10}));
}

// A few rows by a transposed matrix: dot products; more of them: packed.
TEST(MatMul, TransposedRightSide) {
  for (std::int64_t m : {1, 3, 4, 5, 30}) {
    test::Call call{"FusedMatMul", "com.microsoft", 1, {Attribute::of("transB", std::int64_t{1})}};
    const Tensor a = test::noise_tensor({2, m, 37}, 3), b = test::noise_tensor({2, 70, 37}, 4);
    const Tensor fast = eval(call, {a, b});
    call.reference = true;
    expect_near(fast, eval(call, {a, b}), 1e-5);
  }
}

TEST(MatMul, GemmWithTransposesAndBias) {
  for (int t = 0; t < 4; ++t) {
    const bool ta = t % 2 != 0, tb = t / 2 != 0;
    const Tensor a = test::noise_tensor(ta ? Shape{7, 5} : Shape{5, 7}, 3), b = test::noise_tensor(tb ? Shape{6, 7} : Shape{7, 6}, 4),
                 c = test::noise_tensor({5, 1}, 5);
    test::Call call{"Gemm",
                    "",
                    13,
                    {Attribute::of("transA", std::int64_t{ta}), Attribute::of("transB", std::int64_t{tb}), Attribute::of("alpha", 0.5f),
                     Attribute::of("beta", 2.0f)}};
    const Tensor fast = eval(call, {a, b, c});
    call.reference = true;
    expect_near(fast, eval(call, {a, b, c}), 1e-5);
    double want = 0;
    for (int p = 0; p < 7; ++p)
      want +=
          static_cast<double>(a.data<float>()[ta ? p * 5 + 1 : 7 + p]) * static_cast<double>(b.data<float>()[tb ? 2 * 7 + p : p * 6 + 2]);
    EXPECT_NEAR(fast.data<float>()[6 + 2], 0.5 * want + 2.0 * static_cast<double>(c.data<float>()[1]), 1e-5);
  }
}

TEST(MatMul, ConstantWeightsArePackedOncePerSession) {
  Model model;
  model.opset_imports = {{"", 17}};
  model.graph.inputs = {{"x", {}, nullptr}};
  model.graph.outputs = {{"y", {}, nullptr}};
  const Tensor w = test::noise_tensor({30, 70}, 8);
  model.graph.initializers = {{"w", w, nullptr, false}};
  Node node;
  node.op_type = "MatMul";
  node.inputs = {"x", "w"};
  node.outputs = {"y"};
  model.graph.nodes = {node};
  absl::StatusOr<Session> session = Session::create(model);
  ASSERT_TRUE(session.ok());
  for (std::int64_t rows : {1, 4, 40}) {
    const Tensor x = test::noise_tensor({rows, 30}, static_cast<std::uint32_t>(rows));
    const auto out = session->run({{"x", x}});
    ASSERT_TRUE(out.ok());
    expect_near((*out)[0].tensor(), eval({"MatMul", "", 17, {}, 1, true}, {x, w}), 1e-5);
  }
}

TEST(Einsum, DiagonalsEllipsisAndImplicitOutput) {
  const auto equation = [](const char* e) { return std::vector<Attribute>{Attribute::of("equation", std::string(e))}; };
  expect_near(eval({"Einsum", "", 12, equation("ii->i")}, {floats({2, 2}, {1, 2, 3, 4})}), floats({2}, {1, 4}));
  expect_near(eval({"Einsum", "", 12, equation("ij,jk")}, {floats({1, 2}, {1, 2}), floats({2, 1}, {3, 4})}), floats({1, 1}, {11}));
  const Tensor a = test::noise_tensor({2, 3, 4}, 1), b = test::noise_tensor({3, 4, 5}, 2);
  const Tensor batched = eval({"Einsum", "", 12, equation("...ij,...jk->...ik")}, {test::noise_tensor({3, 2, 4}, 1), b});
  expect_near(batched, eval({"MatMul"}, {test::noise_tensor({3, 2, 4}, 1), b}), 1e-5);
  EXPECT_EQ(eval({"Einsum", "", 12, equation("abc->")}, {a}).dims(), Shape{});
  EXPECT_FALSE(test::run({"Einsum", "", 12, equation("ab->a")}, {a}).ok());
}

TEST(Einsum, ProductsEqualTheWalkOverAllLetters) {
  const std::map<char, std::int64_t> size{{'a', 2}, {'b', 3}, {'c', 5}, {'d', 7}, {'e', 4}, {'f', 1}};
  for (const std::string equation : {"abd,acd->abc", "abcd,aecd->abec", "abc,cde->abde", "acbe,aecd->abcd", "ab,cd->dacb", "abc,abd->cd",
                                     "ab,bc,cd->da", "abc,adc,aed->abe", "abcd,dcba->", "ab->ba", "abb,bc->ac", "af,fb->ab",
                                     "abf,cdf->adbc", "abc,c->ab", "ab,b,b->a", "afc,abc->bf", "ab,bc->b"}) {
    std::vector<Value> inputs;
    Shape dims;
    for (const char letter : equation.substr(0, equation.find('-')) + ",") {
      if (letter != ',') {
        dims.push_back(size.at(letter));
        continue;
      }
      inputs.emplace_back(test::noise_tensor(dims, static_cast<std::uint32_t>(inputs.size() + 1)));
      dims.clear();
    }
    const std::vector<Attribute> attributes{Attribute::of("equation", equation)};
    SCOPED_TRACE(equation);
    expect_near(eval({"Einsum", "", 12, attributes}, inputs), eval({"Einsum", "", 12, attributes, 1, true}, inputs), 1e-5);
  }
}

TEST(Einsum, SizesOfOneBroadcastInProducts) {
  const std::vector<Attribute> attributes{Attribute::of("equation", std::string("...ij,...jk->...ik"))};
  const std::vector<Value> inputs{test::noise_tensor({4, 1, 2, 3}, 1), test::noise_tensor({5, 3, 2}, 2)};
  expect_near(eval({"Einsum", "", 12, attributes}, inputs), eval({"Einsum", "", 12, attributes, 1, true}, inputs), 1e-5);
}

}  // namespace
}  // namespace saturate
