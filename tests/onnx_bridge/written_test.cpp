#include "onnx_bridge/file/written.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "onnx_bridge/file/io.h"
#include "onnx_bridge/model/subgraphs.h"
#include "tests/nodes.h"

namespace saturate {
namespace {

Node named(const std::string& name, Node n) {
  n.name = name;
  return n;
}

Model of(std::vector<Node> nodes) {
  Model model;
  model.opset_imports[""] = 18;
  model.graph.name = "g";
  for (const char* name : {"x", "c"}) model.graph.inputs.push_back({name, {}, nullptr});
  model.graph.outputs.push_back({"y", {}, nullptr});
  model.graph.nodes = std::move(nodes);
  return model;
}

Node choice(std::vector<Node> nodes, const std::string& output) {
  Graph body;
  body.name = "b";
  body.nodes = std::move(nodes);
  body.outputs.push_back({output, {}, nullptr});
  Node n = node("If", {"c"}, {"z"});
  for (const char* name : {"then_branch", "else_branch"}) {
    Attribute& a = n.attributes.emplace_back();
    a.name = name;
    a.type = AttributeType::kGraph;
    a.value = std::make_shared<const Graph>(body);
  }
  return n;
}

Model mended(const Model& model) {
  const auto ready = ready_to_write(model);
  EXPECT_TRUE(ready.ok()) << ready.status();
  return ready.ok() && *ready ? **ready : model;
}

TEST(ReadyToWrite, LeavesAloneWhatIsReady) {
  const Model model =
      of({named("n", node("Relu", {"x"}, {"a"})), named("", node("Relu", {"a"}, {"b"})), named("", node("Relu", {"b"}, {"y"}))});
  const auto ready = ready_to_write(model);
  ASSERT_TRUE(ready.ok());
  EXPECT_FALSE(*ready);
}

TEST(ReadyToWrite, NamesNodesApart) {
  const Model out = mended(
      of({named("n", node("Relu", {"x"}, {"a"})), named("n", node("Relu", {"a"}, {"b"})), named("n_1", node("Relu", {"b"}, {"y"}))}));
  EXPECT_EQ(out.graph.nodes[0].name, "n");
  EXPECT_EQ(out.graph.nodes[1].name, "n_2");
  EXPECT_EQ(out.graph.nodes[2].name, "n_1");
}

TEST(ReadyToWrite, NamesNodesOfBodiesAndFunctionsApart) {
  Model model =
      of({named("n", node("Relu", {"x"}, {"a"})),
          choice({named("m", node("Relu", {"a"}, {"q"})), named("m", node("Relu", {"q"}, {"t"}))}, "t"), node("Relu", {"z"}, {"y"})});
  Function& f = model.functions.emplace_back();
  f.name = "F";
  f.inputs = {"i"};
  f.outputs = {"o"};
  f.nodes = {named("k", node("Relu", {"i"}, {"p"})), named("k", node("Relu", {"p"}, {"o"}))};
  const Model out = mended(model);
  for_each_body(out.graph.nodes[1], [](const Graph& body) { EXPECT_NE(body.nodes[0].name, body.nodes[1].name); });
  EXPECT_NE(out.functions[0].nodes[0].name, out.functions[0].nodes[1].name);
}

TEST(ReadyToWrite, SortsNodes) {
  const Model out = mended(of({node("Neg", {"a"}, {"y"}), node("Relu", {"x"}, {"a"})}));
  EXPECT_EQ(out.graph.nodes[0].op_type, "Relu");
}

// A body whose value is called as one around it; what the body's own body reads is the nearest.
TEST(ReadyToWrite, MovesValuesOfBodiesApart) {
  Node inner = choice({node("Neg", {"a"}, {"t"})}, "t");
  inner.outputs = {"w"};
  const Model out = mended(of({node("Relu", {"x"}, {"a"}), choice({node("Sin", {"x"}, {"a"}), inner, node("Add", {"a", "w"}, {"v"})}, "v"),
                               node("Add", {"a", "z"}, {"y"})}));
  for_each_body(out.graph.nodes[1], [](const Graph& body) {
    const std::string moved = body.nodes[0].outputs[0];
    EXPECT_NE(moved, "a");
    EXPECT_EQ(body.nodes[2].inputs[0], moved);
    for_each_body(body.nodes[1], [&](const Graph& deep) { EXPECT_EQ(deep.nodes[0].inputs[0], moved); });
  });
  EXPECT_EQ(out.graph.nodes[2].inputs[0], "a");
}

TEST(ReadyToWrite, RefusesWhatNoRuntimeTakes) {
  for (const Model& model :
       {of({node("Relu", {"x"}, {"y"}), node("Neg", {"x"}, {"y"})}), of({node("Relu", {"x"}, {"x"}), node("Relu", {"x"}, {"y"})}),
        of({node("Relu", {"nothing"}, {"y"})}), of({node("Relu", {"x"}, {"a"})}), of({node("Add", {"x", "y"}, {"y"})})}) {
    const auto path = std::filesystem::temp_directory_path() / "saturate_written_test.onnx";
    std::filesystem::remove(path);
    EXPECT_EQ(ready_to_write(model).status().code(), absl::StatusCode::kInternal);
    EXPECT_TRUE(writing_fault(model));
    EXPECT_EQ(serialize_model(model).status().code(), absl::StatusCode::kInternal);
    EXPECT_EQ(save_model(model, path.string()).code(), absl::StatusCode::kInternal);
    EXPECT_FALSE(std::filesystem::exists(path));
  }
}

}  // namespace
}  // namespace saturate
