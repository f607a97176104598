#include "kernels/gemm/byte_gemm.h"

#include "kernel_test_util.h"
#include "kernels/quantized/fast.h"

namespace saturate::test {
namespace {

std::vector<std::uint8_t> bytes(std::int64_t n, std::uint32_t seed) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(n));
  for (std::uint8_t& v : out) {
    seed = seed * 1664525u + 1013904223u;
    v = static_cast<std::uint8_t>(seed >> 23);
    if (seed % 7 == 0) v = 255;  // the sums of saturating instructions would show
  }
  return out;
}

Tensor byte_tensor(DType dtype, const Shape& dims, std::uint32_t seed) {
  Tensor t(dtype, dims);
  const auto values = bytes(t.size(), seed);
  if (dtype == DType::kInt8)
    std::transform(values.begin(), values.end(), t.mutable_as<std::int8_t>(), [](std::uint8_t v) { return static_cast<std::int8_t>(v); });
  else
    std::copy(values.begin(), values.end(), t.mutable_as<std::uint8_t>());
  return t;
}

void expect_same(const Call& call, const std::vector<Value>& inputs) {
  Call judge = call;
  judge.reference = true;
  const Tensor got = eval(call, inputs), want = eval(judge, inputs);
  ASSERT_EQ(got.dims(), want.dims());
  ASSERT_EQ(got.dtype(), want.dtype());
  for (std::int64_t i = 0; i < want.size(); ++i)
    ASSERT_EQ(*element_as_double(got, i), *element_as_double(want, i)) << call.op << " element " << i;
}

TEST(ByteGemm, TilesOfEveryKernelAgreeWithPlainSums) {
  for (const ByteKernel& kernel : byte_kernels()) {
    for (int rows : {1, 2, kernel.rows / 2 + 1, kernel.rows}) {
      if (rows > kernel.rows) continue;
      for (std::int64_t depth : {0, 64, 192}) {
        const auto a = bytes(rows * depth + 64, 1), raw = bytes(depth * kBytePanel + 64, 2);
        const auto* b = reinterpret_cast<const std::int8_t*>(raw.data());
        alignas(64) std::int32_t c[kMostByteRows * kBytePanel];
        kernel.tile({rows, depth, a.data(), depth, b, c});
        for (int r = 0; r < rows; ++r) {
          for (int j = 0; j < kBytePanel; ++j) {
            std::int32_t want = 0;
            for (std::int64_t p = 0; p < depth; ++p) want += a[static_cast<std::size_t>(r * depth + p)] * b[p / 4 * 256 + j * 4 + p % 4];
            ASSERT_EQ(c[r * kBytePanel + j], want) << kernel.rows << " rows, row " << r << ", column " << j << ", depth " << depth;
          }
        }
      }
    }
  }
}

TEST(ByteGemm, ProductsOfBothTypesWithZeroPoints) {
  const std::int64_t sizes[][3] = {{1, 1, 1}, {3, 5, 70}, {33, 64, 64}, {100, 129, 65}, {2, 300, 130}, {5, 0, 7}, {0, 4, 3}};
  std::uint32_t seed = 1;
  for (const auto& [m, k, n] : sizes) {
    for (DType a : {DType::kUint8, DType::kInt8}) {
      for (DType b : {DType::kUint8, DType::kInt8}) {
        const Tensor x = byte_tensor(a, {m, k}, ++seed), y = byte_tensor(b, {k, n}, ++seed);
        expect_same({"MatMulInteger"}, {x, y});
        expect_same({"MatMulInteger"}, {x, y, byte_tensor(a, {}, ++seed), byte_tensor(b, {1}, ++seed)});
        expect_same({"MatMulInteger"}, {x, y, byte_tensor(a, {m}, ++seed), byte_tensor(b, {n}, ++seed)});
      }
    }
  }
  expect_same({"MatMulInteger"},
              {byte_tensor(DType::kInt8, {2, 3, 40}, 5), byte_tensor(DType::kUint8, {40, 9}, 6), byte_tensor(DType::kInt8, {}, 7)});
}

TEST(ByteGemm, RequantizedAndScaledProducts) {
  std::uint32_t seed = 1;
  for (DType a : {DType::kUint8, DType::kInt8}) {
    const Tensor x = byte_tensor(a, {2, 17, 90}, ++seed), y = byte_tensor(DType::kInt8, {90, 75}, ++seed);
    const Tensor xz = byte_tensor(a, {}, ++seed), yz = byte_tensor(DType::kInt8, {75}, ++seed), zero = byte_tensor(a, {}, ++seed);
    std::vector<float> columns = noise(75, ++seed);
    for (float& v : columns) v = 0.01f + 0.001f * v;
    expect_same({"QLinearMatMul"}, {x, floats({}, {0.02f}), xz, y, floats({75}, columns), yz, floats({}, {0.11f}), zero});
    expect_same({"QLinearMatMul"},
                {x, floats({}, {0.02f}), xz, y, floats({}, {-0.3f}), byte_tensor(DType::kInt8, {}, 9), floats({}, {1e-9f}), zero});
    const Call to_float{"MatMulIntegerToFloat", "com.microsoft", 1};
    const std::vector<Value> inputs{x, y, floats({}, {0.02f}), floats({75}, columns), xz, yz, noise_tensor({75}, 3)};
    const Tensor got = eval(to_float, inputs);
    expect_near(got, eval({"MatMulIntegerToFloat", "com.microsoft", 1, {}, 1, true}, inputs), 1e-4);  // the last bit of numbers up to 100
  }
  const Tensor x = byte_tensor(DType::kUint8, {4, 20}, 1), y = byte_tensor(DType::kUint8, {20, 6}, 2),
               scales = floats({4}, {0.1f, 0.2f, 0.3f, 0.4f});
  const Tensor zeros = byte_tensor(DType::kUint8, {4}, 3), one = byte_tensor(DType::kUint8, {}, 4);
  expect_same({"QLinearMatMul"}, {x, scales, zeros, y, floats({}, {0.5f}), one, scales, zeros});  // a scale and a zero point a row
}

TEST(ByteGemm, ScaledProductsOfNoRows) {
  const Tensor y = byte_tensor(DType::kInt8, {20, 6}, 1), zero = byte_tensor(DType::kUint8, {}, 2), of_y = byte_tensor(DType::kInt8, {}, 3);
  const Tensor scale = floats({}, {0.02f});
  for (const Shape& batch : {Shape{0}, Shape{3, 0}, Shape{0, 4}}) {
    Shape in = batch, out = batch;
    in.push_back(20);
    out.push_back(6);
    const Tensor x = byte_tensor(DType::kUint8, in, 4);
    EXPECT_EQ(eval({"MatMulIntegerToFloat", "com.microsoft", 1}, {x, y, scale, scale, zero, of_y}).dims(), out);
    EXPECT_EQ(eval({"QLinearMatMul"}, {x, scale, zero, y, scale, of_y, scale, zero}).dims(), out);
  }
}

TEST(ByteGemm, DynamicQuantizationRoundsAsItsOperatorDoes) {
  const Tensor x = noise_tensor({7, 66}, 1), y = byte_tensor(DType::kInt8, {66, 70}, 2), scale = floats({}, {0.02f});
  const Call call{"DynamicQuantizeMatMul", "com.microsoft", 1};
  Call judge = call;
  judge.reference = true;
  expect_near(eval(call, {x, y, scale, Value(), noise_tensor({70}, 4)}), eval(judge, {x, y, scale, Value(), noise_tensor({70}, 4)}), 1e-5);
}

TEST(ByteConv, TransposedBytes) {
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{16, 16}, {35, 50}, {3, 40}, {64, 7}}) {
    const auto x = bytes(rows * (columns + 3), 1);
    std::vector<std::uint8_t> y(static_cast<std::size_t>(columns * (rows + 2)));
    transpose_bytes(x.data(), rows, columns, columns + 3, y.data(), rows + 2);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        ASSERT_EQ(y[static_cast<std::size_t>(j * (rows + 2) + i)], x[static_cast<std::size_t>(i * (columns + 3) + j)]);
  }
}

TEST(ByteConv, EqualsTheReferenceOverGeometries) {
  using Ints = std::vector<std::int64_t>;
  struct Case {
    Shape x, w;
    std::int64_t group;
    Ints strides, dilations, pads;
  };
  std::uint32_t seed = 1;
  for (const Case& c : {Case{{2, 3, 7, 8}, {5, 3, 3, 2}, 1, {1, 1}, {1, 1}, {0, 0, 0, 0}},
                        Case{{2, 20, 5, 7}, {70, 20, 3, 3}, 1, {1, 2}, {1, 1}, {1, 1, 1, 1}},
                        Case{{1, 4, 9, 7}, {6, 4, 3, 3}, 1, {2, 1}, {1, 2}, {1, 2, 0, 3}},
                        Case{{2, 6, 9, 8}, {6, 1, 3, 3}, 6, {1, 2}, {2, 1}, {2, 1, 2, 1}},
                        Case{{2, 67, 5, 7}, {67, 1, 2, 2}, 67, {1, 1}, {1, 1}, {1, 0, 0, 1}},
                        Case{{1, 128, 3, 15}, {128, 1, 1, 5}, 128, {1, 1}, {1, 2}, {0, 4, 0, 4}},
                        Case{{2, 19, 17, 19}, {9, 19, 1, 1}, 1, {1, 1}, {1, 1}, {0, 0, 0, 0}},  // more positions than are turned at once
                        Case{{1, 4, 5, 5}, {6, 2, 3, 3}, 2, {1, 1}, {1, 1}, {1, 1, 1, 1}}}) {
    const std::vector<Attribute> attributes{Attribute::of("group", c.group), Attribute::of("strides", c.strides),
                                            Attribute::of("dilations", c.dilations), Attribute::of("pads", c.pads)};
    for (DType a : {DType::kUint8, DType::kInt8}) {
      for (DType b : {DType::kUint8, DType::kInt8}) {
        const Tensor x = byte_tensor(a, c.x, ++seed), w = byte_tensor(b, c.w, ++seed), xz = byte_tensor(a, {}, ++seed);
        std::vector<float> scales = noise(static_cast<std::size_t>(c.w[0]), ++seed);
        for (float& v : scales) v = 0.01f + 0.005f * v;
        std::vector<std::int32_t> bias;
        for (std::int64_t i = 0; i < c.w[0]; ++i) bias.push_back(static_cast<std::int32_t>(1000 * i - 2000));
        const Call integer{"ConvInteger", "", 10, attributes}, linear{"QLinearConv", "", 10, attributes};
        expect_same(integer, {x, w});
        expect_same(integer, {x, w, xz, byte_tensor(b, {c.w[0]}, ++seed)});
        expect_same(linear, {x, floats({}, {0.02f}), xz, w, floats({c.w[0]}, scales), byte_tensor(b, {c.w[0]}, ++seed), floats({}, {0.3f}),
                             byte_tensor(a, {}, ++seed), make<std::int32_t>({c.w[0]}, bias)});
        expect_same(linear, {x, floats({}, {0.02f}), xz, w, floats({}, {0.01f}), byte_tensor(b, {}, ++seed), floats({}, {0.2f}),
                             byte_tensor(a, {}, ++seed)});
      }
    }
  }
}

}  // namespace
}  // namespace saturate::test
