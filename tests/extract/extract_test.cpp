#include "extract/extract.h"
#include "extract/onnx_problem.h"
#include "extract/target/target_json.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/runtime/runtime.h"
#include "onnx_bridge/file/io.h"
#include "tests/extract/temporary_file.h"

namespace saturate {
namespace {

// A model given as ONNX text in an e-graph; tests add equal e-nodes to it and look at what extraction takes.
struct Bench {
  explicit Bench(const std::string& text, const std::string& target_name = "ort-cpu@1.20") : evaluator(make_evaluator()), g(*evaluator) {
    model = parse_model_text(text, "test").value();
    lowered = lower(model, g).value();
    target = load_target(target_name).value();
    cost = load_cost_model("nodes").value();
  }

  Id value(const std::string& name) { return lowered.values.at(name); }
  Id add(const std::string& op, std::vector<Id> children, std::vector<Attribute> attributes = {}, const std::string& domain = "",
         int outputs = 1) {
    OpKey key;
    key.domain = domain;
    key.op_type = op;
    key.attributes = std::move(attributes);
    key.outputs = outputs;
    return g.add(key, children);
  }
  void same(Id a, Id b) {
    g.egraph().merge(a, b);
    g.egraph().rebuild();
  }

  Selection take() {
    auto selection = extract(g, lowered, target, *cost);
    EXPECT_TRUE(selection.ok()) << selection.status();
    EXPECT_EQ(check_selection(g.egraph(), lowered.roots, *selection), "");
    return *selection;
  }
  std::multiset<std::string> operators() {
    std::multiset<std::string> out;
    auto emitted = emit_model(g, lowered, take());
    EXPECT_TRUE(emitted.ok()) << emitted.status();
    for (const Node& n : emitted->graph.nodes) out.insert(n.op_type);
    return out;
  }

  std::unique_ptr<Evaluator> evaluator;
  OnnxEGraph g;
  Model model;
  Lowered lowered;
  Target target;
  std::unique_ptr<CostModel> cost;
};

using Ops = std::multiset<std::string>;

TEST(Extract, KeepsTheModelWhereNothingElseIsKnown) {
  Bench b(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] y) { a = Exp(x)  b = Neg(a)  y = Add(a, b) })");
  EXPECT_EQ(b.operators(), (Ops{"Exp", "Neg", "Add"}));
}

TEST(Extract, TakesTheCheaperOfEqualExpressions) {
  Bench b(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] y) { a = Neg(x)  b = Neg(a)  y = Exp(b) })");
  b.same(b.value("b"), b.value("x"));
  EXPECT_EQ(b.operators(), (Ops{"Exp"}));
}

// What is remembered from call to call changes nothing: with e-nodes left out and avoided, one after another.
TEST(Extract, RemembersWhatIsAskedOfTheSameNodes) {
  Bench b(
      R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g (float[4, 4] x, float[4, 4] y) => (float[4, 4] z) {
           a = Mul(x, y)  b = Add(a, x)  z = Relu(b) })",
      "ort-cpu");
  b.same(b.value("b"), b.add("Sum", {b.value("a"), b.value("x")}));
  b.same(b.value("z"), b.add("Max", {b.value("x")}));
  b.same(b.value("z"), b.add("Clip", {b.value("y")}));
  b.same(b.value("a"), b.add("Mul", {b.value("y"), b.value("x")}));
  ExtractOptions remembering;
  remembering.asked = std::make_shared<AskedOfNodes>();
  std::vector<NodeId> made;
  for (const Id id : b.g.egraph().classes())
    for (const NodeId n : b.g.egraph().class_nodes(id))
      if (const std::string& op = b.g.key(b.g.egraph().node(n).op).op_type; op == "Sum" || op == "Max" || op == "Clip") made.push_back(n);
  ASSERT_EQ(made.size(), 3u);
  const auto compare = [&] {
    ExtractOptions anew = remembering;
    anew.asked = nullptr;
    const auto one = extract(b.g, b.lowered, b.target, *b.cost, remembering), other = extract(b.g, b.lowered, b.target, *b.cost, anew);
    ASSERT_TRUE(one.ok() && other.ok()) << one.status() << other.status();
    EXPECT_EQ(one->cost, other->cost);
    EXPECT_EQ(one->refused, other->refused);
    for (const Id id : b.g.egraph().classes()) EXPECT_EQ(one->by_class[id].node, other->by_class[id].node);
  };
  compare();
  for (const NodeId n : made) {
    remembering.left_out = {n};
    compare();
    remembering.left_out.clear(), remembering.avoided = {n};
    compare();
  }
  remembering.left_out.insert(made.begin(), made.end());
  compare();
}

TEST(Extract, CountsSharedNodesOnce) {
  // y alone would be cheaper by way of t (2 nodes instead of 3), but z needs the Exp chain anyway.
  Bench b(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] y, float[N, 4] z)
             { a = Exp(x)  c = Sqrt(a)  y = Neg(c)  z = Abs(c) })");
  const Id t = b.add("Tanh", {b.value("x")});
  b.same(b.value("y"), b.add("Relu", {t}));
  EXPECT_EQ(b.operators(), (Ops{"Exp", "Sqrt", "Neg", "Abs"}));
}

TEST(Extract, TakesAllValuesOfATupleTogether) {
  Bench b(
      R"(<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3, 4] a, float[2, 3, 4] b, float[4] s) => (float[2, 3, 4] y, float[2, 3, 4] r)
             { r = Add(a, b)  y = LayerNormalization <axis = -1, epsilon = 0.001> (r, s) })");
  const Id tuple =
      b.add("SkipLayerNormalization", {b.value("a"), b.value("b"), b.value("s")}, {Attribute::of("epsilon", 0.001f)}, "com.microsoft", 4);
  b.g.egraph().merge(b.value("y"), b.g.project(tuple, 0));
  b.same(b.value("r"), b.g.project(tuple, 3));
  EXPECT_EQ(b.operators(), (Ops{"SkipLayerNormalization"}));
}

TEST(Extract, PaysForSharedPartsOnceForAllWhoUseThem) {
  // Each of y and z is 3 nodes; by way of the shared t (3 nodes, used by nothing yet) it is 1: alone that is dearer, together cheaper.
  Bench b(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x, float[N, 4] u, float[N, 4] w) => (float[N, 4] y, float[N, 4] z)
             { a = Exp(u)  c = Sqrt(a)  y = Neg(c)  d = Exp(w)  e = Sqrt(d)  z = Neg(e) })");
  const Id t = b.add("Tanh", {b.add("Relu", {b.add("Abs", {b.value("x")})})});
  b.g.egraph().merge(b.value("y"), b.add("Add", {b.value("u"), t}));
  b.same(b.value("z"), b.add("Add", {b.value("w"), t}));
  EXPECT_EQ(b.operators(), (Ops{"Abs", "Relu", "Tanh", "Add", "Add"}));
}

TEST(Extract, EmitsOnlyWhatTheTargetHas) {
  const std::string text =
      R"(<ir_version: 10, opset_import: ["" : 20]> g (float[2, 4] x, float[4] c) => (float[2, 4] y) { a = Add(x, c)  y = Gelu(a) })";
  for (const auto& [target, wanted] : std::map<std::string, Ops>{{"onnx", {"Add", "Gelu"}}, {"ort-cpu@1.20", {"BiasGelu"}}}) {
    Bench b(text, target);
    b.same(b.value("y"), b.add("BiasGelu", {b.value("x"), b.value("c")}, {}, "com.microsoft"));
    EXPECT_EQ(b.operators(), wanted) << target;
  }
}

TEST(Extract, StaysAcyclicInCyclicEGraphs) {
  Bench b(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] y) { a = Exp(x)  b = Sqrt(a)  y = Abs(b) })");
  // a = Neg(y) and y = Neg(a): cheap ways from each to the other, none of which starts anywhere.
  b.g.egraph().merge(b.value("a"), b.add("Neg", {b.value("y")}));
  b.same(b.value("y"), b.add("Neg", {b.value("a")}));
  EXPECT_EQ(b.operators(), (Ops{"Exp", "Neg"}));
}

TEST(Extract, FoldsConstantsThatDoNotBloatTheFile) {
  Bench small(
      R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N, 2] x) => (float[N, 2] y) <float[2] c = {1, 2}> { d = Exp(c)  y = Add(x, d) })");
  EXPECT_EQ(small.operators(), (Ops{"Add"}));
  Bench big(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[1000, 1000] x) => (float[1000, 1000] y) <int64[2] s = {1000, 1000}>
               { c = ConstantOfShape(s)  y = Add(x, c) })");
  EXPECT_EQ(big.operators(), (Ops{"Add", "ConstantOfShape"}));
}

TEST(Extract, IsNeverWorseThanTheInput) {
  Bench b(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] y) { a = Exp(x)  y = Neg(a) })");
  const Id dear = b.add("Exp", {b.add("Log", {b.add("Abs", {b.value("x")})})});
  b.same(b.value("a"), dear);
  const double before = original_selection(b.g, b.lowered, nullptr, *b.cost)->cost;
  EXPECT_LE(b.take().cost, before);
  EXPECT_EQ(b.operators(), (Ops{"Exp", "Neg"}));
}

// Erf is refused and has no other form; Softmax over a chosen mask has one, two classes up, without the choice that is refused.
constexpr char kRefusals[] = R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2, 4] x, bool[2, 4] c, float[2, 4] m, float[2, 4] u) => (float[2, 4] y, float[2, 4] e, float[2, 4] z) <float f = {-10000}>
    { w = Where(c, x, f)  y = Softmax(w)  e = Erf(u)  t = Neg(u)  z = Neg(t) })";

void add_other_forms(Bench& b) {
  b.target =
      parse_target(R"({"name": "strict", "description": "", "min_opset": 11, "max_opset": 17, "forbidden": ["Where", "Erf"]})", "strict")
          .value();
  const Id moved = b.add("Exp", {b.add("Abs", {b.add("Mul", {b.value("x"), b.value("m")})})});
  b.same(b.value("y"), b.add("Softmax", {moved}, {Attribute::of("axis", std::int64_t{-1})}));
  b.same(b.value("z"), b.add("Abs", {b.value("u")}));
}

TEST(Extract, WhatTheTargetRefusesIsCountedOverTheWholeResult) {
  Bench b(kRefusals);
  add_other_forms(b);
  EXPECT_EQ(b.operators(), (Ops{"Abs", "Abs", "Erf", "Exp", "Mul", "Softmax"}));
  EXPECT_EQ(b.take().refused, 1);
  EXPECT_EQ(original_selection(b.g, b.lowered, &b.target, *b.cost)->refused, 2);
}

TEST(Extract, SmallCostsCountBesideARefusedOperator) {
  const test::TemporaryFile table(R"({"costs": {"Neg": 1e-7, "Abs": 1.5e-7}, "default": 1e-6})");
  Bench b(kRefusals);
  add_other_forms(b);
  b.cost = load_cost_model(table.path()).value();
  const auto chosen = b.operators();
  EXPECT_EQ(chosen.count("Erf"), 1u);
  EXPECT_EQ(chosen.count("Neg"), 0u);  // 2e-7 for two of them
  EXPECT_LT(b.take().cost, 1e-5);
}

TEST(Raise, DoesNotTakeANodeForOneWithItsInputsInAnotherOrder) {
  Bench b(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N, 2] x, float[N, 3] z) => (float[N, 5] p, float[N, 5] q)
             { p = Concat <axis = 1> (x, z)  q = Concat <axis = 1> (z, x) })");
  const auto emitted = emit_model(b.g, b.lowered, b.take());
  ASSERT_TRUE(emitted.ok()) << emitted.status();
  ASSERT_EQ(emitted->graph.nodes.size(), 2u);
  for (const Node& n : emitted->graph.nodes)
    EXPECT_EQ(n.inputs, (n.outputs[0] == "p" ? std::vector<std::string>{"x", "z"} : std::vector<std::string>{"z", "x"}));
}

TEST(CheckSelection, FindsWhatIsMissingOrCyclic) {
  Bench b(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] y) { a = Exp(x)  y = Abs(a) })");
  Selection s = b.take();
  const Id a = b.g.egraph().find(b.value("a"));
  const Choice kept = s.by_class[a];
  s.by_class[a] = {};
  EXPECT_NE(check_selection(b.g.egraph(), b.lowered.roots, s), "");
  s.by_class[a] = kept;
  EXPECT_EQ(check_selection(b.g.egraph(), b.lowered.roots, s), "");
}

TEST(CostTable, DecidesWhatIsTaken) {
  const test::TemporaryFile table(R"({"costs": {"com.microsoft::BiasGelu": 5, "Gelu": 1}, "default": 1})");
  Bench b(R"(<ir_version: 10, opset_import: ["" : 20]> g (float[2, 4] x, float[4] c) => (float[2, 4] y) { a = Add(x, c)  y = Gelu(a) })");
  b.same(b.value("y"), b.add("BiasGelu", {b.value("x"), b.value("c")}, {}, "com.microsoft"));
  b.cost = load_cost_model(table.path()).value();
  EXPECT_EQ(b.operators(), (Ops{"Add", "Gelu"}));
}

TEST(CostTable, RefusesNegativeCosts) {
  const test::TemporaryFile table(R"({"costs": {"Gelu": -1}})");
  const auto cost = load_cost_model(table.path());
  ASSERT_FALSE(cost.ok());
  EXPECT_NE(std::string(cost.status().message()).find("Gelu"), std::string::npos);
}

TEST(Target, ErrorsNameTheFileAndTheKey) {
  const test::TemporaryFile file(R"({"name": "mine", "max_opsets": 20})");
  const auto target = load_target(file.path());
  ASSERT_FALSE(target.ok());
  EXPECT_NE(std::string(target.status().message()).find(file.path()), std::string::npos);
  EXPECT_NE(std::string(target.status().message()).find("max_opsets"), std::string::npos);
  EXPECT_FALSE(load_target("no-such-target").ok());
}

TEST(Target, BuiltInOnesAreReadable) {
  for (const std::string& name : builtin_targets()) EXPECT_TRUE(load_target(name).ok()) << name;
}

}  // namespace
}  // namespace saturate
