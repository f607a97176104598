// Fused operators of com.microsoft taken apart, so that what a session does with the standard's operators is done with them, too.
#include <algorithm>
#include <optional>

#include "kernels/conv/conv.h"
#include "kernels/core/registry.h"
#include "kernels/elementwise/activation.h"
#include "kernels/session/graph.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {
namespace {

class Expander {
 public:
  explicit Expander(SessionGraph& g) : g_(g) {}

  void run() {
    std::vector<Node> nodes = std::move(g_.graph.nodes);
    for (Node& node : nodes) {
      if (node.domain != kMicrosoft || node.outputs.size() != 1 || node.inputs.empty() || !expand(node)) out_.push_back(std::move(node));
    }
    g_.graph.nodes = std::move(out_);
    g_.count_uses();
  }

 private:
  static std::string text_of(const Node& node, std::string_view name) {
    const Attribute* a = find_attribute(node.attributes, name);
    return a != nullptr && a->type == AttributeType::kString ? a->s() : std::string();
  }
  static bool has_input(const Node& node, std::size_t i) { return i < node.inputs.size() && !node.inputs[i].empty(); }

  bool expand(const Node& node) {
    if (node.op_type == "FusedConv") return fused_conv(node);
    if (node.op_type == "FusedGemm") return fused_gemm(node);
    if (node.op_type == "QuickGelu") return quick_gelu(node);
    if (node.op_type == "Gelu" && node.inputs.size() == 1) return emit(node, "Gelu", {node.inputs[0]}, node.outputs[0]), true;
    if (node.op_type == "BiasGelu" && node.inputs.size() == 2) return gelu_of_sum(node, {});
    if (node.op_type == "FastGelu") return gelu_of_sum(node, {Attribute::of("approximate", std::string("tanh"))});
    return false;
  }

  void emit(const Node& from, std::string op, std::vector<std::string> inputs, const std::string& result,
            std::vector<Attribute> attributes = {}) {
    out_.push_back({from.name, std::move(op), "", "", std::move(inputs), {result}, std::move(attributes), nullptr});
  }

  std::string number(const Node& node, float value) {
    const std::string name = g_.fresh(node.outputs[0]);
    g_.add_constant(name, Tensor::of<float>(DType::kFloat, {}, std::span(&value, 1)));
    return name;
  }

  bool fused_conv(const Node& node) {
    const std::string activation = text_of(node, "activation");
    const Attribute* given = find_attribute(node.attributes, "activation_params");
    const std::vector<float> params = given != nullptr && given->type == AttributeType::kFloats ? given->floats() : std::vector<float>();
    const bool clip = activation == "Clip" && params.size() == 2 && params[0] <= params[1] && g_.opset >= 11;
    const bool plain = params.empty() && is_conv_activation(activation);
    if (g_.opset < 7 || node.inputs.size() < 2 || (!activation.empty() && !clip && !plain)) return false;
    std::vector<Attribute> attributes = node.attributes;
    std::erase_if(attributes, [](const Attribute& a) { return a.name == "activation" || a.name == "activation_params"; });
    std::vector<std::string> inputs(node.inputs.begin(),
                                    node.inputs.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(3, node.inputs.size())));
    const bool residual = has_input(node, 3);
    std::string value = residual || !activation.empty() ? g_.fresh(node.outputs[0]) : node.outputs[0];
    emit(node, "Conv", std::move(inputs), value, std::move(attributes));
    if (residual) {
      const std::string sum = activation.empty() ? node.outputs[0] : g_.fresh(node.outputs[0]);
      emit(node, "Add", {value, node.inputs[3]}, sum);
      value = sum;
    }
    if (clip)
      emit(node, "Clip", {value, number(node, params[0]), number(node, params[1])}, node.outputs[0]);
    else if (plain)
      emit(node, activation, {value}, node.outputs[0]);
    return true;
  }

  bool fused_gemm(const Node& node) {
    const std::string activation = text_of(node, "activation");
    const OpSchema* schema = find_schema("", activation, kNewestOpset);
    if (!activation_function(activation, {}, {}) || !schema || !schema->attributes.empty()) return false;
    std::vector<Attribute> attributes = node.attributes;
    std::erase_if(attributes, [](const Attribute& a) { return a.name.starts_with("activation"); });
    const std::string value = g_.fresh(node.outputs[0]);
    emit(node, "Gemm", node.inputs, value, std::move(attributes));
    emit(node, activation, {value}, node.outputs[0]);
    return true;
  }

  // x * Sigmoid(alpha x), alpha 1.702 where it isn't given.
  bool quick_gelu(const Node& node) {
    const Attribute* alpha = find_attribute(node.attributes, "alpha");
    if (node.inputs.size() != 1 || alpha == nullptr || alpha->type != AttributeType::kFloat || alpha->f() != 1.0f) return false;
    emit(node, "Swish", {node.inputs[0]}, node.outputs[0]);
    return true;
  }

  bool gelu_of_sum(const Node& node, std::vector<Attribute> attributes) {
    if (g_.opset < 7 || node.inputs.size() > 2) return false;
    std::string value = node.inputs[0];
    if (has_input(node, 1)) {
      value = g_.fresh(node.outputs[0]);
      emit(node, "Add", {node.inputs[0], node.inputs[1]}, value);
    }
    emit(node, "Gelu", {value}, node.outputs[0], std::move(attributes));
    return true;
  }

  SessionGraph& g_;
  std::vector<Node> out_;
};

}  // namespace

void expand_fused(SessionGraph& g) {
  if (std::any_of(g.graph.nodes.begin(), g.graph.nodes.end(), [](const Node& n) { return n.domain == kMicrosoft; })) Expander(g).run();
}

}  // namespace saturate
