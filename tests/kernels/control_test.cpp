#include "kernel_test_util.h"

namespace saturate::test {
namespace {

absl::StatusOr<std::vector<Value>> run_text(const std::string& text, const std::map<std::string, Value>& inputs) {
  const auto model = parse_model_text(text, "test");
  if (!model.ok()) return model.status();
  const auto session = Session::create(*model);
  if (!session.ok()) return session.status();
  return session->run(inputs);
}

constexpr const char* kIf = R"(<ir_version: 8, opset_import: ["" : 16]>
g (bool c, float[N] x) => (float[N] y) {
  y = If (c) <then_branch = t () => (float[N] a) { a = Add (x, x) }, else_branch = e () => (float[N] b) { b = Neg (x) }>
})";

TEST(Control, IfRunsOneBranch) {
  const auto yes = run_text(kIf, {{"c", make<bool>({}, {true})}, {"x", floats({2}, {1, 2})}});
  ASSERT_TRUE(yes.ok()) << yes.status();
  expect_near((*yes)[0].tensor(), floats({2}, {2, 4}));
  const auto no = run_text(kIf, {{"c", make<bool>({}, {false})}, {"x", floats({2}, {1, 2})}});
  ASSERT_TRUE(no.ok()) << no.status();
  expect_near((*no)[0].tensor(), floats({2}, {-1, -2}));
}

constexpr const char* kLoop = R"(<ir_version: 8, opset_import: ["" : 16]>
g (int64 m, float[2] x, float limit) => (float[2] last, float[T, 2] all) {
  yes = Constant <value = bool {1}> ()
  last, all = Loop (m, yes, x) <body = b (int64 i, bool go, float[2] s) => (bool more, float[2] next, float[2] seen) {
    next = Add (s, x)
    seen = Identity (s)
    zero = Constant <value_int = 0> ()
    first = Gather (next, zero)
    more = Less (first, limit)
  }>
})";

TEST(Control, LoopStopsByCountAndByCondition) {
  const auto counted = run_text(kLoop, {{"m", ints({}, {3})}, {"x", floats({2}, {1, 10})}, {"limit", floats({}, {100})}});
  ASSERT_TRUE(counted.ok()) << counted.status();
  expect_near((*counted)[0].tensor(), floats({2}, {4, 40}));
  expect_near((*counted)[1].tensor(), floats({3, 2}, {1, 10, 2, 20, 3, 30}));
  const auto stopped = run_text(kLoop, {{"m", ints({}, {1000})}, {"x", floats({2}, {1, 10})}, {"limit", floats({}, {3})}});
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ((*stopped)[1].tensor().dims(), (Shape{2, 2}));
}

// A condition that never turns false must end in an error that names the node, not in a hang.
TEST(Control, EndlessLoopsAreStopped) {
  const auto model = parse_model_text(R"(<ir_version: 8, opset_import: ["" : 16]>
g (float[2] x) => (float[2] last) {
  yes = Constant <value = bool {1}> ()
  last = Loop (, yes, x) <body = b (int64 i, bool go, float[2] s) => (bool more, float[2] next) {
    more = Identity (go)
    next = Neg (s)
  }>
})",
                                      "test");
  ASSERT_TRUE(model.ok()) << model.status();
  SessionOptions options;
  options.most_graph_runs = 1000;
  const auto session = Session::create(*model, options);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto out = session->run({{"x", floats({2}, {1, 10})}});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(out.status().message()).find("Loop"), std::string::npos);
}

TEST(Control, LoopWithoutTurnsGivesEmptyScans) {
  const auto none = run_text(kLoop, {{"m", ints({}, {0})}, {"x", floats({2}, {1, 10})}, {"limit", floats({}, {3})}});
  ASSERT_TRUE(none.ok()) << none.status();
  expect_near((*none)[0].tensor(), floats({2}, {1, 10}));
  EXPECT_EQ((*none)[1].tensor().dims(), (Shape{0, 2}));
}

TEST(Control, LoopOutputsAreBoundedByMemory) {
  const auto model = parse_model_text(kLoop, "test");
  ASSERT_TRUE(model.ok()) << model.status();
  SessionOptions options;
  options.memory_limit = 1 << 16;
  const auto session = Session::create(*model, options);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto out = session->run({{"m", ints({}, {std::int64_t{1} << 40})}, {"x", floats({2}, {0, 0})}, {"limit", floats({}, {3})}});
  EXPECT_FALSE(out.ok());
}

TEST(Control, ScanWalksBackAndAlongAxes) {
  const char* text = R"(<ir_version: 8, opset_import: ["" : 16]>
g (float[2] x, float[2, 3] s) => (float[2] last, float[2, 3] sums) {
  last, sums = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [-1], scan_output_directions = [1],
    body = b (float[2] a, float[2] e) => (float[2] n, float[2] o) { n = Add (a, e) o = Identity (n) }> (x, s)
})";
  const auto out = run_text(text, {{"x", floats({2}, {0, 100})}, {"s", floats({2, 3}, {1, 2, 3, 4, 5, 6})}});
  ASSERT_TRUE(out.ok()) << out.status();
  expect_near((*out)[0].tensor(), floats({2}, {6, 115}));
  expect_near((*out)[1].tensor(), floats({2, 3}, {6, 5, 3, 115, 111, 106}));
}

TEST(Control, ScanOfVersion8HasABatch) {
  const char* text = R"(<ir_version: 8, opset_import: ["" : 8]>
g (int64[2] lengths, float[2, 1] x, float[2, 3, 1] s) => (float[2, 1] last, float[2, 3, 1] sums) {
  last, sums = Scan <num_scan_inputs = 1, body = b (float[1] a, float[1] e) => (float[1] n, float[1] o) { n = Add (a, e) o = Identity (n) }> (lengths, x, s)
})";
  const auto out =
      run_text(text, {{"lengths", ints({2}, {3, 1})}, {"x", floats({2, 1}, {0, 10})}, {"s", floats({2, 3, 1}, {1, 2, 3, 4, 5, 6})}});
  ASSERT_TRUE(out.ok()) << out.status();
  expect_near((*out)[0].tensor(), floats({2, 1}, {6, 14}));
  expect_near((*out)[1].tensor(), floats({2, 3, 1}, {1, 3, 6, 14, 0, 0}));
}

}  // namespace
}  // namespace saturate::test
