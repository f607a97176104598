#include "kernels/inputs/draw_inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/nodes.h"

namespace saturate {
namespace {

ValueInfo tensor_input(std::string name, DType dtype, std::vector<DimSpec> shape) {
  ValueInfo info;
  info.name = std::move(name);
  info.type.kind = ValueType::Kind::kTensor;
  info.type.dtype = dtype;
  info.type.shape = std::move(shape);
  return info;
}

TEST(DimText, SumsAndProducts) {
  const Sizes sizes{{"past", 3}, {"seq", 4}, {"s0", 5}, {"a b", 9}};
  EXPECT_EQ(evaluate_dim("seq", sizes), 4);
  EXPECT_EQ(evaluate_dim("past + seq", sizes), 7);
  EXPECT_EQ(evaluate_dim("2*(past+seq) - 1", sizes), 13);
  EXPECT_EQ(evaluate_dim("s0//2", sizes), 2);
  EXPECT_EQ(evaluate_dim("a b", sizes), 9);
  EXPECT_EQ(evaluate_dim("past + other", sizes), std::nullopt);
  EXPECT_EQ(evaluate_dim("past +", sizes), std::nullopt);
  EXPECT_EQ(evaluate_dim("s0/0", sizes), std::nullopt);
  EXPECT_EQ(evaluate_dim(std::string(1000, '('), sizes), std::nullopt);
  EXPECT_EQ(dim_names("past + 2*seq"), (std::vector<std::string>{"past", "seq"}));
  EXPECT_EQ(dim_names("a b"), (std::vector<std::string>{"a b"}));
}

Model embedding_model() {
  Model model;
  model.graph.inputs = {tensor_input("ids", DType::kInt64, {"batch", "seq"}), tensor_input("mask", DType::kInt64, {"batch", "seq"}),
                        tensor_input("x", DType::kFloat, {"batch", std::monostate{}, std::int64_t{3}})};
  model.graph.initializers.push_back({"table", Tensor(DType::kFloat, {50, 4}), nullptr, false});
  model.graph.nodes = {node("Cast", {"ids"}, {"cast"}), node("Gather", {"table", "cast"}, {"rows"})};
  return model;
}

TEST(InputDrawer, NamesItsSymbols) {
  const Model model = embedding_model();
  EXPECT_EQ(InputDrawer(model).symbols(), (std::vector<std::string>{"batch", "seq", "x[1]"}));
  EXPECT_EQ(InputDrawer(model, {{"seq", 4}}).symbols(), (std::vector<std::string>{"batch", "x[1]"}));
}

TEST(InputDrawer, IndicesStayInTheTableAndMasksHaveAOne) {
  const Model model = embedding_model();
  const InputDrawer drawer(model);
  const auto inputs = drawer.draw({{"batch", 7}, {"seq", 100}, {"x[1]", 0}}, {}, 1);
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  std::int64_t largest = 0, zeros = 0;
  for (std::int64_t id : inputs->at("ids").tensor().span<std::int64_t>()) {
    ASSERT_GE(id, 0);
    ASSERT_LT(id, 50);
    largest = std::max(largest, id);
  }
  EXPECT_GT(largest, 40);
  const Tensor& mask = inputs->at("mask").tensor();
  for (std::int64_t i = 0; i < mask.size(); ++i) {
    ASSERT_TRUE(mask.data<std::int64_t>()[i] == 0 || mask.data<std::int64_t>()[i] == 1);
    zeros += mask.data<std::int64_t>()[i] == 0;
  }
  for (std::int64_t row = 0; row < 7; ++row) EXPECT_EQ(mask.data<std::int64_t>()[row * 100], 1);
  EXPECT_GT(zeros, 50);
  EXPECT_EQ(inputs->at("x").tensor().dims(), (Shape{7, 0, 3}));
}

TEST(InputDrawer, FloatsTakenFromOneAreMasksWhereAsked) {
  Model model;
  model.graph.inputs = {tensor_input("mask", DType::kFloat, {std::int64_t{4}, std::int64_t{50}}),
                        tensor_input("x", DType::kFloat, {std::int64_t{4}, std::int64_t{50}})};
  model.graph.initializers.push_back({"one", Tensor::of<float>(DType::kFloat, {}, std::vector{1.0f}), nullptr, false});
  model.graph.initializers.push_back({"axes", Tensor::vector_int64(std::vector<std::int64_t>{1}), nullptr, false});
  model.graph.nodes = {node("Unsqueeze", {"mask", "axes"}, {"wide"}), node("Sub", {"one", "wide"}, {"hidden"}),
                       node("Sub", {"x", "one"}, {"y"})};
  const auto binary = [&](const std::string& name, bool float_masks) {
    const auto inputs = InputDrawer(model).draw({}, {.float_masks = float_masks}, 1);
    const auto values = inputs->at(name).tensor().span<float>();
    return std::all_of(values.begin(), values.end(), [](float v) { return v == 0 || v == 1; });
  };
  EXPECT_TRUE(binary("mask", true));
  EXPECT_FALSE(binary("mask", false));
  EXPECT_FALSE(binary("x", true));
}

// A float behind a view of which a quantizer reads it, and integers that are dequantized.
TEST(InputDrawer, EdgesOfQuantizers) {
  Model model;
  model.graph.inputs = {tensor_input("x", DType::kFloat, {std::int64_t{40}, std::int64_t{50}}),
                        tensor_input("i", DType::kInt8, {std::int64_t{40}, std::int64_t{50}}),
                        tensor_input("other", DType::kFloat, {std::int64_t{9}})};
  model.graph.initializers.push_back({"s", Tensor::of<float>(DType::kFloat, {}, std::vector{0.5f}), nullptr, false});
  model.graph.initializers.push_back({"z", Tensor::of<std::int8_t>(DType::kInt8, {}, std::vector<std::int8_t>{28}), nullptr, false});
  model.graph.nodes = {node("Transpose", {"x"}, {"t"}), node("QuantizeLinear", {"t", "s", "z"}, {"q"}),
                       node("DequantizeLinear", {"i", "s", "z"}, {"d"})};
  const InputDrawer drawer(model);
  EXPECT_TRUE(drawer.has_quantizers());
  EXPECT_FALSE(InputDrawer(embedding_model()).has_quantizers());
  DrawStyle style;
  style.reach = Reach::kQuantized;
  for (const bool held : {false, true}) {
    style.held = held;
    const auto inputs = drawer.draw({}, style, 1);
    ASSERT_TRUE(inputs.ok());
    const float low = 0.5f * (-128 - 28), high = 0.5f * (127 - 28);
    std::int64_t below = 0, above = 0, edges = 0;
    const Tensor& x = inputs->at("x").tensor();
    for (std::int64_t k = 0; k < x.size(); ++k) {
      const float v = x.data<float>()[k], steps = v / 0.5f - 0.5f;
      below += v < low;
      above += v > high;
      edges += v > low && v < high && steps == std::floor(steps);
    }
    EXPECT_EQ(below > 200, !held);
    EXPECT_EQ(above > 200, !held);
    EXPECT_EQ(below + above == 0, held);
    EXPECT_GT(edges, 200);
    const Tensor& i = inputs->at("i").tensor();
    const std::set<std::int8_t> seen(i.data<std::int8_t>(), i.data<std::int8_t>() + i.size());
    EXPECT_GT(seen.size(), 200u);
    EXPECT_TRUE(seen.contains(-128) && seen.contains(127));
    style.reach = Reach::kScaled;
    const auto far = drawer.draw({}, style, 1);
    ASSERT_TRUE(far.ok());
    const float* numbers = far->at("x").tensor().data<float>();
    EXPECT_EQ(*std::max_element(numbers, numbers + x.size()) > high, !held);
    style.reach = Reach::kQuantized;
    for (std::int64_t k = 0; k < 9; ++k) EXPECT_LT(std::abs(inputs->at("other").tensor().data<float>()[k]), 6.0f);
  }
}

TEST(InputDrawer, SameSeedSameNumbers) {
  const Model model = embedding_model();
  const Sizes sizes{{"batch", 2}, {"seq", 3}, {"x[1]", 5}};
  const auto draw = [&](std::uint64_t seed) { return InputDrawer(model).draw(sizes, {}, seed)->at("x").tensor(); };
  EXPECT_TRUE(identical(draw(1), draw(1)));
  EXPECT_FALSE(identical(draw(1), draw(2)));
}

TEST(InputDrawer, FixesWhatTheUserGave) {
  const Model model = embedding_model();
  InputDrawer drawer(model);
  EXPECT_EQ(drawer.fix("ids", {4, -1}), std::nullopt);
  EXPECT_EQ(drawer.symbols(), (std::vector<std::string>{"seq", "x[1]"}));
  EXPECT_TRUE(drawer.fix("x", {5, 1, 3}).has_value());  // batch is 4 already
  EXPECT_TRUE(drawer.fix("x", {4, 1, 2}).has_value());  // 3 in the model
  EXPECT_TRUE(drawer.fix("none", {1}).has_value());
  EXPECT_TRUE(drawer.fix("x", {4, 1}).has_value());
}

TEST(InputDrawer, RefusesWhatIsNoTensor) {
  Model model;
  model.graph.inputs = {tensor_input("x", DType::kFloat, {"n"})};
  EXPECT_EQ(InputDrawer(model).draw({}, {}, 0).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(InputDrawer(model).draw({{"n", std::int64_t{1} << 40}}, {}, 0).status().code(), absl::StatusCode::kOutOfRange);
  model.graph.inputs[0].type.kind = ValueType::Kind::kMap;
  EXPECT_EQ(InputDrawer(model).draw({}, {}, 0).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(InputDrawer, EveryFloatFormatIsDrawn) {
  for (DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kDouble}) {
    Model model;
    model.graph.inputs = {tensor_input("x", dtype, {std::int64_t{1000}})};
    const auto inputs = InputDrawer(model).draw({}, {}, 3);
    ASSERT_TRUE(inputs.ok());
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < 1000; ++i) {
      const double x = element_as_double(inputs->at("x").tensor(), i).value();
      sum += x;
      squares += x * x;
    }
    EXPECT_NEAR(sum / 1000, 0, 0.15) << dtype_name(dtype);
    EXPECT_NEAR(squares / 1000, 1, 0.2) << dtype_name(dtype);
  }
}

TEST(InputDrawer, InputsWithDefaultsAreLeftOut) {
  Model model;
  model.graph.inputs = {tensor_input("x", DType::kFloat, {std::int64_t{2}}), tensor_input("w", DType::kFloat, {std::int64_t{2}})};
  model.graph.initializers.push_back({"w", Tensor(DType::kFloat, {2}), nullptr, false});
  const auto inputs = InputDrawer(model).draw({}, {}, 0);
  ASSERT_TRUE(inputs.ok());
  EXPECT_EQ(inputs->size(), 1u);
}

// A quantizer of scale 0 divides 0 by 0 where numbers are near 0; the scale of a norm may be anything.
TEST(InputDrawer, ScalesOfQuantizersAreNoZerosInAnyStyle) {
  for (const DType dtype : {DType::kFloat, DType::kFloat16}) {
    Model model;
    for (const char* name : {"x", "step", "turned", "gain"}) model.graph.inputs.push_back(tensor_input(name, dtype, {std::int64_t{8}}));
    Node quantize = node("QuantizeLinear", {"x", "step"}, {"q"}), other = node("QuantizeLinear", {"x", "flat"}, {"r"});
    quantize.domain = "com.microsoft";
    Node norm = node("InstanceNormalization", {"x", "gain", "gain"}, {"y"});
    model.graph.nodes = {quantize, node("Flatten", {"turned"}, {"flat"}), other, norm};
    for (const Reach reach : {Reach::kUsual, Reach::kScaled, Reach::kQuiet, Reach::kEdges, Reach::kSpecial}) {
      const auto inputs = InputDrawer(model).draw({}, {.reach = reach}, 5);
      ASSERT_TRUE(inputs.ok()) << inputs.status();
      for (const char* name : {"step", "turned"})
        for (std::int64_t i = 0; i < 8; ++i) {
          const double step = element_as_double(inputs->at(name).tensor(), i).value();
          EXPECT_TRUE(step > 0.01 && step < 0.1) << step;
        }
      const auto is_positive = [&](std::int64_t i) { return element_as_double(inputs->at("gain").tensor(), i).value() > 0; };
      EXPECT_FALSE(std::ranges::all_of(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}, is_positive));
    }
  }
}

// An encoder of categories may refuse what it does not know.
TEST(DrawInputs, StringsAreWordsThatTheModelKnows) {
  Model model;
  model.graph.inputs = {tensor_input("x", DType::kString, {std::int64_t{20}})};
  Node encoder = node("OneHotEncoder", {"x"}, {"y"});
  encoder.domain = "ai.onnx.ml";
  encoder.attributes = {Attribute::of("cats_strings", std::vector<std::string>{"red", "blue"})};
  model.graph.nodes = {encoder};
  const auto inputs = InputDrawer(model).draw({}, {}, 3);
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  for (const std::string& word : inputs->at("x").tensor().string_data()) EXPECT_TRUE(word == "red" || word == "blue") << word;
}

}  // namespace
}  // namespace saturate
