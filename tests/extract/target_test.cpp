#include "extract/target/target.h"

#include <gtest/gtest.h>

#include <set>

#include "extract/extract.h"
#include "extract/target/target_json.h"
#include "kernels/runtime/runtime.h"
#include "onnx_bridge/file/io.h"

namespace saturate {
namespace {

// The one node of a model given as text, where it stands.
struct Place {
  explicit Place(const std::string& text) : evaluator(make_evaluator()), g(*evaluator) {
    model = parse_model_text(text, "test").value();
    lowered = lower(model, g).value();
  }
  std::string refusal(const Target& target) {
    const Source& s = lowered.sources.back();
    OpSite site{.key = g.key(s.op)};
    for (const Id c : s.inputs) site.inputs.push_back(&g.facts(c));
    for (const Id o : s.outputs) site.outputs.push_back(&g.facts(o));
    site.dims = &g.dims();
    site.lowest_opset = site.highest_opset = model.opset("");
    std::string why;
    const bool allowed = target.allows(site, &why);
    EXPECT_EQ(allowed, why.empty());
    return why;
  }
  std::unique_ptr<Evaluator> evaluator;
  OnnxEGraph g;
  Model model;
  Lowered lowered;
};

std::string refusal(const std::string& target, const std::string& text) {
  const auto parsed = parse_target(target, "test");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? Place(text).refusal(*parsed) : "unparsed";
}

constexpr const char* kConv =
    R"(<ir_version: 8, opset_import: ["" : 17]> g (float[1, 6, 8, 8] x, float[6, 3, 3, 3] w) => (float[1, 6, 6, 6] y) { y = Conv <group = 2> (x, w) })";
constexpr const char* kTanh = R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N, 6] x) => (float[N, 6] y) { y = Tanh (x) })";

TEST(TargetLimits, IndicesHaveRanksOfTheirOwn) {
  const char* gather =
      R"(<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3, 5, 7] x, int32[4] i) => (float[2, 3, 4, 7] y) { y = Gather <axis = 2> (x, i) })";
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"rank": 4}]})", gather), "target t, Gather: input 1 has rank 1, wanted at least 4");
  const std::string ranks = R"({"name": "t", "limits": [{"rank": 4}], "index_ranks": [{"operator": "Gather", "input": 1, "ranks": [%]}]})";
  const auto with = [&](const char* range) { return std::string(ranks).replace(ranks.find('%'), 1, range); };
  EXPECT_EQ(refusal(with("1, 2"), gather), "");
  EXPECT_EQ(refusal(with("2, 2"), gather), "target t, Gather: input 1 has rank 1, wanted at least 2");
  const auto parsed = parse_target(with("1, 2"), "test");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parse_target(target_text(*parsed), "again")->index_ranks.at("Gather").at(1).high, 2);
}

constexpr const char* kNorm =
    R"(<ir_version: 8, opset_import: ["" : 17]> g (float16[2, 3, 6] x, float16[6] s) => (float16[2, 3, 6] y) { y = LayerNormalization <axis = 2> (x, s) })";
constexpr const char* kCast = R"(<ir_version: 8, opset_import: ["" : 17]> g (float16[2, 6] x) => (bool[2, 6] y) { y = Cast <to = 9> (x) })";

TEST(TargetLimits, AskForAxesDtypesAndRanges) {
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"axis": [-1]}]})", kNorm), "");
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"axis": [-2, -3]}]})", kNorm),
            "target t, LayerNormalization: axis is -1 from the end, wanted -2 or -3");
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"attribute_ranges": {"group": [1, 2]}}]})", kConv), "");
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"required_attributes": ["group"]}]})", kConv), "");
  EXPECT_NE(refusal(R"({"name": "t", "limits": [{"required_attributes": ["activation"]}]})", kConv).find("activation is absent"),
            std::string::npos);
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"attribute_ranges": {"group": [3, 8]}}]})", kConv),
            "target t, Conv: group is 2, wanted 3 to 8");
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"output_dtypes": ["bool"], "input_dtypes": ["float16"]}]})", kCast), "");
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"output_dtypes": ["float"]}]})", kCast), "target t, Cast: output is bool, wanted float");
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"input_dtypes": ["float", "double"]}]})", kCast),
            "target t, Cast: input is float16, wanted float or double");
}

constexpr const char* kMasked = R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
  g (float[N, 5, 24] x, float[N, 1, 5, 5] m) => (float[N, 5, 24] y) {
    y = com.microsoft.MultiHeadAttention <num_heads = 3> (x, x, x, , , m) })";

constexpr const char* kPadded = R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
  g (float[N, S, 24] x, float[N, T, 24] k, int32[N, T] p) => (float[N, S, 24] y) {
    y = com.microsoft.MultiHeadAttention <num_heads = 3> (x, k, k, , p) })";

TEST(TargetLimits, AskForInputs) {
  EXPECT_EQ(refusal(R"({"name": "t", "domains": {"com.microsoft": ["*"]}, "limits": [{"absent_inputs": [4]}]})", kMasked), "");
  EXPECT_EQ(refusal(R"({"name": "t", "domains": {"com.microsoft": ["*"]}, "limits": [{"absent_inputs": [4, 5]}]})", kMasked),
            "target t, com.microsoft::MultiHeadAttention: input 5 is there, wanted none");
  EXPECT_EQ(refusal(R"({"name": "t", "domains": {"com.microsoft": ["*"]}, "limits": [{"own_heads": [0, 5]}]})", kMasked),
            "target t, com.microsoft::MultiHeadAttention: input 5 has one row for several heads, wanted one for each");
  EXPECT_EQ(refusal(R"({"name": "t", "domains": {"com.microsoft": ["*"]}, "limits": [{"of_self_attention": [4, 5]}]})", kMasked), "");
  EXPECT_EQ(refusal(R"({"name": "t", "domains": {"com.microsoft": ["*"]}, "limits": [{"of_self_attention": [4]}]})", kPadded),
            "target t, com.microsoft::MultiHeadAttention: input 4 is there, and keys may be more or fewer than queries");
  EXPECT_EQ(refusal(R"({"name": "t", "domains": {"com.microsoft": ["*"]}, "limits": [{"alike": [0, 2]}]})", kMasked), "");
  EXPECT_EQ(refusal(R"({"name": "t", "domains": {"com.microsoft": ["*"]}, "limits": [{"alike": [0, 5]}]})", kMasked),
            "target t, com.microsoft::MultiHeadAttention: inputs 0 and 5 may have several shapes, wanted one");
}

TEST(TargetLimits, EndWithARelease) {
  const auto limits = [](const char* name) { return load_target(name)->limits.size(); };
  EXPECT_GT(limits("ort-cpu@1.20"), limits("ort-cpu@1.21"));
  EXPECT_GT(limits("ort-cpu@1.26.9"), limits("ort-cpu@1.27"));
  EXPECT_EQ(limits("ort-cpu@1.20"), builtin_target("ort-cpu")->limits.size());
}

TEST(TargetLimits, ApplyWhereAnotherIsMet) {
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"when": {"input_dtypes": ["float16"]}, "output_dtypes": ["float"]}]})", kCast),
            "target t, Cast: output is bool, wanted float");
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"when": {"input_dtypes": ["float"]}, "output_dtypes": ["float"]}]})", kCast), "");
  EXPECT_FALSE(parse_target(R"({"name": "t", "limits": [{"when": {"rnk": 4}}]})", "test").ok());
}

TEST(TargetLimits, TakeEquationsOfEinsumByTheirForm) {
  const char* product =
      R"(<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3, 4] x, float[2, 4, 5] z) => (float[2, 3, 5] y) { y = Einsum <equation = "Bqk,Bkd->Bqd"> (x, z) })";
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"attributes": {"equation": ["bij,bjk->bik"]}}]})", product), "");
  EXPECT_NE(refusal(R"({"name": "t", "limits": [{"attributes": {"equation": ["bij,bkj->bik"]}}]})", product), "");
}

TEST(TargetLimits, AreOfPlacesWhereTheyNameAnOperator) {
  const auto t = parse_target(R"({"name": "t", "limits": [{"rank": 4}, {"operators": ["Softmax"], "axis": [-1]}]})", "test");
  ASSERT_TRUE(t.ok());
  EXPECT_TRUE(t->limits_by_place("Softmax"));
  EXPECT_FALSE(t->limits_by_place("Relu"));
}

TEST(TargetLimits, SayWhichTensorAndWhy) {
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"max_rank": 4}]})", kConv), "");
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"rank": 4}]})", kTanh), "target t, Tanh: input 0 has rank 2, wanted at least 4");
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"max_dim": 7, "because": "small"}]})", kConv),
            "target t, Conv: input 0 has a dim of 8, wanted at most 7 (small)");
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"dtypes": ["float16", "int8"]}]})", kConv),
            "target t, Conv: input 0 is float, wanted float16 or int8");
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"static_shapes": true}]})", kTanh),
            "target t, Tanh: input 0 has the dim N, wanted a number (--dim or --input-shapes gives one)");
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"static_shapes": true}]})", kConv), "");
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"constant_inputs": [1, 2]}]})", kConv),
            "target t, Conv: input 1 is computed, wanted a constant");
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"attributes": {"group": [1, 4]}}]})", kConv), "target t, Conv: group is 2, wanted 1 or 4");
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"attributes": {"group": [2]}}]})", kConv), "");
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"max_batch": 5}]})", kConv), "target t, Conv: input 0 holds 6 matrices, wanted at most 5");
}

TEST(TargetLimits, ConcernTheOperatorsThatTheyName) {
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"operators": ["Relu"], "rank": 4}]})", kTanh), "");
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"except": ["Tanh"], "rank": 4}]})", kTanh), "");
  EXPECT_NE(refusal(R"({"name": "t", "limits": [{"operators": ["Relu", "Tanh"], "rank": 4}]})", kTanh), "");
}

TEST(TargetLimits, LeaveShapesAndWeightsAlone) {
  const char* text =
      R"(<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3, 4, 5] x) => (float[1, 6, 4, 5] y) <int64[4] s = {1, 6, 4, 5}> { y = Reshape (x, s) })";
  EXPECT_EQ(refusal(R"({"name": "t", "limits": [{"rank": 4, "dtypes": ["float"]}]})", text), "");
}

TEST(TargetStandard, VersionsAreThoseOfTheOperator) {
  for (const auto& [versions, taken] :
       std::map<std::string, bool>{{"", true}, {"6", true}, {"6-12", true}, {"1-5,13+", true}, {"1-5", false}, {"14+", false}})
    EXPECT_EQ(refusal(R"({"name": "t", "standard": {"Tanh": ")" + versions + "\"}}",
                      R"(<ir_version: 8, opset_import: ["" : )" + std::string(versions.starts_with("1-5,") ? "17" : "12") +
                          R"(]> g (float[N, 6] x) => (float[N, 6] y) { y = Tanh (x) })")
                  .empty(),
              taken)
        << versions;
  EXPECT_EQ(refusal(R"({"name": "t", "standard": ["Relu"]})", kTanh), "target t has no Tanh");
}

TEST(TargetJson, WhatIsShownIsReadAgain) {
  for (const std::string& name : builtin_targets()) {
    const Target target = load_target(name).value();
    const auto again = parse_target(target_text(target), name);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(target_text(*again), target_text(target));
    EXPECT_EQ(again->limits.size(), target.limits.size());
  }
}

TEST(TargetJson, WishesHaveAPrice) {
  const auto target = parse_target(R"({"name": "t", "wishes": [{"operators": ["Tanh"], "rank": 4, "because": "flat", "price": 3},
                                                               {"max_heads": 1}, {"max_constant": 65504}]})",
                                   "test");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->wishes[0].price, 3);
  EXPECT_EQ(target->wishes[1].price, 2);
  EXPECT_EQ(target_text(*parse_target(target_text(*target), "again")), target_text(*target));
  Place p(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3] x) => (float[2, 3] y) { y = Tanh (x) })");
  const Source& tanh = p.lowered.sources.at(0);
  const ENode node{tanh.op, tanh.children};
  std::string why;
  EXPECT_EQ(target->wish_price(site_of(p.g, node, tanh.outputs[0]), &why), 3);
  EXPECT_EQ(why, "flat");
  EXPECT_TRUE(target->allows(site_of(p.g, node, tanh.outputs[0])));
}

TEST(TargetJson, WishesByNameAreAdded) {
  Target target = load_target("onnx").value();
  for (const std::string& name : known_wishes()) {
    const std::size_t before = target.wishes.size();
    EXPECT_TRUE(add_wishes(name, target).ok());
    EXPECT_GT(target.wishes.size(), before);
  }
  EXPECT_FALSE(add_wishes("two-heads", target).ok());
}

TEST(TargetJson, ErrorsNameKeyAndValue) {
  for (const auto& [text, word] : std::map<std::string, std::string>{{R"({"name": "t", "limits": [{"ranks": 4}]})", "ranks"},
                                                                     {R"({"name": "t", "limits": [{"dtypes": ["float33"]}]})", "float33"},
                                                                     {R"({"name": "t", "standard": {"Add": "7-"}})", "Add"},
                                                                     {R"({"name": "t", "standard": {"Add": "9-7"}})", "9-7"},
                                                                     {R"({"name": "t", "limits": {"rank": 4}})", "limits"},
                                                                     {R"({"name": 3})", "name"}}) {
    const auto target = parse_target(text, "mine.json");
    ASSERT_FALSE(target.ok()) << text;
    EXPECT_EQ(std::string(target.status().message()).rfind("mine.json: ", 0), 0u) << target.status();
    EXPECT_NE(std::string(target.status().message()).find(word), std::string::npos) << target.status();
  }
}

// A hard constraint decides where cost alone would not: Gemm is one operator, but this target only knows rank 4.
TEST(TargetLimits, AreHardInExtraction) {
  Place p(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3] x) => (float[2, 3] y) { y = Tanh (x) })");
  auto add = [&](const std::string& op, std::vector<Id> children) {
    return p.g.add(OpKey{.domain = "", .op_type = op, .overload = "", .attributes = {}}, children);
  };
  const Id x = p.lowered.values.at("x"), y = p.lowered.values.at("y");
  p.g.egraph().merge(y, add("Neg", {add("Abs", {add("Exp", {x})})}));
  p.g.egraph().rebuild();
  const auto cost = load_cost_model("nodes").value();
  auto operators = [&](const std::string& target) {
    const auto selection = extract(p.g, p.lowered, parse_target(target, "test").value(), *cost);
    EXPECT_TRUE(selection.ok()) << selection.status();
    std::multiset<std::string> out;
    const absl::StatusOr<Model> emitted = selection.ok() ? emit_model(p.g, p.lowered, *selection) : selection.status();
    EXPECT_TRUE(emitted.ok()) << emitted.status();
    if (emitted.ok())
      for (const Node& n : emitted->graph.nodes) out.insert(n.op_type);
    return out;
  };
  EXPECT_EQ(operators(R"({"name": "t"})"), (std::multiset<std::string>{"Tanh"}));
  EXPECT_EQ(operators(R"({"name": "t", "limits": [{"operators": ["Tanh"], "rank": 4}]})"),
            (std::multiset<std::string>{"Abs", "Exp", "Neg"}));
  EXPECT_EQ(operators(R"({"name": "t", "standard": ["Exp", "Neg", "Tanh"]})"),
            (std::multiset<std::string>{"Tanh"}));  // Abs is not to be had
}

}  // namespace
}  // namespace saturate
