#include "extract/fit/measured.h"

#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "extract/price/op_times.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace saturate {
namespace {

MeasuredTable table(const std::string& text) {
  auto t = MeasuredTable::parse(text, "test");
  EXPECT_TRUE(t.ok()) << t.status();
  return *std::move(t);
}

OpUse use(const std::string& row) { return *use_of(nlohmann::json::parse(row)); }

constexpr const char* kRows =
    R"({"machine": {"processor": "x"}})"
    "\n"
    R"({"op": "Add", "in": [[1, 16, 64], [1, 16, 64]], "out": [[1, 16, 64]], "seconds": 1e-6})"
    "\n"
    R"({"op": "Add", "in": [[1, 256, 64], [1, 256, 64]], "out": [[1, 256, 64]], "seconds": 8e-6})"
    "\n"
    R"({"op": "Tanh", "in": [[1, 256, 64]], "out": [[1, 256, 64]], "seconds": 40e-6})"
    "\n"
    R"({"op": "Gemm", "in": [[64, 512], [512, 512], [512]], "out": [[64, 512]], "const": [1, 2], "seconds": 500e-6})"
    "\n";

TEST(Measured, RowsAreMetAndSizesBetweenThemLieBetween) {
  const MeasuredTable t = table(kRows);
  EXPECT_EQ(t.num_rows(), 4u);
  EXPECT_NE(t.machine().find("processor"), std::string::npos);
  const double small = t.seconds(use(R"({"op": "Add", "in": [[1,16,64],[1,16,64]], "out": [[1,16,64]]})"));
  const double middle = t.seconds(use(R"({"op": "Add", "in": [[1,64,64],[1,64,64]], "out": [[1,64,64]]})"));
  const double large = t.seconds(use(R"({"op": "Add", "in": [[1,256,64],[1,256,64]], "out": [[1,256,64]]})"));
  EXPECT_NEAR(small, 1e-6, 1e-7);
  EXPECT_NEAR(large, 8e-6, 8e-7);
  EXPECT_LT(small, middle);
  EXPECT_LT(middle, large);
}

TEST(Measured, OperatorsWithoutRowsAreEstimatedAndSaySo) {
  const MeasuredTable t = table(kRows);
  bool estimated = false;
  EXPECT_GT(t.seconds(use(R"({"op": "Erf", "in": [[1,256,64]], "out": [[1,256,64]]})"), &estimated), 0);
  EXPECT_TRUE(estimated);
  // A fused product is timed as the plain one.
  const double gemm = t.seconds(use(R"({"op": "Gemm", "in": [[64,512],[512,512],[512]], "out": [[64,512]]})"), &estimated);
  EXPECT_FALSE(estimated);
  EXPECT_EQ(t.seconds(use(R"({"op": "com.microsoft::FusedGemm", "in": [[64,512],[512,512],[512]], "out": [[64,512]]})"), &estimated), gemm);
  EXPECT_FALSE(estimated);
}

// Which of the two is cheaper must not depend on rows of products of two activations: runtimes add a bias to MatMul, not to FusedMatMul.
TEST(Measured, ProductsWithWeightsCostTheSameUnderBothNames) {
  const MeasuredTable t =
      table(R"({"op": "MatMul", "in": [[1,1,512],[512,512]], "out": [[1,1,512]], "const": [1], "seconds": 9e-5})"
            "\n"
            R"({"op": "com.microsoft::FusedMatMul", "in": [[1,8,64,64],[1,8,64,64]], "out": [[1,8,64,64]], "seconds": 1e-6})"
            "\n");
  const std::string rest = R"("in": [[1,1,512],[512,512]], "out": [[1,1,512]], "const": [1]})";
  const double plain = t.seconds(use(R"({"op": "MatMul", )" + rest));
  EXPECT_EQ(t.seconds(use(R"({"op": "com.microsoft::FusedMatMul", "attrs": {"transB": 1}, )" + rest)), plain);
  EXPECT_NE(t.seconds(use(R"({"op": "com.microsoft::FusedMatMul", "attrs": {"transBatchB": 1}, )" + rest)), plain);
}

TEST(Measured, GemmIsAProductAndItsBias) {
  const std::string product = R"({"op": "MatMul", "in": [[64,512],[512,512]], "out": [[64,512]], "const": [1], "seconds": 4e-4})";
  const std::string bias = R"({"op": "Gemm/bias", "in": [[512]], "out": [[64,512]], "const": [0], "seconds": 3e-6})";
  const MeasuredTable t = table(product + "\n" + bias + "\n");
  const double plain = t.seconds(use(product));
  EXPECT_EQ(t.seconds(use(R"({"op": "Gemm", "in": [[64,512],[512,512]], "out": [[64,512]], "const": [1]})")), plain);
  const double whole = t.seconds(use(R"({"op": "Gemm", "in": [[64,512],[512,512],[512]], "out": [[64,512]], "const": [1, 2]})"));
  EXPECT_NEAR(whole - plain, 3e-6, 3e-7);
  EXPECT_EQ(
      t.seconds(use(R"({"op": "Gemm", "in": [[64,512],[512,512],[512]], "out": [[64,512]], "const": [1, 2], "attrs": {"transB": 1}})")),
      whole);
}

// ONNX Runtime fuses Conv, Add and Relu itself where its layout allows it; written as one operator they may leave that layout.
TEST(Measured, AConvolutionWithASummandCostsMoreThanItsParts) {
  const std::string conv =
      R"({"op": "Conv", "in": [[1,64,28,28],[64,64,1,1],[64]], "out": [[1,64,28,28]], "const": [1, 2], "seconds": 4e-5})";
  const std::string add = R"({"op": "Add", "in": [[1,64,28,28],[1,64,28,28]], "out": [[1,64,28,28]], "seconds": 6e-6})";
  const std::string relu = R"({"op": "Relu", "in": [[1,64,28,28]], "out": [[1,64,28,28]], "seconds": 4e-6})";
  const MeasuredTable t = table(conv + "\n" + add + "\n" + relu + "\n");
  const std::string with_sum = R"("in": [[1,64,28,28],[64,64,1,1],[64],[1,64,28,28]], "out": [[1,64,28,28]], "const": [1, 2])";
  const double parts = t.seconds(use(conv)) + t.seconds(use(add)), relu_seconds = t.seconds(use(relu));
  EXPECT_GT(t.seconds(use(R"({"op": "com.microsoft::FusedConv", )" + with_sum + "}")), parts);
  EXPECT_GT(t.seconds(use(R"({"op": "com.microsoft::FusedConv", "attrs": {"activation": "Relu"}, )" + with_sum + "}")),
            parts + relu_seconds);
  const std::string plain =
      R"({"op": "com.microsoft::FusedConv", "attrs": {"activation": "Relu"}, "in": [[1,64,28,28],[64,64,1,1],[64]], )";
  EXPECT_NEAR(t.seconds(use(plain + R"("out": [[1,64,28,28]], "const": [1, 2]})")), t.seconds(use(conv)) + relu_seconds / 10, 1e-7);
  const std::string no_bias = R"("in": [[1,64,28,28],[64,64,1,1],[1,64,28,28]], "out": [[1,64,28,28]], "const": [1]})";
  const double sum_alone = t.seconds(use(R"({"op": "com.microsoft::FusedConv", )" + no_bias));
  EXPECT_GT(sum_alone, t.seconds(use(R"({"op": "Conv", "in": [[1,64,28,28],[64,64,1,1]], "out": [[1,64,28,28]], "const": [1]})")) +
                           t.seconds(use(add)));
}

// Quantizing rows and multiplying them is one operator or two, and takes as long.
TEST(Measured, ADynamicProductIsItsQuantizerAndItsProduct) {
  std::ifstream file(SATURATE_SOURCE_DIR "/extract/costs/ort-cpu-avx2.jsonl");
  const MeasuredTable t = table(std::string(std::istreambuf_iterator<char>(file), {}));
  for (const std::string rows : {"1", "100", "20000"})
    for (const std::string columns : {"1", "700"}) {
      const std::string x = "[1," + rows + ",512]", y = "[1," + rows + "," + columns + "]", w = "[512," + columns + "]";
      const double both = t.seconds(use(R"({"op": "com.microsoft::DynamicQuantizeMatMul", "in": [)" + x + "," + w + R"(,[],[]], "out": [)" +
                                        y + R"(], "const": [1, 2, 3]})"));
      const double product = t.seconds(use(R"({"op": "com.microsoft::MatMulIntegerToFloat", "dtype": "uint8", "in": [)" + x + "," + w +
                                           R"(,[],[],[],[]], "out": [)" + y + R"(], "const": [1, 2, 3, 4, 5]})"));
      const double quantizer = t.seconds(use(R"({"op": "DynamicQuantizeLinear", "in": [)" + x + R"(], "out": [)" + x + ",[],[]]}"));
      EXPECT_DOUBLE_EQ(both, product + quantizer) << rows << " " << columns;
    }
}

TEST(Measured, BadRowsAreRefusedWithTheirPlace) {
  for (const auto& [text, place] : {std::pair("nonsense\n", "times.jsonl: not JSON: line 1, column 2: "),
                                    std::pair(R"({"op": "Add", "in": [[1]], "out": [[1]], "seconds": -1})", "times.jsonl:1: "),
                                    std::pair(R"({"op": "Add", "in": 3, "out": [[1]], "seconds": 1})", "times.jsonl:1: ")}) {
    const auto t = MeasuredTable::parse(text, "times.jsonl");
    ASSERT_FALSE(t.ok()) << text;
    EXPECT_EQ(std::string(t.status().message()).rfind(place, 0), 0u) << t.status();
  }
  EXPECT_FALSE(MeasuredTable::parse("", "empty.jsonl").ok());
}

// What is fitted once and read again predicts the same to the last bit.
TEST(Measured, FittedTablesPredictTheSame) {
  std::ifstream file(SATURATE_SOURCE_DIR "/extract/costs/ort-cpu.jsonl");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const MeasuredTable fresh = table(text);
  const std::string fitted = table(text).to_fitted();
  const auto again = MeasuredTable::parse_fitted(fitted, "test");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->num_rows(), fresh.num_rows());
  EXPECT_EQ(again->machine(), fresh.machine());
  const auto rows = read_timed_rows(text, "test");
  ASSERT_TRUE(rows.ok());
  for (std::size_t i = 0; i < rows->rows.size(); i += 7)
    EXPECT_EQ(again->seconds(rows->rows[i].use), fresh.seconds(rows->rows[i].use)) << rows->lines[i];
  for (const char* row : {R"({"op": "Add", "in": [[1,100,512],[512]], "out": [[1,100,512]], "const": [1]})",
                          R"({"op": "MatMul", "in": [[1,100,512],[512,700]], "out": [[1,100,700]], "const": [1]})",
                          R"({"op": "Reshape", "in": [[1,100,512],[3]], "out": [[1,100,512]], "const": [1]})",
                          R"({"op": "Hardmax", "in": [[1,100,512]], "out": [[1,100,512]]})"})
    EXPECT_EQ(again->seconds(use(row)), fresh.seconds(use(row))) << row;
  EXPECT_FALSE(MeasuredTable::parse_fitted(kRows, "rows").ok());
}

TEST(Measured, TheBuiltInTableIsThatOfItsRows) {
  const auto built_in = load_op_times("measured");
  const auto of_rows = load_op_times(SATURATE_SOURCE_DIR "/extract/costs/ort-cpu.jsonl");
  ASSERT_TRUE(built_in.ok() && of_rows.ok());
  const OpUse product = use(R"({"op": "MatMul", "in": [[1,100,512],[512,700]], "out": [[1,100,700]], "const": [1]})");
  EXPECT_EQ((*built_in)->seconds(product), (*of_rows)->seconds(product));
}

TEST(Measured, WrittenRowsAreReadAgain) {
  const auto rows = read_timed_rows(kRows, "test");
  ASSERT_TRUE(rows.ok());
  const MeasuredTable again = table(MeasuredTable::to_text(*rows));
  EXPECT_EQ(again.num_rows(), 4u);
  const char* tanh = R"({"op": "Tanh", "in": [[1,256,64]], "out": [[1,256,64]]})";
  EXPECT_NEAR(again.seconds(use(tanh)), 40e-6, 1e-6);
}

// Half of the rows predict the other half of a smooth law, and no row predicts itself.
TEST(Measured, FoldsPredictFromTheOthers) {
  std::string text;
  for (int rows = 1; rows <= 1 << 12; rows *= 2)
    text += R"({"op": "Tanh", "in": [[)" + std::to_string(rows) + R"(, 64]], "out": [[)" + std::to_string(rows) + R"(, 64]], "seconds": )" +
            std::to_string(rows == 64 ? 1e-3 : 1e-6 + rows * 1e-7) + "}\n";
  const auto rows = read_timed_rows(text, "test");
  ASSERT_TRUE(rows.ok()) << rows.status();
  std::vector<std::size_t> row_of;
  const auto compared = cross_validated(*rows, 13, row_of);
  ASSERT_EQ(compared.size(), rows->rows.size());
  for (std::size_t i = 0; i < compared.size(); ++i) {
    EXPECT_EQ(compared[i].measured, rows->rows[row_of[i]].seconds);
    if (compared[i].measured == 1e-3) {
      EXPECT_LT(compared[i].predicted, 1e-4);
    }
  }
}

// The same sizes and operands, another formula: GELU by tanh takes half as long as by erf.
TEST(Measured, AttributesThatPickAKernelCount) {
  const MeasuredTable t =
      table(R"({"op": "Gelu", "in": [[1,128,64]], "out": [[1,128,64]], "seconds": 20e-6})"
            "\n"
            R"({"op": "Gelu", "in": [[1,128,64]], "out": [[1,128,64]], "attrs": {"approximate": "tanh"}, "seconds": 10e-6})"
            "\n");
  EXPECT_NEAR(t.seconds(use(R"({"op": "Gelu", "in": [[1,128,64]], "out": [[1,128,64]]})")), 20e-6, 1e-6);
  EXPECT_NEAR(t.seconds(use(R"({"op": "Gelu", "in": [[1,128,64]], "out": [[1,128,64]], "attrs": {"approximate": "tanh"}})")), 10e-6, 1e-6);
}

TEST(Measured, BuiltInTablePredictsItsRowsFromEachOther) {
  std::ifstream file(SATURATE_SOURCE_DIR "/extract/costs/ort-cpu.jsonl");
  const auto rows = read_timed_rows(std::string(std::istreambuf_iterator<char>(file), {}), "ort-cpu");
  ASSERT_TRUE(rows.ok());
  std::vector<std::size_t> row_of;
  const auto errors = errors_by_key(cross_validated(*rows, 10, row_of));
  EXPECT_LT(errors.back().mape, 0.16);
}

TEST(Measured, BuiltInTableKnowsThatSkipLayerNormalizationLoses) {
  std::ifstream file(SATURATE_SOURCE_DIR "/extract/costs/ort-cpu.jsonl");
  const MeasuredTable t = table(std::string(std::istreambuf_iterator<char>(file), {}));
  const double add = t.seconds(use(R"({"op": "Add", "in": [[1,100,512],[1,100,512]], "out": [[1,100,512]]})"));
  const double norm =
      t.seconds(use(R"({"op": "LayerNormalization", "in": [[1,100,512],[512],[512]], "out": [[1,100,512]], "const": [1, 2]})"));
  const double skip = t.seconds(use(
      R"({"op": "com.microsoft::SkipLayerNormalization", "in": [[1,100,512],[1,100,512],[512],[512]], "out": [[1,100,512]], "const": [2, 3]})"));
  EXPECT_GT(skip, 2 * (add + norm));
}

}  // namespace
}  // namespace saturate
