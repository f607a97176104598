#include "extract/fit/lent_rows.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "extract/fit/measured.h"
#include "extract/sizes/op_features.h"
#include "extract/target/kernels.h"
#include "nlohmann/json.hpp"
#include "rules/compile/rule_set.h"

namespace saturate {
namespace {

TimedRows rows(const std::string& text) {
  auto read = read_timed_rows(text, "test");
  EXPECT_TRUE(read.ok()) << read.status();
  return *std::move(read);
}

TimedRows shipped(const std::string& name) {
  std::ifstream file(SATURATE_SOURCE_DIR "/extract/costs/" + name + ".jsonl");
  return rows({std::istreambuf_iterator<char>(file), {}});
}

std::string row(const std::string& op, const std::string& in, const std::string& out, double seconds, const std::string& more = "") {
  return R"({"op": ")" + op + R"(", "in": )" + in + R"(, "out": )" + out + R"(, "seconds": )" + std::to_string(seconds) + more + "}\n";
}

double seconds(const TimedRows& of, const std::string& op) {
  for (const TimedUse& r : of.rows)
    if (r.use.op == op) return r.seconds;
  return -1;
}

// Products are twice as fast here, and what moves bytes takes as long as there: so does what is lent.
TEST(LentRows, TakeWhatRowsOfBothTakeByTheirKind) {
  const std::string product = "[[64,64,64],[64,64]]", tensor = "[[64,64,64]]";
  const TimedRows own = rows(row("MatMul", product, tensor, 1e-3) + row("Tanh", tensor, tensor, 1e-3)),
                  other = rows(row("MatMul", product, tensor, 2e-3) + row("Tanh", tensor, tensor, 1e-3) +
                               row("Conv", "[[1,64,64,64],[64,64,3,3]]", "[[1,64,64,64]]", 8e-3) + row("Elu", tensor, tensor, 5e-3));
  const TimedRows all = with_lent(own, other);
  ASSERT_EQ(all.rows.size(), 4u);
  EXPECT_EQ(all.lines.size(), 4u);
  EXPECT_DOUBLE_EQ(seconds(all, "MatMul"), 1e-3);  // its own
  EXPECT_DOUBLE_EQ(seconds(all, "Conv"), 4e-3);
  EXPECT_DOUBLE_EQ(seconds(all, "Elu"), 5e-3);
}

// What is measured here under a name that is timed alike is not lent: com.microsoft's FusedMatMul is a MatMul.
TEST(LentRows, OperatorsTimedAlikeAreOne) {
  const std::string product = "[[64,64,64],[64,64]]", tensor = "[[64,64,64]]";
  const TimedRows own = rows(row("MatMul", product, tensor, 1e-3)),
                  other = rows(row("com.microsoft::FusedMatMul", product, tensor, 2e-3) + row("Elu", tensor, tensor, 5e-3));
  const TimedRows all = with_lent(own, other);
  EXPECT_EQ(all.rows.size(), 2u);
  EXPECT_DOUBLE_EQ(seconds(all, "Elu"), 5e-3);  // nothing of both: as there
}

// A recurrence takes time by its steps and by its matrices, as ConvTranspose by what its filters reach.
TEST(LentRows, RecurrencesAreTimedByTheirProducts) {
  const MeasuredTable table(with_lent(shipped("ort-cpu"), shipped("ort-cpu-avx2")));
  const auto lstm = [&](const std::string& op, int steps, int hidden) {
    const std::string h = std::to_string(hidden), g = std::to_string(4 * hidden), t = std::to_string(steps);
    OpUse use = *use_of(nlohmann::json::parse(R"({"op": ")" + op + R"(", "in": [[)" + t + ",1,128],[1," + g + ",128],[1," + g + "," + h +
                                              "]], \"out\": [[" + t + ",1,1," + h + R"(]], "attrs": {"hidden_size": )" + h + "}}"));
    bool estimated = true;
    const double s = table.seconds(use, &estimated);
    EXPECT_FALSE(estimated) << op;
    return s;
  };
  for (const char* op : {"LSTM", "GRU", "RNN", "com.microsoft::DynamicQuantizeLSTM"}) {
    EXPECT_GT(lstm(op, 160, 128), 5 * lstm(op, 20, 128)) << op;
    EXPECT_GT(lstm(op, 50, 512), 4 * lstm(op, 50, 128)) << op;
  }
  EXPECT_GT(lstm("LSTM", 50, 256), 1.3 * lstm("com.microsoft::DynamicQuantizeLSTM", 50, 256));
}

// What rules make is chosen by price, so that a guess will not do. Gemm is a product and its bias; of opset 28 no release has a kernel.
TEST(LentRows, EachOperatorThatRulesMakeAndTheRuntimeHasHasRows) {
  std::set<std::string> known{"Gemm", "CausalConvWithState", "SwiGLU"};
  for (const TimedUse& r : with_lent(shipped("ort-cpu"), shipped("ort-cpu-avx2")).rows) known.insert(comparable_op(r.use.op));
  const auto set = RuleSet::builtin(false);
  ASSERT_TRUE(set.ok()) << set.status();
  std::string without;
  int made = 0;
  for (const std::string& name : set->made_operators()) {
    const std::size_t dot = name.rfind('.');
    const std::string domain = dot == std::string::npos ? "" : name.substr(0, dot), op = operator_name(domain, name.substr(dot + 1));
    if (domain == "saturate" || (!domain.empty() && !has_kernel_of(op, ""))) continue;
    ++made;
    if (!known.contains(comparable_op(op))) without += op + " ";
  }
  EXPECT_EQ(without, "");
  EXPECT_GT(made, 100);
}

}  // namespace
}  // namespace saturate
