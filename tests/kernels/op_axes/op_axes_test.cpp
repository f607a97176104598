// Is each link of onnx_bridge/operators/op_axes.inc true, and are those the only ones?
// The kernels are run: taking places along the axes of a link must give the same places of the results,
// and of axes of which nothing is said no choice may do that.
#include "onnx_bridge/operators/op_axes.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>
#include <sstream>

#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/operators/op_traits.h"
#include "op_axes_cases.h"
#include "tests/kernels/kernel_test_util.h"
#include "tests/kernels/op_traits/op_traits_values.h"

namespace saturate::axes_test {
namespace {

using traits_test::Random;

constexpr int kDraws = 5;

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, at);)
    if (!part.empty()) out.push_back(part);
  return out;
}

std::vector<double> numbers(const std::string& text) {
  std::vector<double> out;
  for (const std::string& part : split(text, ',')) out.push_back(std::stod(part));
  return out;
}

template <typename T>
std::vector<T> cast(const std::vector<double>& from) {
  return std::vector<T>(from.begin(), from.end());
}

// One line of the cases.
struct Case {
  std::string line, name = {};
  Node node = {};
  std::int64_t opset = kNewestOpset;
  std::vector<std::string> inputs = {};
};

Attribute attribute_of(const OpSchema& schema, const std::string& name, const std::string& text) {
  const OpAttribute* declared = schema.attribute(name);
  switch (declared ? declared->type : AttributeType::kInts) {
    case AttributeType::kInt:
      return Attribute::of(name, static_cast<std::int64_t>(std::stoll(text)));
    case AttributeType::kFloat:
      return Attribute::of(name, std::stof(text));
    case AttributeType::kString:
      return Attribute::of(name, text);
    case AttributeType::kFloats:
      return Attribute::of(name, cast<float>(numbers(text)));
    case AttributeType::kStrings:
      return Attribute::of(name, split(text, ','));
    case AttributeType::kTensor: {
      const auto values = numbers(text.substr(text.find(':') + 1));
      Tensor t(*parse_dtype(text.substr(0, text.find(':'))), {static_cast<std::int64_t>(values.size())});
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        if (!store_int(t, at, static_cast<std::int64_t>(values[i]))) store_double(t, at, values[i]);
      }
      return Attribute::of(name, t);
    }
    default:
      return Attribute::of(name, cast<std::int64_t>(numbers(text)));
  }
}

Case case_of(const std::string& line) {
  Case c{.line = line};
  const std::string head = line.substr(0, line.find(" :"));
  const auto words = split(head, ' ');
  c.name = words[0];
  const auto dot = c.name.rfind('.');
  c.node.op_type = c.name.substr(dot == c.name.npos ? 0 : dot + 1);
  c.node.domain = dot == c.name.npos ? "" : c.name.substr(0, dot);
  std::vector<std::string> rest = split(line.substr(line.find(" :") + 2), ' ');
  c.opset = c.node.domain.empty() ? kNewestOpset : c.node.domain == "ai.onnx.ml" ? 5 : 1;
  if (!rest.empty() && rest.back()[0] == '@') {
    c.opset = std::stoll(rest.back().substr(1));
    rest.pop_back();
  }
  int outputs = 1;
  if (rest.size() > 1 && rest[rest.size() - 2] == "->") {
    outputs = std::stoi(rest.back());
    rest.resize(rest.size() - 2);
  }
  const OpSchema* schema = find_schema(c.node.domain, c.node.op_type, c.opset);
  if (!schema) schema = schema_versions(c.node.domain, c.node.op_type).back();
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto at = words[i].find('=');
    c.node.attributes.push_back(attribute_of(*schema, words[i].substr(0, at), words[i].substr(at + 1)));
  }
  c.inputs = rest;
  for (std::size_t i = 0; i < rest.size(); ++i) c.node.inputs.push_back(rest[i] == "-" ? "" : "i" + std::to_string(i));
  for (int i = 0; i < outputs; ++i) c.node.outputs.push_back("o" + std::to_string(i));
  return c;
}

bool is_constant(const std::string& input) { return input[1] == '('; }

Value drawn(const std::string& input, Random& random) {
  if (input == "-") return {};
  const auto open = input.find_first_of("([");
  const std::string kind = input.substr(0, open), inner = input.substr(open + 1, input.find_first_of(")]") - open - 1);
  const std::vector<double> listed = numbers(inner);
  if (kind == "c") return test::ints({static_cast<std::int64_t>(listed.size())}, cast<std::int64_t>(listed));
  if (kind == "f") return test::floats({static_cast<std::int64_t>(listed.size())}, cast<float>(listed));
  if (kind == "s") return test::ints({}, cast<std::int64_t>(listed));
  if (kind == "k") return test::make<std::int32_t>({static_cast<std::int64_t>(listed.size())}, cast<std::int32_t>(listed));
  if (kind == "q") return test::floats({}, cast<float>(listed));
  if (kind == "z") return test::make<std::uint8_t>({}, cast<std::uint8_t>(listed));
  const Shape dims = cast<std::int64_t>(listed);
  if (kind == "string") {
    static const std::vector<std::string> kWords{"", "a", "b", "ab", "a b", "b a ab"};
    std::vector<std::string> words;
    for (std::int64_t n = *checked_elements(dims); n > 0; --n) words.push_back(kWords[random.below(6)]);
    return Tensor::strings(dims, words);
  }
  const DType dtype = kind == "scale" || kind == "roi" ? DType::kFloat : *parse_dtype(kind);
  const std::string rule = input.substr(input.find(']') + 1);
  const std::int64_t bound = rule.empty() ? 256 : std::stoll(rule.substr(1));
  Tensor t(dtype, dims);
  std::int64_t inner_size = 1;
  for (std::size_t i = 2; i < dims.size(); ++i) inner_size *= dims[i];
  for (std::int64_t i = 0; i < t.size(); ++i) {
    if (dtype == DType::kFloat) {
      const std::int64_t column = i % dims.back();
      const double value = kind == "scale" ? random.between(0.05, 0.5)
                           : kind != "roi" ? random.between(-2, 2)
                           : column == 0   ? 0
                                           : random.between(0, 3) + (column > 2 ? 4 : 0);
      store_double(t, i, rule.empty() ? value : static_cast<double>(bound));
      continue;
    }
    std::int64_t value = dtype == DType::kBool ? random.below(2) : random.below(static_cast<std::uint32_t>(bound));
    if (rule.starts_with('>')) ++value;
    if (rule.starts_with('=')) value = bound;
    if (rule.starts_with('~')) value = i / inner_size % dims[1];
    store_bits(t, i, static_cast<std::uint64_t>(value));
  }
  return t;
}

// What is known of a run's tensors.
class ViewOfRun : public NodeView {
 public:
  ViewOfRun(const Case& c, const std::vector<Value>& inputs, const std::vector<Tensor>& outputs)
      : NodeView(c.node, c.opset), case_(c), given_(inputs), made_(outputs) {}
  std::optional<int> rank(Port port) const override { return static_cast<int>(dims(port).size()); }
  std::optional<std::int64_t> size(Port port, int axis) const override { return dims(port)[static_cast<std::size_t>(axis)]; }
  bool same_sizes(Port a, int a_first, int a_last, Port b, int b_first, int b_last) const override {
    return product(a, a_first, a_last) == product(b, b_first, b_last);
  }
  std::optional<std::vector<std::int64_t>> ints(int input) const override {
    const auto i = static_cast<std::size_t>(input);
    if (!is_constant(case_.inputs[i]) || given_[i].tensor().dtype() != DType::kInt64) return std::nullopt;
    const auto values = given_[i].tensor().span<std::int64_t>();
    return std::vector(values.begin(), values.end());
  }

 private:
  const Shape& dims(Port port) const {
    const auto i = static_cast<std::size_t>(port.index);
    return port.output ? made_[i].dims() : given_[i].tensor().dims();
  }
  std::int64_t product(Port port, int first, int last) const {
    return std::accumulate(dims(port).begin() + first, dims(port).begin() + last, std::int64_t{1}, std::multiplies<>());
  }
  const Case& case_;
  const std::vector<Value>& given_;
  const std::vector<Tensor>& made_;
};

Tensor taken_along(const Tensor& from, int axis, const std::vector<std::int64_t>& places) {
  Shape dims = from.dims();
  const auto at = static_cast<std::size_t>(axis);
  const std::int64_t inner = std::accumulate(dims.begin() + axis + 1, dims.end(), std::int64_t{1}, std::multiplies<>());
  const std::int64_t outer = std::accumulate(dims.begin(), dims.begin() + axis, std::int64_t{1}, std::multiplies<>());
  std::vector<std::int64_t> elements;
  for (std::int64_t o = 0; o < outer; ++o)
    for (const std::int64_t place : places)
      for (std::int64_t i = 0; i < inner; ++i) elements.push_back((o * dims[at] + place) * inner + i);
  dims[at] = static_cast<std::int64_t>(places.size());
  return traits_test::taken(from, elements, dims);
}

using RunOfTensors = std::function<std::optional<std::vector<Tensor>>(const std::vector<Value>& inputs)>;

RunOfTensors run_of(const Case& c) {
  return [&c](const std::vector<Value>& inputs) -> std::optional<std::vector<Tensor>> {
    static const std::unique_ptr<Evaluator> evaluator = make_evaluator();
    const auto out = evaluator->evaluate(c.node, c.opset, inputs);
    if (!out.ok()) return std::nullopt;
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < c.node.outputs.size(); ++i) {
      if (i >= out->size() || !(*out)[i].is_tensor()) return std::nullopt;
      tensors.push_back((*out)[i].tensor());
    }
    return tensors;
  };
}

class Laws {
 public:
  Laws(const std::vector<std::string>& inputs, RunOfTensors run, std::uint32_t seed) : run_(std::move(run)) {
    Random random(seed);
    for (const std::string& input : inputs) inputs_.push_back(drawn(input, random));
    if (auto made = run_(inputs_)) outputs_ = *std::move(made);
  }

  bool runs() const { return !outputs_.empty(); }
  const std::vector<Value>& inputs() const { return inputs_; }
  const std::vector<Tensor>& outputs() const { return outputs_; }

  std::int64_t size_of(const AxisLink& link) const {
    for (const AxisAt& at : link.inputs)
      if (!at.one) return tensor(at.port).dims()[static_cast<std::size_t>(at.axis)];
    return 1;
  }
  bool holds(const AxisLink& link, std::optional<int> sizes) const {
    const std::int64_t n = size_of(link);
    std::vector<std::vector<std::int64_t>> choices{{}, {}, {}};
    for (std::int64_t i = 0; i < n; ++i) {
      choices[2].push_back(i < 2 && n > 1 ? 1 - i : i);
      choices[0].push_back(n - 1 - i);
      choices[1].push_back((i + 1) % n);
    }
    if (link.apart) choices.insert(choices.end(), {{n - 1, 0}, {0}, {n - 1, n - 1, 0, n / 2, 0}});
    return std::all_of(choices.begin(), choices.end(), [&](const auto& places) { return holds_at(link, places, sizes); });
  }

 private:
  const Tensor& tensor(Port port) const {
    const auto i = static_cast<std::size_t>(port.index);
    return port.output ? outputs_[i] : inputs_[i].tensor();
  }
  bool holds_at(const AxisLink& link, const std::vector<std::int64_t>& places, std::optional<int> sizes) const {
    std::vector<Value> inputs = inputs_;
    for (const AxisAt& at : link.inputs)
      if (!at.one) inputs[static_cast<std::size_t>(at.port.index)] = taken_along(tensor(at.port), at.axis, places);
    std::vector<Tensor> want = outputs_;
    for (const AxisAt& at : link.outputs) want[static_cast<std::size_t>(at.port.index)] = taken_along(tensor(at.port), at.axis, places);
    if (sizes && inputs[static_cast<std::size_t>(*sizes)].present()) {
      const Shape& dims = want[0].dims();
      inputs[static_cast<std::size_t>(*sizes)] = test::ints({static_cast<std::int64_t>(dims.size())}, dims);
    }
    const auto got = run_(inputs);
    for (std::size_t i = 0; i < want.size(); ++i)
      if (!got || !traits_test::near((*got)[i], want[i], 1e-4)) return false;
    return true;
  }

  RunOfTensors run_;
  std::vector<Value> inputs_;
  std::vector<Tensor> outputs_;
};

std::string spelled(const AxisLink& link) {
  std::string out = link.apart ? "apart" : "together";
  for (const auto* side : {&link.inputs, &link.outputs}) {
    out += side == &link.inputs ? ", inputs" : ", outputs";
    for (const AxisAt& at : *side) out += " " + std::to_string(at.port.index) + "[" + std::to_string(at.axis) + (at.one ? "=1]" : "]");
  }
  return out;
}

// All ways to take one axis of this size, or none, of each value of which nothing is said of that axis.
std::vector<AxisLink> choices(const std::vector<std::string>& inputs, const Laws& laws, const OpAxes& said, std::int64_t n) {
  std::vector<AxisLink> all{AxisLink{}};
  const auto add = [&](Port port, const Shape& dims) {
    const std::size_t before = all.size();
    for (int k = 0; k < static_cast<int>(dims.size()); ++k)
      if (dims[static_cast<std::size_t>(k)] == n && !said.link(port, k))
        for (std::size_t i = 0; i < before; ++i) {
          all.push_back(all[i]);
          (port.output ? all.back().outputs : all.back().inputs).push_back({port, k});
        }
  };
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (laws.inputs()[i].present() && !is_constant(inputs[i]) && inputs[i].find('=') == inputs[i].npos)
      add({static_cast<int>(i)}, laws.inputs()[i].tensor().dims());
  for (std::size_t i = 0; i < laws.outputs().size(); ++i) add({static_cast<int>(i), true}, laws.outputs()[i].dims());
  std::erase_if(all, [](const AxisLink& link) { return link.inputs.empty(); });
  return all;
}

class OpAxesLaws : public testing::TestWithParam<std::string> {};

// That the links are true, and that of the axes of which nothing is said no choice is one.
void expect_true_and_all(const std::string& what, const std::vector<std::string>& inputs, const std::vector<Laws>& drawn,
                         const OpAxes& said) {
  const auto holds = [&](const AxisLink& link) {
    return std::all_of(drawn.begin(), drawn.end(), [&](const Laws& laws) { return laws.holds(link, said.sizes); });
  };
  for (AxisLink link : said.links) {
    EXPECT_TRUE(holds(link)) << what << ": is not true: " << spelled(link);
    if (link.apart || drawn[0].size_of(link) < 3) continue;
    link.apart = true;
    EXPECT_FALSE(holds(link)) << what << ": is more than together: " << spelled(link);
  }
  std::set<std::int64_t> sizes;
  for (const Value& input : drawn[0].inputs())
    if (input.present()) sizes.insert(input.tensor().dims().begin(), input.tensor().dims().end());
  for (const std::int64_t n : sizes) {
    if (n < 3) continue;
    for (AxisLink link : choices(inputs, drawn[0], said, n))
      for (const bool apart : {true, false}) {
        link.apart = apart;
        if (!holds(link)) continue;
        ADD_FAILURE() << what << ": is forgotten: " << spelled(link);
        break;
      }
  }
}

TEST_P(OpAxesLaws, AreTrueAndTheOnlyOnes) {
  const Case c = case_of(GetParam());
  std::vector<Laws> drawn;
  for (std::uint32_t seed = 1; seed <= kDraws; ++seed) drawn.emplace_back(c.inputs, run_of(c), seed);
  ASSERT_TRUE(drawn[0].runs()) << c.line << ": does not run: " << make_evaluator()->evaluate(c.node, c.opset, drawn[0].inputs()).status();
  const auto said = axes_of(ViewOfRun(c, drawn[0].inputs(), drawn[0].outputs()));
  ASSERT_TRUE(said) << c.line << ": no line fits";
  expect_true_and_all(c.line, c.inputs, drawn, *said);
}

std::vector<std::string> all_cases() {
  std::vector<std::string> out = split(kCases, '\n');
  std::set<std::string> listed;
  for (const std::string& line : out) listed.insert(line.substr(0, line.find(' ')));
  for (const std::string_view op : operators_with(Trait::kReduction))
    for (const char* form : {" keepdims=0 : float[3,4,5] c(1)", " : float[3,4,5] c(0,2)", " : float[3,4,5]"})
      out.push_back(std::string(op) + form);
  for (const std::string_view op : operators_with_axes()) {
    if (listed.contains(std::string(op)) || has(Trait::kReduction, op) || !has(Trait::kElementwise, op)) continue;
    const OperatorTraits& traits = *traits_of(op);
    const OpSchema& schema = *schema_versions(traits.domain(), traits.op_type()).back();
    std::string dtype = "string";
    for (const char* each : {"bool", "int64", "float"})
      for (const auto& constraint : schema.constraints)
        if (constraint.name == schema.inputs[0].type && constraint.allows(*parse_dtype(each))) dtype = each;
    std::string line = std::string(op) + " : " + dtype + "[3,4,5]";
    if (schema.max_inputs > 1) line += " " + dtype + "[4,1] ";
    out.push_back(line);
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Forms, OpAxesLaws, testing::ValuesIn(all_cases()), [](const auto& info) {
  std::string name = info.param.substr(0, info.param.find(' '));
  std::replace(name.begin(), name.end(), '.', '_');
  return name + "_" + std::to_string(info.index);
});

bool of_tensors_alone(const OpSchema& schema) {
  const auto is_tensor = [](std::string_view type) { return type.starts_with("tensor("); };
  for (const auto* formals : {&schema.inputs, &schema.outputs})
    for (const OpSchema::Formal& formal : *formals) {
      if (is_tensor(formal.type)) continue;
      const auto found = std::find_if(schema.constraints.begin(), schema.constraints.end(),
                                      [&](const OpSchema::TypeConstraint& each) { return each.name == formal.type; });
      if (found == schema.constraints.end() || !std::all_of(found->types.begin(), found->types.end(), is_tensor)) return false;
    }
  return true;
}

TEST(OpAxesTable, KnowsAllThatRunOnTensors) {
  std::set<std::string> tried;
  for (const std::string& line : all_cases()) tried.insert(line.substr(0, line.find(' ')));
  for (const std::string_view op : operators_with_axes()) EXPECT_TRUE(tried.contains(std::string(op))) << op << " has no case";
  for (const char* domain : {"", "com.microsoft", "ai.onnx.ml"})
    for (const std::string& op : operator_names(domain)) {
      if (!has_kernel(domain, op) || has(Trait::kRandom, domain, op) || has(Trait::kControlFlow, domain, op)) continue;
      if (!of_tensors_alone(*schema_versions(domain, op).back()) || op == "ImageDecoder") continue;  // of which no file can be drawn
      EXPECT_TRUE(tells_axes(domain, op)) << domain << " " << op << " is not in the table";
    }
}

// What is known of a node of a body by a run in which all values came out.
class ViewInBody : public NodeView {
 public:
  ViewInBody(const Node& node, const std::map<std::string, Tensor>& values, const Graph& graph)
      : NodeView(node, kNewestOpset), values_(values), graph_(graph) {}
  std::optional<int> rank(Port port) const override { return values_.at(name(port)).rank(); }
  std::optional<std::int64_t> size(Port port, int axis) const override {
    return values_.at(name(port)).dims()[static_cast<std::size_t>(axis)];
  }
  bool same_sizes(Port a, int a_first, int a_last, Port b, int b_first, int b_last) const override {
    const auto product = [&](Port port, int first, int last) {
      const Shape& dims = values_.at(name(port)).dims();
      return std::accumulate(dims.begin() + first, dims.begin() + last, std::int64_t{1}, std::multiplies<>());
    };
    return product(a, a_first, a_last) == product(b, b_first, b_last);
  }
  std::optional<std::vector<std::int64_t>> ints(int input) const override {
    const std::string& value = name({input});
    for (const Initializer& each : graph_.initializers)
      if (each.name == value) return std::vector(each.tensor.span<std::int64_t>().begin(), each.tensor.span<std::int64_t>().end());
    return std::nullopt;
  }

 private:
  const std::map<std::string, Tensor>& values_;
  const Graph& graph_;
};

TEST(OpAxesOfBodies, AreTrueAndTheOnlyOnes) {
  for (const Body& body : kBodies) {
    absl::StatusOr<Model> model = parse_model_text("<ir_version: 10, opset_import: [\"\": 23]> " + std::string(body.text), "test");
    ASSERT_TRUE(model.ok()) << model.status();
    Model all = *model;
    for (ValueInfo& input : all.graph.inputs) input.type.shape.reset();
    for (ValueInfo& output : all.graph.outputs) output.type.shape.reset();
    for (const Node& node : all.graph.nodes)
      if (node.outputs[0] != all.graph.outputs[0].name) all.graph.outputs.push_back({node.outputs[0], all.graph.outputs[0].type, nullptr});
    const auto session = Session::create(all);
    ASSERT_TRUE(session.ok()) << session.status();
    std::map<std::string, Tensor> values;
    for (const Initializer& each : model->graph.initializers) values[each.name] = each.tensor;
    const RunOfTensors run = [&](const std::vector<Value>& inputs) -> std::optional<std::vector<Tensor>> {
      std::map<std::string, Value> by_name;
      for (std::size_t i = 0; i < inputs.size(); ++i) by_name[all.graph.inputs[i].name] = inputs[i];
      const auto made = session->run(by_name);
      if (!made.ok()) return std::nullopt;
      for (std::size_t i = 0; i < inputs.size(); ++i) values.emplace(all.graph.inputs[i].name, inputs[i].tensor());
      for (std::size_t i = 0; i < made->size(); ++i) values.emplace(all.graph.outputs[i].name, (*made)[i].tensor());
      return std::vector<Tensor>{(*made)[0].tensor()};
    };
    const auto inputs = split(body.inputs, ' ');
    std::vector<Laws> drawn;
    for (std::uint32_t seed = 1; seed <= kDraws; ++seed) drawn.emplace_back(inputs, run, seed);
    ASSERT_TRUE(drawn[0].runs()) << body.text;
    std::vector<std::string> names;
    for (const ValueInfo& input : model->graph.inputs) names.push_back(input.name);
    const std::vector<std::string> outputs{model->graph.outputs[0].name};
    const auto said = axes_of_body({model->graph.nodes, names, outputs},
                                   [&](const Node& node) { return std::make_unique<ViewInBody>(node, values, model->graph); });
    ASSERT_TRUE(said) << body.text;
    EXPECT_EQ(said->links.size(), static_cast<std::size_t>(body.links)) << body.text;
    expect_true_and_all(body.text, inputs, drawn, *said);
  }
}

}  // namespace
}  // namespace saturate::axes_test
