#include "tools/diff/diff.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "onnx_bridge/file/io.h"
#include "tools/diff/labels.h"
#include "tools/pipeline/pipeline.h"

namespace saturate {
namespace {

Model model_of(const std::string& body) {
  auto model = parse_model_text("<ir_version: 10, opset_import: [\"\" : 20]>\ng (float[n] x) => (float[n] y) {\n" + body + "\n}\n", "test");
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

ModelDiff diff_of(const std::string& first, const std::string& second) {
  auto diff = diff_models(model_of(first), model_of(second), {});
  EXPECT_TRUE(diff.ok()) << diff.status();
  return *std::move(diff);
}

TEST(Diff, RegionsLieBetweenCommonValues) {
  const ModelDiff diff = diff_of("a = Exp (x)\nb = Neg (a)\nc = Neg (b)\ny = Sin (c)", "a = Exp (x)\ny = Sin (a)");
  EXPECT_TRUE(diff.proven);
  ASSERT_EQ(diff.regions.size(), 1u);
  EXPECT_EQ(diff.regions[0].before.size(), 2u);
  EXPECT_TRUE(diff.regions[0].after.empty());
  EXPECT_EQ(diff.equal_nodes[0], 2u);
}

TEST(Diff, InnerNamesDoNotMatter) {
  EXPECT_TRUE(diff_of("a = Exp (x)\nb = Sin (x)\ny = Sub (a, b)", "b = Exp (x)\na = Sin (x)\ny = Sub (b, a)").equal());
}

TEST(Diff, ANameAloneIsNoMatch) {
  const ModelDiff diff = diff_of("h = Exp (x)\ny = Sin (h)", "h = Cos (x)\ny = Sin (h)");
  ASSERT_EQ(diff.regions.size(), 1u);
  EXPECT_TRUE(diff.regions[0].unproven);
  EXPECT_EQ(diff.regions[0].before.size() + diff.regions[0].after.size(), 4u);
}

TEST(Labels, FoldNumbers) {
  EXPECT_EQ(folded_names({"layer.0.out", "layer.1.out", "layer.2.out"}), "layer.{0..2}.out");
  EXPECT_EQ(folded_names({"layer.10.out", "layer.9.out"}), "layer.{9,10}.out");
  EXPECT_EQ(folded_names({"a.0.b.0", "a.1.b.1"}), "a.0.b.0 and 1 more");
  EXPECT_EQ(folded_names({"l.0.q", "l.0.k", "l.1.q", "l.1.k"}), "l.{0,1}.q and 2 more");
  EXPECT_EQ(folded_names({"a", "a"}), "a");
  EXPECT_EQ(folded_names({}), "");
}

TEST(Labels, ScopesEndAtWholeParts) {
  EXPECT_EQ(common_scope({"encoder.layer.1", "encoder.layer.10"}), "encoder.layer");
  EXPECT_EQ(common_scope({"encoder.layer.1.x", "encoder.layer.1"}), "encoder.layer.1");
  EXPECT_EQ(common_scope({"", "a/b", "a/c"}), "a");
  EXPECT_EQ(common_scope({"a", "b"}), "");
}

TEST(Provenance, NamesWhatANewNodeStandsFor) {
  Model model =
      model_of("two = Constant <value_float = 2.0> ()\na = Mul (x, two)\nb = Relu (a)\nc = Relu (b)\nd = Relu (a)\ny = Add (c, d)");
  for (Node& node : model.graph.nodes) node.metadata = std::make_shared<Metadata>(Metadata{{"who", node.outputs[0]}});
  SetupOptions given;
  given.cost = "nodes";
  auto setup = set_up(given);
  ASSERT_TRUE(setup.ok()) << setup.status();
  PipelineOptions options;
  options.optimize.annotate = options.optimize.reasons = true;
  const PipelineResult result = run_pipeline(model, *setup, options);
  ASSERT_FALSE(result.failure.has_value());
  std::string told;
  for (const Node& node : result.model.graph.nodes)
    if (const Metadata metadata = metadata_of(node); metadata.contains("who")) told += "\n" + metadata.at("who") + "\n";
  for (const std::string name : {"a", "b", "c", "d", "y"})
    EXPECT_NE(told.find("\n" + name + "\n"), std::string::npos) << name << " in " << told;
  for (const Provenance& p : result.report.optimize.provenance) EXPECT_FALSE(p.values.empty()) << p.output;
}

}  // namespace
}  // namespace saturate
