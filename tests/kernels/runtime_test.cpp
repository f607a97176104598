#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "kernel_test_util.h"

namespace saturate {
namespace {

using test::floats;
using test::session_of;

TEST(Runtime, RunsAGraphInOrderAndFreesValues) {
  SessionOptions as_it_is;
  as_it_is.prepare = false;
  const Session s = session_of(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x) => (float[2] y) { a = Add (x, x)  b = Mul (a, x)  y = Sub (b, a) })",
                               as_it_is);
  std::vector<NodeTiming> timings;
  const auto out = s.run({{"x", floats({2}, {3, -1})}}, &timings);
  ASSERT_TRUE(out.ok()) << out.status();
  test::expect_near((*out)[0].tensor(), floats({2}, {12, 4}));
  ASSERT_EQ(timings.size(), 3u);
  EXPECT_EQ(timings[1].op_type, "Mul");
}

TEST(Runtime, RunsTheSameSessionTwiceWithOtherSizes) {
  const Session s = session_of(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] y) { y = Add (x, x) })");
  for (std::size_t n : {1u, 5u, 0u}) {
    const auto out = s.run({{"x", floats({static_cast<std::int64_t>(n)}, std::vector<float>(n, 1.5f))}});
    ASSERT_TRUE(out.ok()) << out.status();
    test::expect_near((*out)[0].tensor(), floats({static_cast<std::int64_t>(n)}, std::vector<float>(n, 3.0f)));
  }
}

TEST(Runtime, SubgraphsSeeOuterValuesAndNestedOnes) {
  const Session s = session_of(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (bool c, float[1] x) => (float[1] y) {
      t = Add (x, x)
      y = If (c) <then_branch = th () => (float[1] a) { a = If (c) <then_branch = in () => (float[1] q) { q = Mul (t, x) }, else_branch = in2 () => (float[1] q2) { q2 = Identity (x) }> },
                  else_branch = el () => (float[1] b) { b = Neg (t) }>
    })");
  auto out = s.run({{"c", test::make<bool>({}, {true})}, {"x", floats({1}, {3})}});
  ASSERT_TRUE(out.ok()) << out.status();
  test::expect_near((*out)[0].tensor(), floats({1}, {18}));
  out = s.run({{"c", test::make<bool>({}, {false})}, {"x", floats({1}, {3})}});
  ASSERT_TRUE(out.ok()) << out.status();
  test::expect_near((*out)[0].tensor(), floats({1}, {-6}));
}

TEST(Runtime, LocalFunctionsTakeAttributesAndDefaults) {
  Model model;
  model.opset_imports = {{"", 17}, {"local", 1}};
  Function f;
  f.domain = "local";
  f.name = "Leaky";
  f.inputs = {"X"};
  f.outputs = {"Y"};
  f.attribute_defaults = {Attribute::of("slope", 0.5f)};
  f.opset_imports = {{"", 17}};
  Node inner;
  inner.op_type = "LeakyRelu";
  inner.inputs = {"X"};
  inner.outputs = {"Y"};
  Attribute alpha;
  alpha.name = "alpha";
  alpha.type = AttributeType::kFloat;
  alpha.ref = "slope";
  inner.attributes = {alpha};
  f.nodes = {inner};
  model.functions = {f};
  Node call;
  call.domain = "local";
  call.op_type = "Leaky";
  call.inputs = {"x"};
  call.outputs = {"a"};
  Node with = call;
  with.inputs = {"a"};
  with.outputs = {"y"};
  with.attributes = {Attribute::of("slope", 0.25f)};
  model.graph.inputs = {{"x", {}, nullptr}};
  model.graph.outputs = {{"y", {}, nullptr}};
  model.graph.nodes = {with, call};  // out of order on purpose
  absl::StatusOr<Session> session = Session::create(model);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto out = session->run({{"x", floats({2}, {-8, 8})}});
  ASSERT_TRUE(out.ok()) << out.status();
  test::expect_near((*out)[0].tensor(), floats({2}, {-1, 8}));
}

TEST(Runtime, ErrorsNameNodeAndOperator) {
  Model model;
  model.opset_imports = {{"", 17}};
  Node node;
  node.name = "strange";
  node.op_type = "NoSuchOperator";
  node.inputs = {"x"};
  node.outputs = {"y"};
  model.graph.inputs = {{"x", {}, nullptr}};
  model.graph.outputs = {{"y", {}, nullptr}};
  model.graph.nodes = {node};
  const absl::StatusOr<Session> session = Session::create(model);
  ASSERT_EQ(session.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(std::string(session.status().message()).find("NoSuchOperator 'strange'"), std::string::npos) << session.status();
}

TEST(Runtime, MissingAndWrongInputsAreRefused) {
  const Session s = session_of(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Neg (x) })");
  EXPECT_EQ(s.run({}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(s.run({{"x", floats({3}, {1, 2, 3})}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(s.run({{"x", test::ints({2}, {1, 2})}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(s.run({{"x", floats({2}, {1, 2})}, {"z", floats({2}, {1, 2})}}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Runtime, AMemoryLimitStopsBombs) {
  SessionOptions options;
  options.memory_limit = 1 << 20;
  const Session s =
      session_of(R"(<ir_version: 8, opset_import: ["" : 17]> g (int64[2] d) => (float[A, B] y) { y = ConstantOfShape (d) })", options);
  EXPECT_FALSE(s.run({{"d", test::ints({2}, {100000, 100000})}}).ok());
  EXPECT_TRUE(s.run({{"d", test::ints({2}, {10, 10})}}).ok());
}

// Each fits, all together do not; what is free again does not count.
TEST(Runtime, TheSumOfARunsTensorsIsBounded) {
  SessionOptions options;
  options.prepare = false;  // a fused pass makes fewer
  const Session s = session_of(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[1] x, int64[1] d) => (float[N] y) {
    a = Expand (x, d) b = Exp (a) c = Sin (a) e = Add (b, c) f = Cos (e) y = Neg (f) })",
                               options);
  const std::map<std::string, Value> inputs{{"x", floats({1}, {1})}, {"d", test::ints({1}, {1000})}};
  EXPECT_EQ(s.run(inputs, nullptr, {.memory = 7'000}).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(s.run(inputs, nullptr, {.memory = 13'000}).ok());
  EXPECT_TRUE(s.run(inputs).ok());
}

TEST(Runtime, ADeadlineEndsARunningKernel) {
  const Session s = session_of(
      R"(<ir_version: 8, opset_import: ["" : 17]> g (float x) => (float y) {
    r = RandomNormal <shape = [20, 1000000]> () m = ReduceMax <keepdims = 0> (r) y = Add (x, m) })");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(s.run({{"x", floats({}, {1})}}, nullptr, {.deadline = steady_seconds() + 0.05}).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
}

TEST(Runtime, EvaluationIsBounded) {
  Node node;
  node.op_type = "ConstantOfShape";
  node.inputs = {"s"};
  node.outputs = {"y"};
  const std::vector<Value> shape{test::ints({1}, {1000})};
  const auto evaluator = make_evaluator({.memory = 6'000});
  auto first = evaluator->evaluate(node, 17, shape);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(evaluator->evaluate(node, 17, shape).status().code(), absl::StatusCode::kResourceExhausted);  // the first is still there
  first = std::vector<Value>();
  EXPECT_TRUE(evaluator->evaluate(node, 17, shape).ok());
}

TEST(Runtime, ALoopThatGoesOnIsCancelled) {
  std::atomic<bool> cancel = false;
  SessionOptions options;
  options.cancel = &cancel;
  const Session session = session_of(R"(<ir_version: 8, opset_import: ["" : 17]> g (int64 n, float x) => (float y) {
    y = Loop (n, , x) <body = b (int64 i, bool c, float v) => (bool d, float w) { d = Identity (c)  w = Cos (v) }> })",
                                     options);
  const std::map<std::string, Value> inputs{{"n", test::make<std::int64_t>({}, {4'000'000})}, {"x", floats({}, {1})}};
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancel = true;
  });
  const auto result = session.run(inputs);
  canceller.join();
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled) << result.status();
}

TEST(Runtime, CheckFiniteNamesTheNode) {
  SessionOptions options;
  options.check_finite = true;
  const Session s =
      session_of(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[1] x) => (float[1] y) { a = Log (x)  y = Neg (a) })", options);
  const auto out = s.run({{"x", floats({1}, {0})}});
  ASSERT_FALSE(out.ok());
  EXPECT_NE(std::string(out.status().message()).find("Log"), std::string::npos);
}

TEST(Runtime, ManyThreadsGiveTheSameResult) {
  SessionOptions two;
  two.threads = 2;
  const std::string text =
      R"(<ir_version: 8, opset_import: ["" : 17]> g (float[64, 96] x, float[96, 200] w) => (float[64, 200] y) { a = MatMul (x, w)  y = Softmax (a) })";
  const Session one = session_of(text), parallel = session_of(text, two);
  const std::map<std::string, Value> inputs{{"x", test::noise_tensor({64, 96}, 1)}, {"w", test::noise_tensor({96, 200}, 2)}};
  const auto a = one.run(inputs), b = parallel.run(inputs);
  ASSERT_TRUE(a.ok() && b.ok());
  test::expect_near((*b)[0].tensor(), (*a)[0].tensor(), 0);
}

// Threads share out tiles: parts of panels, whole panels, parts of blocks of rows.
TEST(Runtime, ProductsOfAllSizesAreTheSameOnManyThreads) {
  const std::int64_t sizes[][3] = {{1, 900, 700},   {5, 400, 640},  {49, 960, 160}, {64, 300, 64},
                                   {300, 200, 130}, {700, 80, 200}, {1300, 70, 100}};
  for (const auto& [m, k, n] : sizes) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", m, k, n));
    const std::string text = fmt::format(
        "<ir_version: 8, opset_import: [\"\" : 17]> g (float[{0}, {1}] x, float[{1}, {2}] w) => (float[{0}, {2}] y) {{ y = MatMul (x, w) "
        "}}",
        m, k, n);
    const std::map<std::string, Value> inputs{{"x", test::noise_tensor({m, k}, 1)}, {"w", test::noise_tensor({k, n}, 2)}};
    const auto want = session_of(text).run(inputs);
    ASSERT_TRUE(want.ok());
    for (int threads : {2, 3}) {
      SessionOptions options;
      options.threads = threads;
      const auto got = session_of(text, options).run(inputs);
      ASSERT_TRUE(got.ok());
      test::expect_near((*got)[0].tensor(), (*want)[0].tensor(), 0);
    }
  }
}

TEST(Numeric, HalfRoundsToNearestEvenOverItsWholeRange) {
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto h = static_cast<std::uint16_t>(bits);
    const float x = half_bits_to_float(h), next = half_bits_to_float(static_cast<std::uint16_t>(h + 1));
    EXPECT_EQ(float_to_half_bits(x), h);
    if (bits == 0x7bff) continue;
    const float middle = x + (next - x) / 2;
    EXPECT_EQ(float_to_half_bits(middle), h % 2 == 0 ? h : h + 1) << "between " << x << " and " << next;
    EXPECT_EQ(float_to_half_bits(std::nextafter(middle, next)), h + 1);
  }
  EXPECT_EQ(Half(65520.0).bits, 0x7c00);
  EXPECT_EQ(Half(65519.0).bits, 0x7bff);
  EXPECT_TRUE(std::isnan(static_cast<float>(Half(std::numeric_limits<float>::quiet_NaN()))));
  // A double just above the middle of two halves must not be rounded twice.
  EXPECT_EQ(Half(1.0 + 0x1p-11 + 0x1p-40).bits, 0x3c01);
  EXPECT_EQ(BFloat16(1.0 + 0x1p-8 + 0x1p-40).bits, 0x3f81);
}

// Of all halves, and of floats of every size, at an address that no type has.
TEST(Numeric, ArraysAreConvertedAsTheirElements) {
  std::vector<std::byte> bytes(65536 * sizeof(float) + 1);
  std::vector<float> floats(65536);
  std::vector<Half> halves(65536);
  std::vector<BFloat16> brains(65536);
  const auto same = [](float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); };
  for (std::uint32_t i = 0; i < 65536; ++i) {
    halves[i].bits = brains[i].bits = static_cast<std::uint16_t>(i);
    floats[i] = std::bit_cast<float>(i * 65537u * 3u);
  }
  std::vector<float> made(65536);
  std::memcpy(bytes.data() + 1, halves.data(), 65536 * sizeof(Half));
  to_floats(reinterpret_cast<const Half*>(bytes.data() + 1), 65536, made.data());
  for (std::size_t i = 0; i < 65536; ++i) ASSERT_TRUE(same(made[i], half_bits_to_float(halves[i].bits))) << i;
  to_floats(brains.data(), 65536, made.data());
  for (std::size_t i = 0; i < 65536; ++i) ASSERT_TRUE(same(made[i], static_cast<float>(brains[i]))) << i;
  std::memcpy(bytes.data() + 1, floats.data(), 65536 * sizeof(float));
  from_floats(reinterpret_cast<const float*>(bytes.data() + 1), 65536, halves.data());
  from_floats(floats.data(), 65536, brains.data());
  for (std::size_t i = 0; i < 65536; ++i) {
    ASSERT_EQ(halves[i].bits, float_to_half_bits(floats[i])) << floats[i];
    ASSERT_EQ(brains[i].bits, float_to_bfloat16_bits(floats[i])) << floats[i];
  }
}

// The formulas without branches, beside what the numbers are.
TEST(Numeric, HalvesAreTheirNumbers) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto h = static_cast<std::uint16_t>(bits);
    Tensor one(DType::kFloat16, {1});
    store_bits(one, 0, h);
    const double want = *element_as_double(one, 0);
    const float got = half_bits_to_float(h);
    if (std::isnan(want))
      EXPECT_TRUE(std::isnan(got)) << bits;
    else
      EXPECT_EQ(static_cast<double>(got), want) << bits;
    EXPECT_EQ(float_to_half_bits(got), std::isnan(want) ? h | 0x200 : h) << bits;
  }
}

}  // namespace
}  // namespace saturate
