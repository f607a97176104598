#include "onnx_bridge/convert/quantized_groups.h"

#include <algorithm>
#include <unordered_map>

#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

constexpr int kMaxViews = 8, kMaxDepth = 8;

bool is_one_of(const Node& node, std::initializer_list<std::string_view> names) {
  return (node.domain.empty() || node.domain == "com.microsoft") && std::find(names.begin(), names.end(), node.op_type) != names.end();
}

bool dequantizes(const Node& node) { return is_one_of(node, {"DequantizeLinear"}); }
bool quantizes(const Node& node) { return is_one_of(node, {"QuantizeLinear"}); }
// A runtime computes them in integers; it knows no Einsum of integers.
bool is_product(const Node& node) { return has(Trait::kBilinear, node) && !has(Trait::kElementwise, node) && node.op_type != "Einsum"; }

class QuantizedGroupFinder {
 public:
  explicit QuantizedGroupFinder(const Graph& graph) : graph_(graph) {
    for (const Node& node : graph.nodes) {
      for (const std::string& name : node.outputs) maker_[name] = &node;
      for (const std::string& name : node.inputs) readers_[name].push_back(&node);
    }
    for (const ValueInfo& output : graph.outputs) readers_[output.name].push_back(nullptr);
    for (const Initializer& i : graph.initializers) constants_.insert(i.name);
    for (const ValueInfo& input : graph.inputs) constants_.erase(input.name);
    for (const Node& node : graph.nodes)  // sorted
      if (is_constant(node)) constants_.insert(node.outputs.begin(), node.outputs.end());
  }

  std::unordered_set<const Node*> run() const {
    std::unordered_set<const Node*> kept;
    if (std::none_of(graph_.nodes.begin(), graph_.nodes.end(), quantizes)) return kept;
    for (const Node& node : graph_.nodes)
      if ((dequantizes(node) && !is_quantized_again(node, 0)) || is_integer_product(node) || stands_between(node)) kept.insert(&node);
    return kept;
  }

 private:
  bool is_dequantized(const std::string& name, int views) const {
    for (auto it = maker_.find(name); it != maker_.end(); it = maker_.find(it->second->inputs[0])) {
      if (dequantizes(*it->second)) return true;
      if (views-- == 0 || !has(Trait::kPermutation, *it->second) || it->second->inputs.empty()) return false;
    }
    return false;
  }

  bool is_constant(const Node& node) const {
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [this](const std::string& i) { return i.empty() || constants_.contains(i); });
  }

  // Ends in integers whoever reads it, at once or, `kMaxDepth - depth` operators further at most, as a constant.
  bool is_quantized_again(const Node& node, int depth) const {
    return std::all_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& name) {
      const auto it = readers_.find(name);
      return it != readers_.end() && std::all_of(it->second.begin(), it->second.end(), [&](const Node* n) {
               return n && (quantizes(*n) || (depth < kMaxDepth && is_constant(*n) && is_quantized_again(*n, depth + 1)));
             });
    });
  }

  bool is_integer_product(const Node& node) const {
    return is_product(node) && node.inputs.size() >= 2 && is_dequantized(node.inputs[0], kMaxViews) &&
           is_dequantized(node.inputs[1], kMaxViews);
  }

  bool stands_between(const Node& node) const {
    if (node.inputs.empty() || has(Trait::kPermutation, node) || quantizes(node) || is_constant(node)) return false;
    const auto dequantized = [this](const std::string& name) { return name.empty() || is_dequantized(name, 0); };
    return std::all_of(node.inputs.begin(), node.inputs.end(), dequantized) && is_quantized_again(node, kMaxDepth);
  }

  const Graph& graph_;
  std::unordered_set<std::string> constants_;
  std::unordered_map<std::string, const Node*> maker_;
  std::unordered_map<std::string, std::vector<const Node*>> readers_;  // nullptr: the graph's outputs
};

}  // namespace

std::unordered_set<const Node*> quantized_nodes(const Graph& graph) { return QuantizedGroupFinder(graph).run(); }

}  // namespace saturate
