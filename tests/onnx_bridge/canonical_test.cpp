#include "onnx_bridge/opsets/canonical.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace saturate {
namespace {

using Attributes = std::vector<Attribute>;

Attribute i(const std::string& name, std::int64_t v) { return Attribute::of(name, v); }
Attribute ints(const std::string& name, std::vector<std::int64_t> v) { return Attribute::of(name, std::move(v)); }

class Canonicalize : public ::testing::Test {
 protected:
  Facts tensor(std::vector<std::int64_t> shape, DType dtype = DType::kFloat) {
    Facts f;
    f.kind = Facts::Kind::kTensor;
    f.dtype = dtype;
    f.shape.emplace();
    for (std::int64_t d : shape) f.shape->push_back(d < 0 ? dims.symbol(absl::StrCat("S", -d)) : dims.constant(d));
    return f;
  }
  Facts list(const std::vector<std::int64_t>& v) { return facts_of_tensor(Tensor::vector_int64(v), dims); }
  Facts number(float v) { return facts_of_tensor(Tensor::of<float>(DType::kFloat, {}, std::span(&v, 1)), dims); }

  Node node(const std::string& op, std::size_t inputs, Attributes attributes = {}, std::size_t outputs = 1) {
    Node n;
    n.op_type = op;
    for (std::size_t k = 0; k < inputs; ++k) n.inputs.push_back(absl::StrCat("x", k));
    for (std::size_t k = 0; k < outputs; ++k) n.outputs.push_back(absl::StrCat("y", k));
    n.attributes = std::move(attributes);
    return n;
  }
  static std::vector<const Facts*> pointers(const std::vector<Facts>& facts) {
    std::vector<const Facts*> all;
    for (const Facts& f : facts) all.push_back(&f);
    return all;
  }
  std::optional<Canonical> up(const Node& n, std::int64_t opset, const std::vector<Facts>& facts) {
    return to_canonical(n, opset, pointers(facts), dims, "p");
  }
  absl::StatusOr<Canonical> down(const Node& n, std::int64_t opset, const std::vector<Facts>& facts) {
    return from_canonical(n, opset, pointers(facts), dims, "p");
  }
  std::optional<std::int64_t> lowest(const Node& n, const std::vector<Facts>& facts) { return lowest_opset(n, pointers(facts)); }
  static std::vector<std::int64_t> values(const Canonical& c, const std::string& name) {
    for (const Initializer& k : c.constants)
      if (k.name == name) return {k.tensor.span<std::int64_t>().begin(), k.tensor.span<std::int64_t>().end()};
    return {-999};
  }
  static const Attribute& at(const Node& n, const std::string& name) {
    const Attribute* a = find_attribute(n.attributes, name);
    EXPECT_NE(a, nullptr) << name;
    static const Attribute none;
    return a ? *a : none;
  }
  DimTable dims;
};

TEST_F(Canonicalize, DefaultsAreWrittenOutAndSorted) {
  auto c = up(node("Gemm", 2, {i("transB", 1)}), 13, {tensor({2, 3}), tensor({4, 3})});
  ASSERT_TRUE(c);
  ASSERT_EQ(c->nodes.size(), 1u);
  const auto& a = c->nodes[0].attributes;
  EXPECT_TRUE(std::is_sorted(a.begin(), a.end(), [](const auto& x, const auto& y) { return x.name < y.name; }));
  EXPECT_EQ(at(c->nodes[0], "alpha").f(), 1.0f);
  EXPECT_EQ(at(c->nodes[0], "transA").i(), 0);
}

TEST_F(Canonicalize, AxesCountFromTheFrontWhereTheRankIsKnown) {
  EXPECT_EQ(at(up(node("Softmax", 1), 13, {tensor({2, 3, 4})})->nodes[0], "axis").i(), 2);
  EXPECT_EQ(at(up(node("Softmax", 1, {i("axis", 2)}), 13, {tensor({2, 3, 4})})->nodes[0], "axis").i(), 2);
  EXPECT_EQ(at(up(node("Softmax", 1), 13, {Facts{}})->nodes[0], "axis").i(), -1);
  EXPECT_EQ(at(up(node("LayerNormalization", 2), 17, {tensor({2, 3}), tensor({3})})->nodes[0], "axis").i(), 1);
  EXPECT_EQ(at(up(node("OneHot", 3), 11, {tensor({2}), tensor({}), tensor({2})})->nodes[0], "axis").i(), 1);
  EXPECT_EQ(at(up(node("Transpose", 1), 13, {tensor({2, 3, 4})})->nodes[0], "perm").ints(), (std::vector<std::int64_t>{2, 1, 0}));
}

TEST_F(Canonicalize, AxesBecomeInputs) {
  for (const auto& [op, opset] : {std::pair{"Squeeze", 11}, {"ReduceMean", 13}, {"ReduceSum", 11}, {"ReduceL2", 17}}) {
    auto c = up(node(op, 1, {ints("axes", {-1})}), opset, {tensor({2, 1})});
    ASSERT_TRUE(c) << op;
    EXPECT_EQ(c->nodes[0].inputs, (std::vector<std::string>{"x0", "p_axes"}));
    EXPECT_EQ(values(*c, "p_axes"), (std::vector<std::int64_t>{1}));
    EXPECT_EQ(find_attribute(c->nodes[0].attributes, "axes"), nullptr);
  }
  auto c = up(node("Unsqueeze", 1, {ints("axes", {-1, 0})}), 11, {tensor({5})});
  EXPECT_EQ(values(*c, "p_axes"), (std::vector<std::int64_t>{2, 0}));
  auto all = up(node("ReduceMean", 1), 13, {tensor({2, 3})});
  EXPECT_EQ(all->nodes[0].inputs.size(), 1u);
  EXPECT_EQ(at(all->nodes[0], "noop_with_empty_axes").i(), 0);
}

TEST_F(Canonicalize, SameFormFromEveryOpset) {
  auto old = up(node("ReduceMean", 1, {ints("axes", {1}), i("keepdims", 1)}), 11, {tensor({2, 3})});
  auto now = up(node("ReduceMean", 2, {}), 18, {tensor({2, 3}), list({1})});
  ASSERT_TRUE(old && now);
  ASSERT_EQ(old->nodes[0].attributes.size(), now->nodes[0].attributes.size());
  for (std::size_t k = 0; k < old->nodes[0].attributes.size(); ++k)
    EXPECT_EQ(old->nodes[0].attributes[k].name, now->nodes[0].attributes[k].name);
}

TEST_F(Canonicalize, SliceOfOpsetOne) {
  auto c = up(node("Slice", 1, {ints("starts", {0, 1}), ints("ends", {9, -1})}), 9, {tensor({4, 5})});
  ASSERT_TRUE(c);
  EXPECT_EQ(c->nodes[0].inputs, (std::vector<std::string>{"x0", "p_starts", "p_ends", "p_axes"}));
  EXPECT_EQ(values(*c, "p_axes"), (std::vector<std::int64_t>{0, 1}));
}

TEST_F(Canonicalize, ClipBoundsTakeTheDtypeOfTheData) {
  auto c = up(node("Clip", 1, {Attribute::of("min", 0.0f), Attribute::of("max", 6.0f)}), 6 + 1, {tensor({2}, DType::kFloat16)});
  ASSERT_TRUE(c);
  ASSERT_EQ(c->constants.size(), 2u);
  EXPECT_EQ(c->constants[1].tensor.dtype(), DType::kFloat16);
  EXPECT_EQ(element_as_double(c->constants[1].tensor, 0), 6.0);
  EXPECT_FALSE(up(node("Clip", 1), 7, {Facts{}}));  // of what dtype?
  auto open = up(node("Clip", 1, {Attribute::of("min", 0.0f)}), 7, {tensor({2})});
  EXPECT_EQ(element_as_double(open->constants[1].tensor, 0),
            static_cast<double>(std::numeric_limits<float>::max()));  // cut +inf, as it did
}

TEST_F(Canonicalize, SoftmaxBelowThirteenFlattens) {
  auto last = up(node("Softmax", 1, {i("axis", 2)}), 11, {tensor({2, 3, 4})});
  ASSERT_TRUE(last);
  EXPECT_EQ(last->nodes.size(), 1u);
  auto c = up(node("Softmax", 1), 11, {tensor({2, 3, 4})});
  ASSERT_TRUE(c);
  std::vector<std::string> ops;
  for (const Node& n : c->nodes) ops.push_back(n.op_type);
  EXPECT_EQ(ops, (std::vector<std::string>{"Flatten", "Shape", "Softmax", "Reshape"}));
  EXPECT_EQ(c->nodes.back().outputs[0], "y0");
  EXPECT_EQ(at(c->nodes[2], "axis").i(), 1);
  EXPECT_FALSE(up(node("Softmax", 1, {i("axis", -2)}), 11, {Facts{}}));
}

TEST_F(Canonicalize, SplitKnowsItsNumberOfOutputs) {
  EXPECT_EQ(at(up(node("Split", 1, {}, 3), 13, {tensor({-1})})->nodes[0], "num_outputs").i(), 3);
  EXPECT_EQ(values(*up(node("Split", 1, {}, 3), 13, {tensor({6})}), "p_sizes"), (std::vector<std::int64_t>{2, 2, 2}));
  EXPECT_EQ(values(*up(node("Split", 1, {i("num_outputs", 3)}, 3), 18, {tensor({7})}), "p_sizes"), (std::vector<std::int64_t>{3, 3, 1}));
  auto c = up(node("Split", 1, {ints("split", {2, 4})}, 2), 11, {tensor({6})});
  EXPECT_EQ(values(*c, "p_split"), (std::vector<std::int64_t>{2, 4}));
}

TEST_F(Canonicalize, PlacesAlongKnownSizesCountFromTheFront) {
  const auto slice = up(node("Slice", 5), 13, {tensor({2, 7}), list({-5}), list({INT64_MAX}), list({-1}), list({1})});
  ASSERT_TRUE(slice);
  EXPECT_EQ(slice->nodes[0].inputs.size(), 4u);  // steps of 1 are not said
  EXPECT_EQ(values(*slice, "p_starts"), (std::vector<std::int64_t>{2}));
  EXPECT_EQ(values(*slice, "p_ends"), (std::vector<std::int64_t>{7}));
  EXPECT_EQ(values(*slice, "p_axes"), (std::vector<std::int64_t>{1}));
  const auto empty = up(node("Slice", 3), 13, {tensor({4, 0}), list({3, -9}), list({1, 5})});
  EXPECT_EQ(values(*empty, "p_ends"), (std::vector<std::int64_t>{3, 0}));
  EXPECT_EQ(values(*empty, "p_axes"), (std::vector<std::int64_t>{0, 1}));
  const auto backwards = up(node("Slice", 5), 13, {tensor({7}), list({-1}), list({INT64_MIN}), list({0}), list({-1})});
  EXPECT_TRUE(backwards->constants.empty());
  const auto open = up(node("Slice", 4), 13, {tensor({-1}), list({-5}), list({INT64_MAX}), list({0})});
  EXPECT_TRUE(open->constants.empty());
  EXPECT_EQ(values(*up(node("Gather", 2, {i("axis", -1)}), 13, {tensor({2, 7}), list({-1, 3})}), "p_indices"),
            (std::vector<std::int64_t>{6, 3}));
  EXPECT_TRUE(up(node("Gather", 2), 13, {tensor({2, 7}), list({-3})})->constants.empty());  // none of the two: it stays wrong
}

TEST_F(Canonicalize, PadDropoutTopKUpsample) {
  auto pad = up(node("Pad", 1, {ints("pads", {0, 1, 0, 1}), Attribute::of("value", 2.0f)}), 10, {tensor({4, 5})});
  ASSERT_TRUE(pad);
  EXPECT_EQ(pad->nodes[0].inputs, (std::vector<std::string>{"x0", "p_pads", "p_value"}));
  auto dropout = up(node("Dropout", 1, {Attribute::of("ratio", 0.1f)}), 10, {tensor({4})});
  ASSERT_TRUE(dropout);
  EXPECT_EQ(dropout->nodes[0].inputs.size(), 1u);
  EXPECT_TRUE(dropout->nodes[0].attributes.empty());
  auto top = up(node("TopK", 1, {i("k", 3)}, 2), 9, {tensor({2, 7})});
  EXPECT_EQ(values(*top, "p_k"), (std::vector<std::int64_t>{3}));
  EXPECT_EQ(at(top->nodes[0], "largest").i(), 1);
  auto upsample = up(node("Upsample", 2), 9, {tensor({1, 1, 2, 2}), tensor({4})});
  ASSERT_TRUE(upsample);
  EXPECT_EQ(upsample->nodes[0].op_type, "Resize");
  EXPECT_EQ(upsample->nodes[0].inputs, (std::vector<std::string>{"x0", "", "x1"}));
  EXPECT_EQ(at(upsample->nodes[0], "coordinate_transformation_mode").s(), "asymmetric");
}

TEST_F(Canonicalize, GroupNormalizationPerChannel) {
  auto c = up(node("GroupNormalization", 3, {i("num_groups", 2)}), 18, {tensor({1, 6, 4}), tensor({2}), tensor({2})});
  ASSERT_TRUE(c);
  EXPECT_EQ(c->nodes.size(), 7u);
  EXPECT_EQ(c->nodes.back().op_type, "GroupNormalization");
  EXPECT_FALSE(up(node("GroupNormalization", 3, {i("num_groups", 2)}), 18, {tensor({1, -1, 4}), tensor({2}), tensor({2})}));
}

TEST_F(Canonicalize, WindowsAreWrittenOut) {
  auto c = up(node("Conv", 2, {Attribute::of("auto_pad", std::string("VALID"))}), 11, {tensor({1, 3, 8, 8}), tensor({4, 3, 3, 5})});
  ASSERT_TRUE(c);
  EXPECT_EQ(at(c->nodes[0], "kernel_shape").ints(), (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(at(c->nodes[0], "strides").ints(), (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(at(c->nodes[0], "pads").ints(), (std::vector<std::int64_t>{0, 0, 0, 0}));
  EXPECT_EQ(at(c->nodes[0], "auto_pad").s(), "NOTSET");
}

TEST_F(Canonicalize, WhatIsNotKnownStaysOpaque) {
  EXPECT_FALSE(up(node("NoSuchOperator", 1), 18, {tensor({2})}));
  EXPECT_FALSE(up(node("ReduceMean", 1, {ints("axes", {0})}), 18, {tensor({2})}));  // an attribute of another version
  EXPECT_EQ(up(node("Relu", 1, {i("of_no_version", 1)}), 18, {tensor({2})})->nodes[0].attributes.size(), 0u);
  EXPECT_FALSE(up(node("Relu", 2), 18, {tensor({2}), tensor({2})}));
  EXPECT_FALSE(up(node("Relu", 1), 99, {tensor({2})}));
  EXPECT_FALSE(up(node("Add", 2, {i("broadcast", 1)}), 6, {tensor({2}), tensor({2})}));
  EXPECT_FALSE(up(node("BatchNormalization", 5, {}, 5), 9, std::vector<Facts>(5, tensor({2}))));
  Node foreign = node("Relu", 1);
  foreign.domain = "org.example";
  EXPECT_FALSE(up(foreign, 1, {tensor({2})}));
  Node microsoft = node("BiasGelu", 2);
  microsoft.domain = "com.microsoft";
  EXPECT_TRUE(up(microsoft, 1, {tensor({2, 3}), tensor({3})}));
}

TEST_F(Canonicalize, BackToOldOpsets) {
  auto mean = up(node("ReduceMean", 2), 18, {tensor({2, 3}), list({-1})})->nodes[0];
  auto written = down(mean, 13, {tensor({2, 3}), list({-1})});
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(at(written->nodes[0], "axes").ints(), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(written->nodes[0].inputs.size(), 1u);
  EXPECT_EQ(written->nodes[0].attributes.size(), 1u);  // defaults are left out
  auto computed = down(mean, 13, {tensor({2, 3}), tensor({1}, DType::kInt64)});
  EXPECT_EQ(computed.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(computed.status().message().find("opset 18"), std::string::npos) << computed.status();
  EXPECT_EQ(lowest(mean, {tensor({2, 3}), tensor({1}, DType::kInt64)}), 18);
  EXPECT_EQ(lowest(mean, {tensor({2, 3}), list({1})}), 7);
}

TEST_F(Canonicalize, LowestOpsetLooksAtDtypesAndAttributes) {
  EXPECT_EQ(lowest(up(node("Gelu", 1), 20, {tensor({2})})->nodes[0], {tensor({2})}), 20);
  const Node relu = up(node("Relu", 1), 14, {tensor({2}, DType::kInt32)})->nodes[0];
  EXPECT_EQ(lowest(relu, {tensor({2})}), 7);
  EXPECT_EQ(lowest(relu, {tensor({2}, DType::kInt32)}), 14);
  EXPECT_EQ(lowest(relu, {tensor({2}, DType::kBfloat16)}), 13);
  EXPECT_EQ(lowest(up(node("Attention", 3), 23, std::vector<Facts>(3, tensor({1, 2, 3, 4})))->nodes[0],
                   std::vector<Facts>(3, tensor({1, 2, 3, 4}))),
            23);
  EXPECT_EQ(lowest(up(node("Cast", 1, {i("to", 17)}), 19, {tensor({2})})->nodes[0], {tensor({2})}), 19);
  EXPECT_EQ(lowest(up(node("Reshape", 2, {i("allowzero", 1)}), 14, {tensor({2}), list({2})})->nodes[0], {tensor({2}), list({2})}), 14);
}

TEST_F(Canonicalize, SoftmaxOverAnInnerAxisIsTurned) {
  const Node softmax = up(node("Softmax", 1, {i("axis", 0)}), 13, {tensor({2, 3})})->nodes[0];
  auto c = down(softmax, 11, {tensor({2, 3})});
  ASSERT_TRUE(c.ok());
  ASSERT_EQ(c->nodes.size(), 3u);
  EXPECT_EQ(c->nodes[0].op_type, "Transpose");
  EXPECT_TRUE(c->nodes[1].attributes.empty());  // axis 1 was the default then, and is the last one here
  EXPECT_EQ(c->nodes[2].outputs[0], "y0");
}

// ONNX Runtime's AveragePool of opset 19 takes ten times as long as the older one where channels are no multiple of 16.
TEST_F(Canonicalize, PoolsWithoutGapsNeedNoNewerOpset) {
  const auto pool = [&](const char* op, std::int64_t gap) {
    return node(
        op, 1,
        {Attribute::of("kernel_shape", std::vector<std::int64_t>{3, 3}), Attribute::of("dilations", std::vector<std::int64_t>{gap, gap})});
  };
  const std::vector<Facts> x{tensor({1, 3, 9, 9})};
  EXPECT_EQ(lowest(pool("AveragePool", 2), x), 19);
  EXPECT_EQ(lowest(pool("LpPool", 2), x), 18);
  for (const char* op : {"AveragePool", "LpPool", "MaxPool"})
    EXPECT_EQ(lowest(pool(op, 1), x), lowest(node(op, 1, {Attribute::of("kernel_shape", std::vector<std::int64_t>{3, 3})}), x)) << op;
}

TEST_F(Canonicalize, UpAndDownAgainIsTheSameNode) {
  const std::vector<Facts> x{tensor({2, 3, 4, 4})};
  for (std::int64_t opset : {9, 11, 13, 17, 21}) {
    for (const Node& n : {node("Relu", 1), node("Flatten", 1, {i("axis", 2)}), node("GlobalAveragePool", 1),
                          node("LeakyRelu", 1, {Attribute::of("alpha", 0.2f)})}) {
      auto c = up(n, opset, x);
      ASSERT_TRUE(c) << n.op_type;
      auto back = down(c->nodes[0], opset, x);
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(back->nodes[0].op_type, n.op_type);
      ASSERT_EQ(back->nodes[0].attributes.size(), n.attributes.size()) << n.op_type;
    }
  }
}

TEST_F(Canonicalize, ResizeBeforeThirteenWantsEmptyTensors) {
  Node resize = node("Resize", 4);
  resize.inputs = {"x0", "", "", "x3"};
  const std::vector<Facts> facts{tensor({1, 1, 2, 2}), Facts{}, Facts{}, list({1, 1, 4, 4})};
  auto c = up(resize, 13, facts);
  ASSERT_TRUE(c);
  auto back = down(c->nodes[0], 11, facts);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->nodes[0].inputs, (std::vector<std::string>{"x0", "p_roi", "p_scales", "x3"}));
  EXPECT_EQ(back->constants[0].tensor.size(), 0);
}

}  // namespace
}  // namespace saturate
