// What a session rewrites must compute what the graph as it is computes by the reference kernels.
#include "fmt/format.h"
#include "kernel_test_util.h"

namespace saturate {
namespace {

using test::noise_tensor;

struct Ran {
  std::vector<Tensor> outputs;
  std::vector<std::string> operators;
};

Ran run(const Model& model, const std::map<std::string, Value>& inputs, const SessionOptions& options) {
  absl::StatusOr<Session> session = Session::create(model, options);
  EXPECT_TRUE(session.ok()) << session.status();
  Ran ran;
  if (!session.ok()) return ran;
  std::vector<NodeTiming> timings;
  const auto out = session->run(inputs, &timings);
  EXPECT_TRUE(out.ok()) << out.status();
  if (!out.ok()) return ran;
  for (const Value& v : *out) ran.outputs.push_back(v.tensor());
  for (const NodeTiming& t : timings) ran.operators.push_back(t.op_type);
  return ran;
}

// Prepared with 1 and with 2 threads against reference kernels; gives the prepared operators.
std::vector<std::string> check(const std::string& text, const std::vector<std::pair<std::string, Shape>>& constants,
                               const std::map<std::string, Value>& inputs, double tolerance = 2e-5) {
  std::string declared = text;  // as inputs, so that the parser knows them; those with values of their own become initializers
  const std::size_t at = text.find(')', text.find(" g ("));
  std::map<std::string, Value> given = inputs;
  std::vector<Initializer> initializers;
  std::uint32_t seed = 77;
  for (const auto& [name, dims] : constants) initializers.push_back({name, noise_tensor(dims, ++seed), nullptr, false});
  for (const auto& [name, value] : inputs) {
    if (text.substr(0, at).find(fmt::format("] {}", name)) != std::string::npos ||
        text.substr(0, at).find(fmt::format("bool {}", name)) != std::string::npos)
      continue;
    initializers.push_back({name, value.tensor(), nullptr, false});
    given.erase(name);
  }
  for (const Initializer& i : initializers) declared.insert(at, fmt::format(", {} {}", dtype_name(i.tensor.dtype()), i.name));
  absl::StatusOr<Model> model = parse_model_text(declared, "test");
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return {};
  std::erase_if(model->graph.inputs, [&](const ValueInfo& v) { return !given.contains(v.name); });
  model->graph.initializers = initializers;
  SessionOptions reference;
  reference.reference = true;
  const Ran want = run(*model, given, reference);
  Ran got;
  for (int threads : {1, 2}) {
    SessionOptions options;
    options.threads = threads;
    got = run(*model, given, options);
    EXPECT_EQ(got.outputs.size(), want.outputs.size());
    if (got.outputs.size() != want.outputs.size()) return {};
    for (std::size_t i = 0; i < want.outputs.size(); ++i) test::expect_near(got.outputs[i], want.outputs[i], tolerance);
  }
  return got.operators;
}

std::size_t count(const std::vector<std::string>& operators, const std::string& op) {
  return static_cast<std::size_t>(std::count(operators.begin(), operators.end(), op));
}

constexpr const char* kHead = R"(<ir_version: 8, opset_import: ["" : 18]> g (float[N,C,H,W] x) => (float y))";

TEST(SessionLayout, ConvolutionsOfAllGeometries) {
  struct Case {
    const char* attributes;
    Shape weight, input;
  };
  const Case cases[] = {
      {"pads = [1,1,1,1]", {5, 3, 3, 3}, {2, 3, 7, 6}},
      {"pads = [0,2,1,0], strides = [2,3]", {70, 4, 3, 2}, {1, 4, 9, 11}},
      {"dilations = [2,3], pads = [2,3,2,3]", {6, 5, 3, 3}, {1, 5, 8, 9}},
      {"strides = [2,2]", {7, 9, 1, 1}, {2, 9, 5, 6}},
      {"auto_pad = \"SAME_LOWER\", strides = [2,2]", {4, 3, 4, 3}, {1, 3, 7, 8}},
      {"kernel_shape = [1,1]", {130, 300, 1, 1}, {1, 300, 3, 5}},
      {"pads = [1,1,1,1]", {70, 16, 3, 3}, {2, 16, 7, 6}},
      {"pads = [2,0,1,3], strides = [2,1], dilations = [1,2]", {5, 33, 3, 2}, {1, 33, 9, 11}},
      {"pads = [1,1,1,1]", {9, 300, 3, 3}, {1, 300, 5, 4}},
      {"strides = [2,2], pads = [-1,0,0,-1]", {7, 20, 2, 2}, {1, 20, 9, 8}},
      {"group = 20, pads = [1,1,1,1]", {20, 1, 3, 3}, {2, 20, 6, 13}},
      {"group = 37, pads = [2,2,2,2], strides = [2,2]", {37, 1, 5, 5}, {1, 37, 9, 7}},
      {"group = 16, pads = [3,3,3,3], dilations = [3,3]", {16, 1, 3, 3}, {1, 16, 5, 4}},
      {"group = 2, pads = [1,1,1,1]", {6, 2, 3, 3}, {1, 4, 5, 5}},
      // Few channels: rows of windows are read from an image with zeros around it, or from the image itself.
      {"pads = [3,3,3,3], strides = [2,2]", {64, 3, 7, 7}, {2, 3, 20, 22}},
      {"strides = [4,4]", {5, 3, 4, 4}, {2, 3, 8, 13}},
      {"pads = [1,9,1,9], strides = [1,30]", {5, 3, 3, 3}, {1, 3, 5, 6}},
      {"pads = [0,40,0,0], strides = [1,60]", {5, 3, 2, 2}, {1, 3, 5, 22}},
      {"pads = [-1,-2,0,1]", {5, 3, 2, 2}, {1, 3, 8, 9}},
      {"pads = [200,0,200,0], strides = [100,1], dilations = [2,1]", {5, 3, 3, 3}, {1, 3, 6, 5}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.attributes);
    check(fmt::format("{} {{ y = Conv <{}> (x, w, b) }}", kHead, c.attributes), {{"w", c.weight}, {"b", {c.weight[0]}}},
          {{"x", noise_tensor(c.input, 5)}}, 1e-4);
  }
}

// One filter a channel: all numbers of positions beside each other, whole windows and cut ones.
TEST(SessionLayout, DepthwiseRowsOfAllLengths) {
  for (std::int64_t size : {3, 5}) {
    for (std::int64_t width = 1; width <= 11; ++width) {
      for (const char* strides : {"1,1", "2,2"}) {
        SCOPED_TRACE(fmt::format("{} wide, windows of {}, strides {}", width, size, strides));
        check(fmt::format("{} {{ c = Conv <group = 83, pads = [{},{},{},{}], strides = [{}]> (x, w, b)  y = Clip (c, lo, hi) }}", kHead,
                          size / 2, size / 2, size / 2, size / 2, strides),
              {{"w", {83, 1, size, size}}, {"b", {83}}},
              {{"x", noise_tensor({1, 83, 4, width}, 5)}, {"lo", test::floats({}, {-0.8f})}, {"hi", test::floats({}, {0.9f})}}, 1e-4);
      }
    }
  }
}

// Large enough to be shared out: means of images, factors to the weights (one image) and to the images (two).
TEST(SessionLayout, MeansAndProductsOfManyChannels) {
  for (std::int64_t batch : {1, 2}) {
    const auto ops =
        check(fmt::format("{} {{ a = Conv (x, w1)  p = GlobalAveragePool (a)  q = Sigmoid (p)  m = Mul (a, q)  y = Conv (m, w2) }}", kHead),
              {{"w1", {150, 3, 1, 1}}, {"w2", {300, 150, 1, 1}}}, {{"x", noise_tensor({batch, 3, 24, 24}, 3)}}, 2e-4);
    EXPECT_EQ(count(ops, "Mul"), 0u);
  }
}

TEST(SessionLayout, ConvolutionsTakeInResidualsAndActivations) {
  const auto ops =
      check(fmt::format(R"({} {{
      a = Conv <pads = [1,1,1,1]> (x, w1)   r = Relu (a)
      c = Conv <pads = [1,1,1,1]> (r, w2, b)   s = Add (c, r)   t = Relu (s)
      d = Conv (t, w3)   e = Conv (x, w3)   f = Add (d, e)   g0 = Sigmoid (f)   m = Mul (f, g0)
      h = Conv <group = 3> (m, w4)   y = Clip (h, lo, hi) }})",
                        kHead),
            {{"w1", {3, 3, 3, 3}}, {"w2", {3, 3, 3, 3}}, {"b", {3}}, {"w3", {3, 3, 1, 1}}, {"w4", {3, 1, 1, 1}}, {"lo", {}}, {"hi", {}}},
            {{"x", noise_tensor({2, 3, 5, 6}, 9)}});
  EXPECT_EQ(count(ops, "Conv"), 5u);
  EXPECT_EQ(count(ops, "Relu") + count(ops, "Add") + count(ops, "Clip") + count(ops, "Sigmoid"), 0u);
  EXPECT_EQ(count(ops, "Transpose"), 2u);
}

// Factors a channel under a convolution of single positions go to the weights or to the image, whichever is smaller.
TEST(SessionLayout, ProductsUnderConvolutions) {
  const std::string text = fmt::format(R"({} {{
      a = Conv (x, w1)   p = GlobalAveragePool (a)   s = Conv (p, w2, b)   q = Sigmoid (s)   m = Mul (a, q)   d = Conv (m, w3, b)
      r = Add (d, a)   m2 = Mul (q, r)   e = Conv (m2, w3)   f = Relu (e)   h = Mul (a, f)   y = Conv <strides = [2,2]> (h, w3, b) }})",
                                       kHead);
  for (const Shape& input : {Shape{1, 3, 9, 8}, Shape{2, 3, 9, 8}, Shape{1, 3, 2, 1}}) {
    const auto ops =
        check(text, {{"w1", {7, 3, 1, 1}}, {"w2", {7, 7, 1, 1}}, {"w3", {7, 7, 1, 1}}, {"b", {7}}}, {{"x", noise_tensor(input, 3)}}, 1e-4);
    EXPECT_EQ(count(ops, "Mul") + count(ops, "Add"), 0u);
    EXPECT_EQ(count(ops, "Conv"), 5u);
  }
}

// Fused operators of com.microsoft are laid out and fused as the standard's are.
TEST(SessionExpand, FusedConvolutions) {
  const auto ops =
      check(R"(<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]> g (float[N,C,H,W] x) => (float y) {
      a = com.microsoft.FusedConv <pads = [1,1,1,1], activation = "Relu"> (x, w1, b)
      c = com.microsoft.FusedConv <pads = [1,1,1,1], activation = "Clip", activation_params = [0.0, 0.5]> (a, w2)
      d = com.microsoft.FusedConv <pads = [1,1,1,1], activation = "Relu"> (c, w2, b, a)
      e = com.microsoft.FusedConv <pads = [1,1,1,1]> (d, w2, , c)
      f = com.microsoft.QuickGelu <alpha = 1.0> (e)
      g0 = com.microsoft.FusedConv <activation = "LeakyRelu", activation_params = [0.25]> (f, w3)
      h = com.microsoft.QuickGelu (g0)
      y = com.microsoft.FusedConv <activation = "HardSwish", strides = [2,2]> (h, w3) })",
            {{"w1", {4, 3, 3, 3}}, {"w2", {4, 4, 3, 3}}, {"b", {4}}, {"w3", {4, 4, 1, 1}}}, {{"x", noise_tensor({2, 3, 5, 6}, 9)}});
  EXPECT_EQ(count(ops, "Conv"), 5u);
  EXPECT_EQ(count(ops, "FusedConv"), 1u);
  EXPECT_EQ(count(ops, "Relu") + count(ops, "Add") + count(ops, "Clip") + count(ops, "Swish") + count(ops, "HardSwish"), 0u);
}

// Nodes that lack inputs or outputs are refused by name, before a pass looks for them.
TEST(SessionGraph, RefusesNodesThatLackInputs) {
  for (const char* node :
       {"a = Cast <to = 1> ()", "s = Sigmoid () a = Mul (x, s)", "t = Transpose () a = MatMul (x, t)", "a = Conv (x)", "a = Conv ()",
        "a = Relu ()", "a = Identity ()", "a = Softmax ()", "a = MatMul ()", "a = com.microsoft.FusedMatMul ()",
        "a = com.microsoft.BiasGelu ()", "a = com.microsoft.FusedConv <activation = \"Relu\"> (x)", "a = BatchNormalization (x)"}) {
    const auto model = parse_model_text(fmt::format(R"(<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]>
        g (float[2,3,4,4] x) => (float y) {{ {} y = Add (a, x) }})",
                                                    node),
                                        "test");
    ASSERT_TRUE(model.ok()) << node << model.status();
    const auto session = Session::create(*model);
    const bool fails = !session.ok() || !session->run({{"x", noise_tensor({2, 3, 4, 4}, 1)}}).ok();
    EXPECT_TRUE(fails) << node;
  }
}

TEST(SessionExpand, GeluFamilySumsAndGemm) {
  const auto ops = check(R"(<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]> g (float[N,K] x) => (float y, float z) {
      a = com.microsoft.FusedGemm <transB = 1, alpha = 0.5, activation = "Relu"> (x, w, b)
      c = com.microsoft.BiasGelu (a, b)
      d = com.microsoft.FastGelu (c, b)
      e = com.microsoft.FastGelu (c)
      f = com.microsoft.Gelu (e)
      y = Sum (d, e, f, x)
      q = Sum (x, x)
      z = com.microsoft.FusedGemm <activation = "LeakyRelu", activation_alpha = 0.125> (q, w) })",
                         {{"w", {6, 6}}, {"b", {6}}}, {{"x", noise_tensor({5, 6}, 9)}});
  EXPECT_EQ(count(ops, "BiasGelu") + count(ops, "FastGelu") + count(ops, "Gelu"), 0u);
  EXPECT_EQ(count(ops, "FusedGemm"), 1u);
}

TEST(SessionLayout, ValuesReadElsewhereKeepTheirLayout) {
  // The convolution's result is read by a Reshape, by a subgraph, by a sum that broadcasts, and is not to take in that sum as a residual.
  check(R"(<ir_version: 8, opset_import: ["" : 18]> g (float[1,3,4,5] x, bool k) => (float p, float q, float r) {
      a = Conv <pads = [1,1,1,1]> (x, w)  n = Relu (a)
      p = Reshape (n, shape)
      q = If (k) <then_branch = t () => (float u) { u = Add (n, n) }, else_branch = e () => (float v) { v = Neg (n) }>
      c = Conv (n, w1)  z = ReduceMax <keepdims = 1> (x, axes)  zz = Conv (z, w1) r = Add (c, zz) })",
        {{"w", {3, 3, 3, 3}}, {"w1", {2, 3, 1, 1}}},
        {{"x", noise_tensor({1, 3, 4, 5}, 3)},
         {"k", test::make<bool>({}, {true})},
         {"shape", test::ints({2}, {3, -1})},
         {"axes", test::ints({2}, {2, 3})}});
}

TEST(SessionLayout, PoolsMeansAndConcatenations) {
  const auto ops = check(fmt::format(R"({} {{
      a = Conv (x, w)  b = MaxPool <kernel_shape = [3,2], strides = [2,2], pads = [1,0,1,1]> (a)
      c = AveragePool <kernel_shape = [3,2], strides = [2,2], pads = [1,0,1,1], count_include_pad = 1> (a)
      d = AveragePool <kernel_shape = [3,2], strides = [2,2], pads = [1,0,1,1]> (a)
      e = Concat <axis = 1> (b, c, d)   f = GlobalAveragePool (e)   h = Mul (e, f)   i = Mul (h, scale)   j = Add (i, one)
      k = ReduceMean <axes = [-1, 2], keepdims = 0> (j)   y = Softmax (k) }})",
                                     R"(<ir_version: 8, opset_import: ["" : 13]> g (float[N,C,H,W] x) => (float y))"),
                         {{"w", {4, 3, 1, 1}}, {"scale", {12, 1, 1}}, {"one", {}}}, {{"x", noise_tensor({2, 3, 7, 8}, 4)}});
  EXPECT_EQ(count(ops, "Transpose"), 1u);
}

TEST(SessionLayout, CeilModeCountsAsThePlainKernelDoes) {
  for (const char* more : {"count_include_pad = 1", "count_include_pad = 0"})
    check(fmt::format(
              "{} {{ a = Conv (x, w)  y = AveragePool <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1], ceil_mode = 1, {}> (a) }}",
              kHead, more),
          {{"w", {2, 3, 1, 1}}}, {{"x", noise_tensor({1, 3, 6, 8}, 4)}});
}

TEST(SessionFuse, ChainsOfAllOperatorsAndBroadcasts) {
  const auto ops =
      check(R"(<ir_version: 8, opset_import: ["" : 20]> g (float[A,B,C] x, float[A,B,1] column) => (float y) {
      a = Add (x, row)  b = Mul (a, column)  c = Sub (half, b)  d = Abs (c)  e = Sqrt (d)  f = Add (e, one)  h = Reciprocal (f)
      i = Tanh (h)  j = Erf (i)  k = Gelu (j)  l = Gelu <approximate = "tanh"> (k)  m = Exp (l)  n = Pow (m, three)  o = Div (n, a)
      p = Neg (o)  q = Relu (p)  r = Sigmoid (q)  s = Mul (r, x)  t = HardSwish (s) y = Add (t, plane) })",
            {{"row", {70}}, {"one", {1}}, {"half", {}}, {"plane", {3, 70}}},
            {{"x", noise_tensor({2, 3, 70}, 8)}, {"column", noise_tensor({2, 3, 1}, 2)}, {"three", test::floats({}, {3})}}, 1e-4);
  EXPECT_LE(ops.size(), 2u);  // the limit on one pass makes it two
}

TEST(SessionFuse, SmallPowersAreProducts) {
  absl::StatusOr<Model> model = parse_model_text(
      R"(<ir_version: 8, opset_import: ["" : 20]> g (float[A] x) => (float y) <float two = {2.0}, float three = {3.0}> { a = Pow (x, two) b = Pow (x, three) c = Mul (a, b) y = Pow (c, three) })",
      "test");
  ASSERT_TRUE(model.ok()) << model.status();
  const Ran got = run(*model, {{"x", test::floats({3}, {-2, 0.5f, 3})}}, {});
  ASSERT_EQ(got.outputs.size(), 1u);
  test::expect_near(got.outputs[0], test::floats({3}, {-32768, 3.0517578e-05f, 14348907}), 1);
  EXPECT_EQ(got.operators.size(), 1u);
}

TEST(SessionFuse, BroadcastsInTheMiddleAndShortRows) {
  check(
      R"(<ir_version: 8, opset_import: ["" : 18]> g (float[2,1,5] x, float[2,3,1] z) => (float y) { a = Add (x, z)  b = Mul (a, a)  y = Sub (b, r) })",
      {{"r", {3, 5}}}, {{"x", noise_tensor({2, 1, 5}, 8)}, {"z", noise_tensor({2, 3, 1}, 2)}});
  check(R"(<ir_version: 8, opset_import: ["" : 18]> g (float[0,5] x) => (float y) { a = Add (x, x)  y = Mul (a, r) })", {{"r", {5}}},
        {{"x", noise_tensor({0, 5}, 8)}});
}

TEST(SessionFuse, PlacesBesideFloatsAreNoFloats) {
  const auto ops = check(R"(<ir_version: 8, opset_import: ["" : 18]> g (float[1,1,4,4] x) => (int64 y) {
      p, i = MaxPool <kernel_shape = [2, 2]> (x)  a = Abs (i)  b = Add (a, i)  y = Neg (b) })",
                         {}, {{"x", noise_tensor({1, 1, 4, 4}, 8)}});
  EXPECT_EQ(count(ops, "Elementwise"), 0u);
}

TEST(SessionFuse, ValuesThatOthersReadStay) {
  const auto ops = check(R"(<ir_version: 8, opset_import: ["" : 18]> g (float[4] x) => (float a, float y, float[2] z) {
      a = Add (x, x)  b = Mul (a, x)  c = Neg (b)  y = Sub (c, b)  t = Exp (b)  z = Gather (t, i) })",
                         {}, {{"x", noise_tensor({4}, 8)}, {"i", test::ints({2}, {3, 0})}});
  EXPECT_EQ(count(ops, "Elementwise"), 1u);
  EXPECT_EQ(count(ops, "Exp"), 1u);
}

TEST(SessionAttention, AllOrdersMasksAndScales) {
  // [batch, sequence, heads, size] brought to heads first, K by two transposes or by one, or given as it is; the result brought back or
  // not.
  const char* bodies[] = {
      "q = Transpose <perm = [0,2,1,3]> (x) k0 = Transpose <perm = [0,2,1,3]> (z) k = Transpose <perm = [0,1,3,2]> (k0) v = Transpose "
      "<perm = [0,2,1,3]> (u) "
      "s = MatMul (q, k) t = Mul (s, half) m = Add (t, mask) p = Softmax (m) o = MatMul (p, v) y = Transpose <perm = [0,2,1,3]> (o)",
      "q = Transpose <perm = [0,2,1,3]> (x) k = Transpose <perm = [0,2,3,1]> (z) v = Transpose <perm = [0,2,1,3]> (u) "
      "s = MatMul (q, k) t = Div (s, half) m = Add (row, t) p = Softmax <axis = 3> (m) y = MatMul (p, v)",
      "k = Transpose <perm = [0,1,3,2]> (z) s = MatMul (x, k) p = Softmax (s) y = MatMul (p, u)",
  };
  for (std::int64_t length : {3, 130}) {
    const Shape last{2, length, 5, 8};
    std::size_t i = 0;
    for (const char* body : bodies) {
      SCOPED_TRACE(body);
      const Shape keys = ++i == 3 ? Shape{2, length, 7, 8} : Shape{2, length + 2, 5, 8};
      const auto ops = check(
          fmt::format(
              R"(<ir_version: 8, opset_import: ["" : 18]> g (float[A,B,C,D] x, float[A,E,C,D] z, float[A,E,C,F] u) => (float y) {{ {} }})",
              body),
          {{"mask", {2, 1, length, length + 2}}, {"row", {length + 2}}},
          {{"x", noise_tensor(last, 3)}, {"z", noise_tensor(keys, 4)}, {"u", noise_tensor(keys, 5)}, {"half", test::floats({}, {0.5f})}});
      EXPECT_EQ(ops, std::vector<std::string>{"Attention"});
    }
  }
}

// com.microsoft's product scales and transposes by itself.
TEST(SessionAttention, FusedProducts) {
  constexpr const char* kText =
      R"(<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]> g (float[A,B,C,D] x, float[A,E,C,D] z, float[A,E,C,F] u) => (float y) {{ {} }})";
  const char* bodies[] = {
      "q = Transpose <perm = [0,2,1,3]> (x) k = Transpose <perm = [0,2,1,3]> (z) v = Transpose <perm = [0,2,1,3]> (u) "
      "s = com.microsoft.FusedMatMul <alpha = 0.3, transB = 1> (q, k) m = Add (s, row) p = Softmax (m) o = MatMul (p, v) "
      "y = Transpose <perm = [0,2,1,3]> (o)",
      "q = Transpose <perm = [0,2,1,3]> (x) k = Transpose <perm = [0,2,3,1]> (z) v = Transpose <perm = [0,2,1,3]> (u) "
      "s = com.microsoft.FusedMatMul <alpha = -2.0> (q, k) p = Softmax (s) y = MatMul (p, v)",
      "s = com.microsoft.FusedMatMul <transB = 1> (x, z) p = Softmax (s) y = MatMul (p, u)",
  };
  for (std::size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(bodies[i]);
    const Shape keys = i == 2 ? Shape{2, 21, 7, 8} : Shape{2, 23, 5, 8};
    const auto ops = check(fmt::format(fmt::runtime(kText), bodies[i]), {{"row", {23}}},
                           {{"x", noise_tensor({2, 21, 5, 8}, 3)}, {"z", noise_tensor(keys, 4)}, {"u", noise_tensor(keys, 5)}});
    EXPECT_EQ(ops, std::vector<std::string>{"Attention"});
  }
  // V is broadcast: one operator after another. Q is transposed by the product: not ours.
  check(
      R"(<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]> g (float[B,S,D] x, float[B,T,D] z, float[T,D] u) => (float y) { s = com.microsoft.FusedMatMul <alpha = 0.7, transB = 1> (x, z) p = Softmax (s) y = MatMul (p, u) })",
      {}, {{"x", noise_tensor({3, 4, 6}, 3)}, {"z", noise_tensor({3, 5, 6}, 4)}, {"u", noise_tensor({5, 6}, 5)}});
  const auto ops = check(
      R"(<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]> g (float[B,D,S] x, float[B,T,D] z, float[B,T,D] u) => (float y) { s = com.microsoft.FusedMatMul <transA = 1, transB = 1> (x, z) p = Softmax (s) y = MatMul (p, u) })",
      {}, {{"x", noise_tensor({3, 6, 4}, 3)}, {"z", noise_tensor({3, 5, 6}, 4)}, {"u", noise_tensor({3, 5, 6}, 5)}});
  EXPECT_EQ(count(ops, "Attention"), 0u);
}

TEST(SessionAttention, OtherShapesAndReadersAreRespected) {
  // Rank 3; K given transposed.
  auto ops = check(
      R"(<ir_version: 8, opset_import: ["" : 18]> g (float[B,S,D] x, float[B,D,T] z, float[B,T,D] u) => (float y) { s = MatMul (x, z) p = Softmax (s) y = MatMul (p, u) })",
      {}, {{"x", noise_tensor({3, 4, 6}, 3)}, {"z", noise_tensor({3, 6, 5}, 4)}, {"u", noise_tensor({3, 5, 6}, 5)}});
  EXPECT_EQ(ops, std::vector<std::string>{"Attention"});
  // V is broadcast over the batch; the softmax goes over the queries; ranks of 2: one operator after another.
  check(
      R"(<ir_version: 8, opset_import: ["" : 18]> g (float[B,S,D] x, float[B,D,T] z, float[T,D] u) => (float y) { s = MatMul (x, z) p = Softmax (s) y = MatMul (p, u) })",
      {}, {{"x", noise_tensor({3, 4, 6}, 3)}, {"z", noise_tensor({3, 6, 5}, 4)}, {"u", noise_tensor({5, 6}, 5)}});
  check(
      R"(<ir_version: 8, opset_import: ["" : 18]> g (float[B,S,D] x, float[B,D,T] z, float[B,T,D] u) => (float y) { s = MatMul (x, z) p = Softmax <axis = 1> (s) y = MatMul (p, u) })",
      {}, {{"x", noise_tensor({3, 4, 6}, 3)}, {"z", noise_tensor({3, 6, 5}, 4)}, {"u", noise_tensor({3, 5, 6}, 5)}});
  check(
      R"(<ir_version: 8, opset_import: ["" : 18]> g (float[S,D] x, float[D,T] z, float[T,D] u) => (float y) { s = MatMul (x, z) p = Softmax (s) y = MatMul (p, u) })",
      {}, {{"x", noise_tensor({4, 6}, 3)}, {"z", noise_tensor({6, 5}, 4)}, {"u", noise_tensor({5, 6}, 5)}});
  // The probabilities are an output.
  ops = check(
      R"(<ir_version: 8, opset_import: ["" : 18]> g (float[B,S,D] x, float[B,D,T] z, float[B,T,D] u) => (float y, float p) { s = MatMul (x, z) p = Softmax (s) y = MatMul (p, u) })",
      {}, {{"x", noise_tensor({3, 4, 6}, 3)}, {"z", noise_tensor({3, 6, 5}, 4)}, {"u", noise_tensor({3, 5, 6}, 5)}});
  EXPECT_EQ(count(ops, "Attention"), 0u);
}

TEST(SessionFold, ConstantsAndIdentitiesGo) {
  const auto ops = check(R"(<ir_version: 8, opset_import: ["" : 18]> g (float[2,3] x) => (float y) {
      t = Transpose <perm = [1,0]> (w)  i = Identity (t)  j = Identity (x)  m = MatMul (j, i)  k = Identity (m)  y = Softmax (k) })",
                         {{"w", {4, 3}}}, {{"x", noise_tensor({2, 3}, 8)}});
  EXPECT_EQ(ops, (std::vector<std::string>{"MatMul", "Softmax"}));
}

TEST(SessionFold, OnlyCastsOfKnownFloatsGo) {
  const auto ops = check(R"(<ir_version: 8, opset_import: ["" : 18]> g (float[2,3] x, int64[3] n) => (float y, float z) {
      e = Exp (x)  c = Cast <to = 1> (e)  s = Softmax (c)  y = Cast <to = 1> (s)  d = Cast <to = 1> (n)  z = Neg (d) })",
                         {}, {{"x", noise_tensor({2, 3}, 8)}, {"n", test::ints({3}, {1, 2, 3})}});
  EXPECT_EQ(count(ops, "Cast"), 2u);
}

TEST(SessionGraph, OperatorsOfTheSessionCannotBeNamed) {
  for (const char* op : {"Conv (x, x)", "Elementwise <program = [0, 7, 9]> (x)", "MaxPool (x)"}) {
    absl::StatusOr<Model> model = parse_model_text(
        fmt::format(
            R"(<ir_version: 8, opset_import: ["" : 18, "saturate.session" : 1]> g (float[2] x) => (float y) {{ y = saturate.session.{} }})",
            op),
        "test");
    ASSERT_TRUE(model.ok()) << model.status();
    const absl::StatusOr<Session> session = Session::create(*model);
    ASSERT_FALSE(session.ok());
    EXPECT_EQ(session.status().code(), absl::StatusCode::kUnimplemented);
  }
}

// A transposed weight too big to fold (an embedding that is the output layer, too) is packed as it lies, not transposed at every run.
TEST(SessionGraph, BigTransposedWeights) {
  const auto operators = check(
      "<ir_version: 8, opset_import: [\"\" : 17]> g (float[2,3,65] x) => (float[2,3,N] y) { t = Transpose <perm = [1,0]> (w) y = MatMul "
      "(x, t) }",
      {{"w", {70000, 65}}}, {{"x", noise_tensor({2, 3, 65}, 3)}});
  EXPECT_EQ(operators, std::vector<std::string>{"FusedMatMul"});
}

}  // namespace
}  // namespace saturate
