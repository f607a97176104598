#include "onnx_bridge/model/subgraphs.h"

#include <gtest/gtest.h>

#include "tests/nodes.h"

namespace saturate {
namespace {

Tensor numbers(float first, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count), first);
  return Tensor::of<float>(DType::kFloat, {count}, values);
}

Graph body(const std::string& weight, const Tensor& value, const std::string& output) {
  Graph g;
  g.initializers.push_back({weight, value, nullptr, false});
  g.nodes.push_back(node("Mul", {"x", weight}, {output}));
  g.outputs.push_back({output, {}, nullptr});
  return g;
}

// If with two bodies, each with a weight of its own.
Graph choice(const Tensor& left, const Tensor& right) {
  Graph g;
  g.inputs.push_back({"x", {}, nullptr});
  g.inputs.push_back({"c", {}, nullptr});
  Node n = node("If", {"c"}, {"y"});
  for (auto& [name, graph] : {std::pair("then_branch", body("a", left, "t")), std::pair("else_branch", body("b", right, "e"))}) {
    Attribute a;
    a.name = name;
    a.type = AttributeType::kGraph;
    a.value = std::make_shared<const Graph>(graph);
    n.attributes.push_back(std::move(a));
  }
  g.nodes.push_back(std::move(n));
  g.outputs.push_back({"y", {}, nullptr});
  return g;
}

const Graph& branch(const Graph& g, std::size_t i) { return g.nodes[0].attributes[i].g(); }

TEST(Captures, WhatBodiesHoldAlikeBecomesTheMainGraphs) {
  Graph g = choice(numbers(1, 100), numbers(1, 100));
  std::unordered_set<std::string> names{"x", "c", "y", "a", "b", "t", "e"};
  share_initializers(g, {}, names);
  ASSERT_EQ(g.initializers.size(), 1u);
  const std::string& shared = g.initializers[0].name;
  EXPECT_FALSE(std::unordered_set<std::string>({"x", "c", "y", "a", "b", "t", "e"}).contains(shared));
  EXPECT_TRUE(names.contains(shared));
  for (std::size_t i : {0, 1}) {
    EXPECT_TRUE(branch(g, i).initializers.empty());
    EXPECT_EQ(branch(g, i).nodes[0].inputs[1], shared);
  }
}

TEST(Captures, OthersStayWhereTheyAre) {
  std::unordered_set<std::string> names;
  Graph different = choice(numbers(1, 100), numbers(2, 100));
  Graph small = choice(numbers(1, 2), numbers(1, 2));
  Graph given = choice(numbers(1, 100), numbers(1, 100));
  share_initializers(different, {}, names);
  share_initializers(small, {}, names);
  share_initializers(given, {"a", "b"}, names);
  for (const Graph* g : {&different, &small, &given}) {
    EXPECT_TRUE(g->initializers.empty());
    EXPECT_EQ(branch(*g, 0).initializers.size() + branch(*g, 1).initializers.size(), 2u);
  }
}

TEST(Captures, OneOfTheMainGraphServesUnlessItsCallersMayOverrideIt) {
  for (const bool overridable : {false, true}) {
    Graph g = choice(numbers(1, 100), numbers(2, 100));
    g.initializers.push_back({"w", numbers(1, 100), nullptr, false});
    if (overridable) g.inputs.push_back({"w", {}, nullptr});
    std::unordered_set<std::string> names;
    share_initializers(g, initializer_names(Graph{}), names);
    EXPECT_EQ(g.initializers.size(), 1u);
    EXPECT_EQ(branch(g, 0).nodes[0].inputs[1], overridable ? "a" : "w");
    EXPECT_EQ(branch(g, 1).nodes[0].inputs[1], "b");
  }
}

TEST(Captures, UnreadNodesAndInitializersAreErased) {
  Graph g = choice(numbers(1, 1), numbers(1, 1));
  g.nodes.insert(g.nodes.begin(), node("Neg", {"w"}, {"x"}));           // read by the bodies
  g.nodes.insert(g.nodes.begin(), node("Relu", {"dead"}, {"unread"}));  // by nothing
  for (const char* name : {"w", "dead", "kept"}) g.initializers.push_back({name, numbers(1, 1), nullptr, false});
  erase_unread(g, {"kept"});
  ASSERT_EQ(g.nodes.size(), 2u);
  EXPECT_EQ(g.nodes[0].op_type, "Neg");
  ASSERT_EQ(g.initializers.size(), 2u);
  EXPECT_EQ(g.initializers[0].name, "w");
  EXPECT_EQ(g.initializers[1].name, "kept");
  EXPECT_EQ(initializer_names(g), (std::unordered_set<std::string>{"w", "kept", "a", "b"}));
}

}  // namespace
}  // namespace saturate
