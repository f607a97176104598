#include "extract/measured.h"

#include <fstream>

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
  const MeasuredTable t = table(R"({"op": "MatMul", "in": [[1,1,512],[512,512]], "out": [[1,1,512]], "const": [1], "seconds": 9e-5})"
                                "\n"
                                R"({"op": "com.microsoft::FusedMatMul", "in": [[1,8,64,64],[1,8,64,64]], "out": [[1,8,64,64]], "seconds": 1e-6})"
                                "\n");
  const std::string rest = R"("in": [[1,1,512],[512,512]], "out": [[1,1,512]], "const": [1]})";
  const double plain = t.seconds(use(R"({"op": "MatMul", )" + rest));
  EXPECT_EQ(t.seconds(use(R"({"op": "com.microsoft::FusedMatMul", "attrs": {"transB": 1}, )" + rest)), plain);
  EXPECT_NE(t.seconds(use(R"({"op": "com.microsoft::FusedMatMul", "attrs": {"transBatchB": 1}, )" + rest)), plain);
}

TEST(Measured, BadRowsAreRefusedWithTheirPlace) {
  for (const char* text : {"nonsense\n", R"({"op": "Add", "in": [[1]], "out": [[1]], "seconds": -1})",
                           R"({"op": "Add", "in": 3, "out": [[1]], "seconds": 1})"}) {
    const auto t = MeasuredTable::parse(text, "times.jsonl");
    ASSERT_FALSE(t.ok()) << text;
    EXPECT_EQ(std::string(t.status().message()).rfind("times.jsonl:1", 0), 0u) << t.status();
  }
  EXPECT_FALSE(MeasuredTable::parse("", "empty.jsonl").ok());
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
