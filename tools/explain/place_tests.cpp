#include "tools/explain/place_tests.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "onnx_bridge/graph/questions.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/integer_kernels.h"
#include "onnx_bridge/operators/op_questions.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

constexpr std::size_t kMostLookedAt = 96;  // operators between a Softmax and its products

bool is_standard(const Node& node, std::initializer_list<std::string_view> ops) { return node.domain.empty() && one_of(node.op_type, ops); }

// A product of matrices, windows or tensors, also in integers.
bool multiplies(const Node& node) {
  const IntegerKernel* integer = integer_kernel(operator_name(node.domain, node.op_type));
  const auto of = [](std::string_view op) { return has(Trait::kBilinear, op) && !has(Trait::kElementwise, op); };
  return integer ? of(integer->plain) : has(Trait::kBilinear, node) && !has(Trait::kElementwise, node);
}

// The same numbers, but for another shape, type or scale.
bool is_copy(const Node& node) { return has(Trait::kView, node) || is_standard(node, {"Cast", "QuantizeLinear", "DequantizeLinear"}); }

// What a score stays on its way through: an operator of one operand, whatever it makes of it; scales, masks, caps, views and casts.
bool hands_on(const Node& node) {
  const bool is_simple = node.inputs.size() == 1 && !gives_places(node);
  return is_simple || has(Trait::kElementwise, node) || has(Trait::kSelection, node) || is_copy(node) ||
         is_standard(node, {"Pad", "Dropout"});
}

}  // namespace

PlaceTests::PlaceTests(const Graph& graph) : view_(graph) {
  std::set<std::string> constants;
  for (const Initializer& i : graph.initializers) constants.insert(i.name);
  for (const ValueInfo& input : graph.inputs)
    if (!constants.contains(input.name)) varies_.insert(input.name);
  for (const Node& node : graph.nodes) {
    const auto is_varying = [&](const std::string& i) { return !i.empty() && !constants.contains(i); };
    const bool varying = has_body(node.attributes) || std::any_of(node.inputs.begin(), node.inputs.end(), is_varying);
    for (const std::string& output : node.outputs) (varying ? varies_ : constants).insert(output);
    for (const std::string& input : node.inputs)
      if (is_varying(input)) varies_.insert(input);  // of an outer graph
  }
}

// Of two operands that vary; a sum of products counts as one.
bool PlaceTests::is_product(const Node& node) const {
  const auto count = [&](const Node& n) {
    return std::count_if(n.inputs.begin(), n.inputs.end(), [&](const std::string& i) { return varies(i); });
  };
  if (multiplies(node)) return count(node) >= 2;
  if (node.op_type != "ReduceSum" || node.inputs.empty()) return false;
  const Node* maker = view_.producer(node.inputs[0]);
  return maker && maker->op_type == "Mul" && count(*maker) >= 2;
}

bool PlaceTests::has_scores(const Node& softmax) const {
  std::vector<std::pair<std::string, bool>> todo{{softmax.inputs[0], false}};  // with whether heads were mixed
  std::set<std::string> seen;
  for (std::size_t i = 0; i < todo.size() && i < kMostLookedAt; ++i) {
    const auto [value, mixed] = todo[i];
    const Node* node = view_.producer(value);
    if (!node || !seen.insert(value).second) continue;
    if (is_product(*node)) return true;
    const bool mixes = multiplies(*node);
    if (mixes ? mixed : !hands_on(*node)) continue;
    for (const std::string& input : node->inputs)
      if (varies(input)) todo.emplace_back(input, mixed || mixes);
  }
  return false;
}

bool PlaceTests::weighs_values(const Node& softmax) const {
  std::vector<std::pair<std::string, bool>> todo{{softmax.outputs[0], false}};
  std::set<std::string> seen;
  for (std::size_t i = 0; i < todo.size() && i < kMostLookedAt; ++i) {
    const auto [value, mixed] = todo[i];
    if (!seen.insert(value).second) continue;
    for (const auto& [user, input] : view_.uses(value)) {
      if (is_product(*user)) return true;
      const bool mixes = multiplies(*user);
      if (mixes ? !mixed : hands_on(*user) || user->op_type == "ReduceSum")
        for (const std::string& output : user->outputs) todo.emplace_back(output, mixed || mixes);
    }
  }
  return false;
}

bool PlaceTests::attends(const Node& softmax) const {
  return !softmax.inputs.empty() && !softmax.outputs.empty() && has_scores(softmax) && weighs_values(softmax);
}

// What a value is a copy or a multiple of.
const std::string& PlaceTests::origin(const std::string& value) const {
  const std::string* at = &value;
  for (std::size_t steps = 0; steps < 4; ++steps) {
    const Node* maker = view_.producer(*at);
    if (!maker || !(is_copy(*maker) || is_operator(*maker, "Mul"))) break;
    const auto varying = [&](const std::string& i) { return varies(i); };
    if (std::count_if(maker->inputs.begin(), maker->inputs.end(), varying) != 1) break;
    at = &*std::find_if(maker->inputs.begin(), maker->inputs.end(), varying);
  }
  return *at;
}

bool PlaceTests::activates(const Node& node) const {
  const bool tanh = node.op_type == "Tanh", sigmoid = node.op_type == "Sigmoid" || node.op_type == "HardSigmoid";
  if ((!tanh && !sigmoid) || node.inputs.empty()) return true;
  std::vector<std::string> values{node.outputs[0]};
  for (std::size_t i = 0; i < values.size() && i < kMostLookedAt; ++i) {
    for (const auto& [user, place] : view_.uses(values[i])) {
      const auto is_other = [&](const std::string& input) {
        return input != values[i] && (tanh ? !varies(input) : origin(input) == origin(node.inputs[0]));
      };
      if (user->op_type == (tanh ? "Add" : "Mul") && std::any_of(user->inputs.begin(), user->inputs.end(), is_other)) return true;
      if (is_copy(*user)) values.push_back(user->outputs[0]);
    }
  }
  return false;
}

}  // namespace saturate
