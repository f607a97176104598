// Weights that are mapped from a file begin at any address. What computes with them must not care, and the sanitizer sees who does.
#include <cstring>

#include "kernel_test_util.h"

namespace saturate {
namespace {

using test::floats;
using test::noise_tensor;

// The same data one byte off.
Tensor shifted(const Tensor& t) {
  auto bytes = std::make_shared<std::vector<std::byte>>(t.bytes().size() + 8);
  std::byte* at = bytes->data() + 1;
  std::memcpy(at, t.bytes().data(), t.bytes().size());
  return Tensor(t.dtype(), t.dims(), bytes, std::span<const std::byte>(at, t.bytes().size()));
}

using Inputs = std::map<std::string, Value>;

// The text's graph with those inputs that `weights` names made initializers.
Model with_weights(const std::string& text, const std::map<std::string, Tensor>& weights, bool shift) {
  absl::StatusOr<Model> model = parse_model_text(text, "test");
  EXPECT_TRUE(model.ok()) << model.status();
  std::erase_if(model->graph.inputs, [&](const ValueInfo& i) { return weights.contains(i.name); });
  for (const auto& [name, tensor] : weights) model->graph.initializers.push_back({name, shift ? shifted(tensor) : tensor, nullptr, false});
  return *std::move(model);
}

std::vector<Value> outputs(const Model& model, const Inputs& inputs, const SessionOptions& options) {
  absl::StatusOr<Session> session = Session::create(model, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  EXPECT_TRUE(session->run(inputs).ok());
  absl::StatusOr<std::vector<Value>> out = session->run(inputs);  // with what the first run prepared
  EXPECT_TRUE(out.ok()) << out.status();
  return out.ok() ? *std::move(out) : std::vector<Value>();
}

void same_from_any_address(const std::string& graph, const Inputs& inputs, const std::map<std::string, Tensor>& weights) {
  const std::string text = R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> )" + graph;
  for (const bool prepare : {true, false})
    for (const bool reference : {false, true}) {
      SessionOptions options;
      options.prepare = prepare;
      options.reference = reference;
      const auto want = outputs(with_weights(text, weights, false), inputs, options);
      const auto got = outputs(with_weights(text, weights, true), inputs, options);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_TRUE(is_aligned(got[i].tensor())) << graph;
        EXPECT_TRUE(identical(got[i].tensor(), want[i].tensor()))
            << graph << (prepare ? " prepared" : "") << (reference ? " reference" : "");
      }
    }
}

TEST(Unaligned, Products) {
  const Inputs x{{"x", noise_tensor({5, 33}, 1)}};
  const std::map<std::string, Tensor> w{{"w", noise_tensor({33, 40}, 2)}, {"b", noise_tensor({40}, 3)}};
  same_from_any_address("g (float[5, 33] x, float[33, 40] w, float[40] b) => (float[5, 40] y) { m = MatMul (x, w)  y = Add (m, b) }", x, w);
  same_from_any_address("g (float[5, 33] x, float[33, 40] w, float[40] b) => (float[5, 40] y) { y = Gemm <alpha = 0.5> (x, w, b) }", x, w);
  const std::map<std::string, Tensor> t{{"w", noise_tensor({40, 33}, 2)}};
  same_from_any_address("g (float[5, 33] x, float[40, 33] w) => (float[5, 40] y) { y = Gemm <transB = 1> (x, w) }", x, t);
  same_from_any_address("g (float[5, 33] x, float[40, 33] w) => (float[5, 40] y) { t = Transpose <perm = [1, 0]> (w)  y = MatMul (x, t) }",
                        x, t);
  const std::map<std::string, Tensor> several{{"w", noise_tensor({3, 33, 4}, 2)}};
  same_from_any_address("g (float[5, 33] x, float[3, 33, 4] w) => (float[3, 5, 4] y) { y = MatMul (x, w) }", x, several);
  const std::map<std::string, Tensor> left{{"w", noise_tensor({7, 5}, 2)}};
  same_from_any_address("g (float[5, 33] x, float[7, 5] w) => (float[7, 33] y) { y = MatMul (w, x) }", x, left);
  const std::map<std::string, Tensor> batch{{"w", noise_tensor({33, 3, 4}, 2)}};
  same_from_any_address(
      "g (float[2, 3, 33] x, float[33, 3, 4] w) => (float[3, 2, 4] y) { y = com.microsoft.FusedMatMul <transBatchA = 1, transBatchB = 1> "
      "(x, w) }",
      {{"x", noise_tensor({2, 3, 33}, 1)}}, batch);
}

TEST(Unaligned, DoublesAndIntegers) {
  std::vector<double> numbers(33 * 8);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.25 * static_cast<double>(i % 17);
  std::vector<double> rows(5 * 33, 1.5);
  same_from_any_address("g (double[5, 33] x, double[33, 8] w) => (double[5, 8] y) { y = MatMul (x, w) }",
                        {{"x", test::make<double>({5, 33}, rows)}}, {{"w", test::make<double>({33, 8}, numbers)}});
  same_from_any_address("g (int64[2] x, int64[2] w) => (int64[2] y) { y = Add (x, w) }", {{"x", test::ints({2}, {1, 2})}},
                        {{"w", test::ints({2}, {3, 4})}});
}

TEST(Unaligned, Tables) {
  const Inputs ids{{"i", test::ints({3}, {0, 4, -1})}};
  const std::map<std::string, Tensor> w{{"w", noise_tensor({6, 5}, 2)}};
  same_from_any_address("g (int64[3] i, float[6, 5] w) => (float[3, 5] y) { y = Gather (w, i) }", ids, w);
  same_from_any_address("g (int64[3] i, float[6, 5] w) => (float[6, 3] y) { y = Gather <axis = 1> (w, i) }", ids, w);
  same_from_any_address(
      "g (int64[1, 3] i, float[6, 8] w, float[6, 8] p, float[8] s, float[8] b) => (float[1, 3, 8] y, int32[1] m) "
      "{ y, m = com.microsoft.EmbedLayerNormalization (i, , w, p, , s, b) }",
      {{"i", test::ints({1, 3}, {0, 4, 5})}},
      {{"w", noise_tensor({6, 8}, 2)}, {"p", noise_tensor({6, 8}, 3)}, {"s", noise_tensor({8}, 4)}, {"b", noise_tensor({8}, 5)}});
}

TEST(Unaligned, ConvolutionsAndAttention) {
  const Inputs x{{"x", noise_tensor({1, 4, 6, 6}, 1)}};
  same_from_any_address("g (float[1, 4, 6, 6] x, float[3, 4, 3, 3] w) => (float[1, 3, 4, 4] y) { y = Conv (x, w) }", x,
                        {{"w", noise_tensor({3, 4, 3, 3}, 2)}});
  same_from_any_address("g (float[1, 4, 6, 6] x, float[4, 1, 3, 3] w) => (float[1, 4, 4, 4] y) { y = Conv <group = 4> (x, w) }", x,
                        {{"w", noise_tensor({4, 1, 3, 3}, 2)}});
  same_from_any_address(
      "g (float[1, 3, 8] x, float[8, 24] w, float[24] b) => (float[1, 3, 8] y) { y = com.microsoft.Attention <num_heads = 2> (x, w, b) }",
      {{"x", noise_tensor({1, 3, 8}, 1)}}, {{"w", noise_tensor({8, 24}, 2)}, {"b", noise_tensor({24}, 3)}});
}

TEST(Unaligned, OutputsCapturesAndDefaults) {
  const std::map<std::string, Tensor> w{{"w", noise_tensor({3}, 2)}};
  same_from_any_address("g (float[3] x, float[3] w) => (float[3] y, float[3] w) { y = Neg (x) }", {{"x", noise_tensor({3}, 1)}}, w);
  same_from_any_address(
      "g (bool c, float[3] x, float[3] w) => (float[3] y) { y = If (c) <then_branch = a () => (float[3] p) { p = Add (x, w) }, "
      "else_branch = b () => (float[3] q) { q = Identity (w) }> }",
      {{"c", test::make<bool>({}, {true})}, {"x", noise_tensor({3}, 1)}}, w);
  // An initializer that a run may override.
  for (const bool prepare : {true, false}) {
    Model model =
        with_weights(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[3] x, float[3] w) => (float[3] y) { y = Add (x, w) })", w, true);
    model.graph.inputs.push_back({"w", {}, nullptr});
    SessionOptions options;
    options.prepare = prepare;
    const auto got = outputs(model, {{"x", floats({3}, {0, 0, 0})}}, options);
    ASSERT_EQ(got.size(), 1u);
    test::expect_near(got[0].tensor(), w.at("w"), 0);
    const auto other = outputs(model, {{"x", floats({3}, {0, 0, 0})}, {"w", floats({3}, {1, 2, 3})}}, options);
    test::expect_near(other[0].tensor(), floats({3}, {1, 2, 3}), 0);
  }
}

TEST(Unaligned, TheEvaluatorTakesThem) {
  test::expect_near(test::eval({"Add"}, {shifted(floats({2}, {1, 2})), floats({2}, {3, 4})}), floats({2}, {4, 6}), 0);
}

}  // namespace
}  // namespace saturate
