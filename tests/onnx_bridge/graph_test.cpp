#include <gtest/gtest.h>

#include "onnx_bridge/file/io.h"
#include "onnx_bridge/graph/graph_view.h"
#include "onnx_bridge/graph/names.h"
#include "onnx_bridge/model/node_order.h"

namespace saturate {
namespace {

// `b` is read twice by one node, by a body, and is an output; the Split's first result has no name.
Model example() {
  auto model = parse_model_text(R"(<ir_version: 10, opset_import: ["" : 20]>
g (float[4] x, bool c) => (float[4] b, float[4] y, float[2] d) <int64[1] two = {2}> {
  a = Abs (x)
  b = Relu (a)
  s = Add (b, b)
  , d = Split <num_outputs = 2> (s)
  y = If (c) <then_branch = t () => (float[4] u) { v = Mul (b, s) u = Neg (v) }, else_branch = e () => (float[4] u) { u = Identity (a) }>
}
)",
                                "test");
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

TEST(GraphView, TellsWhoMakesAValue) {
  const Model model = example();
  const GraphView view(model.graph);
  for (const Node& node : model.graph.nodes)
    for (const std::string& output : node.outputs) {
      EXPECT_EQ(view.producer(output), output.empty() ? nullptr : &node) << output;
      EXPECT_EQ(producer_of(model.graph, output), view.producer(output)) << output;
    }
  for (const char* value : {"x", "two", "", "v", "nowhere"}) {
    EXPECT_EQ(view.producer(value), nullptr) << value;
    EXPECT_EQ(producer_of(model.graph, value), nullptr) << value;
  }
}

TEST(GraphView, TellsWhoReadsAValue) {
  const Model model = example();
  const GraphView view(model.graph);
  const Node& sum = *view.producer("s");
  const std::vector<GraphView::Use> twice{{&sum, 0}, {&sum, 1}};
  EXPECT_EQ(std::vector(view.uses("b").begin(), view.uses("b").end()), twice);
  EXPECT_EQ(view.uses("x").size(), 1u);
  for (const char* value : {"two", "y", "", "v", "nowhere"}) EXPECT_TRUE(view.uses(value).empty()) << value;
  for (const char* value : {"a", "b", "s"}) EXPECT_TRUE(view.is_read_by_body(value)) << value;
  for (const char* value : {"x", "c", "v", "u", ""}) EXPECT_FALSE(view.is_read_by_body(value)) << value;
  EXPECT_TRUE(view.is_output("b") && view.is_output("d") && !view.is_output("a") && !view.is_output(""));
  EXPECT_EQ(view.place_of(sum), 2u);
}

TEST(GraphNames, WhatANodeReadsHasWhatItsBodiesTake) {
  const Model model = example();
  EXPECT_EQ(names_read(*producer_of(model.graph, "y")), (std::vector<std::string>{"c", "b", "s", "a"}));
  EXPECT_EQ(names_read(*producer_of(model.graph, "s")), (std::vector<std::string>{"b", "b"}));
  EXPECT_TRUE(reads(*producer_of(model.graph, "y"), "s") && !reads(*producer_of(model.graph, "y"), "v"));
}

TEST(GraphNames, FreshOnesAreThoseOfNoValueNotEvenOfBodies) {
  const Model model = example();
  FreshNames fresh(model.graph);
  EXPECT_EQ(fresh("new"), "new");
  EXPECT_EQ(fresh("new"), "new_1");
  EXPECT_EQ(fresh("v"), "v_1");  // of a body
  EXPECT_TRUE(fresh.taken("two") && !fresh.taken("new_2"));
}

// A body's own value gives way where the new name would fall onto it.
TEST(GraphNames, RenamingReachesBodiesAndHidesNothing) {
  Model model = example();
  FreshNames fresh(model.graph);
  rename_values(model.graph, {{"b", "w"}, {"s", "sum"}}, fresh);
  EXPECT_EQ(model.graph.outputs[0].name, "w");
  EXPECT_EQ(names_read(*producer_of(model.graph, "y")), (std::vector<std::string>{"c", "w", "sum", "a"}));
  rename_values(model.graph, {{"w", "u"}}, fresh);
  const auto captured = names_read(*producer_of(model.graph, "y"));
  EXPECT_EQ(captured, (std::vector<std::string>{"c", "u", "sum", "a"}));
}

}  // namespace
}  // namespace saturate
