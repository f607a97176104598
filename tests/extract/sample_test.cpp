#include "extract/sample.h"

#include <gtest/gtest.h>

#include <set>

#include "extract/peak_memory.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/file/io.h"

namespace saturate {
namespace {

// Three layers, each with two ways to make it of which one shares.
ExtractionProblem ladder() {
  ExtractionProblem p;
  p.add_node(1, {});
  p.end_class();
  for (std::uint32_t c = 1; c <= 6; ++c) {
    const std::uint32_t below = c - 1, far = c > 1 ? c - 2 : 0;
    p.add_node(2, std::vector{below});
    p.add_node(3, std::vector{far});
    p.add_node(1, std::vector{c});  // on a cycle
    p.end_class();
  }
  p.roots = {6};
  return p;
}

TEST(SampleChoices, AreValidDistinctAndTheSameForTheSameSeed) {
  const ExtractionProblem p = ladder();
  NodeChoice from(p.num_classes());
  for (std::uint32_t c = 0; c < p.num_classes(); ++c) from[c] = p.node_begin[c];
  const auto samples = sample_choices(p, from, 8, 5);
  EXPECT_EQ(samples.size(), 8u);
  std::set<NodeChoice> seen{needed_only(p, from)};
  for (const NodeChoice& c : samples) {
    EXPECT_EQ(evaluate_choice(p, c).wrong, "");
    EXPECT_TRUE(seen.insert(c).second);
  }
  EXPECT_EQ(samples, sample_choices(p, from, 8, 5));
  EXPECT_NE(samples, sample_choices(p, from, 8, 6));
}

TEST(SampleChoices, StopWhereThereAreNoMore) {
  ExtractionProblem p;
  p.add_node(1, {});
  p.add_node(2, {});
  p.end_class();
  p.roots = {0};
  EXPECT_EQ(sample_choices(p, {0}, 8, 1), (std::vector<NodeChoice>{{1}}));
}

double peak_of(const std::string& text) {
  const auto evaluator = make_evaluator();
  OnnxEGraph g(*evaluator);
  const Model model = parse_model_text(text, "test").value();
  const Lowered lowered = lower(model, g).value();
  const auto cost = load_cost_model("nodes").value();
  ExtractOptions options;
  options.usual_sizes = {{"N", 8}};
  return peak_bytes(g, lowered, original_selection(g, lowered, nullptr, *cost).value(), options);
}

TEST(PeakBytes, CountsWhatIsAliveAtOnce) {
  // x is 4 * 8 * 4 = 128 bytes and stays; a chain holds two values at once.
  EXPECT_EQ(
      peak_of(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] y) { a = Exp(x)  b = Neg(a)  y = Abs(b) })"),
      128 + 2 * 128);
  // a waits for c: three at once.
  EXPECT_EQ(
      peak_of(
          R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] y) { a = Exp(x)  b = Neg(a)  c = Abs(b)  y = Add(c, a) })"),
      128 + 3 * 128);
  // A view takes nothing.
  EXPECT_EQ(
      peak_of(
          R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4, 1] y) <int64[1] s = {2}> { a = Exp(x)  y = Unsqueeze(a, s) })"),
      128 + 128 + 8);
}

}  // namespace
}  // namespace saturate
