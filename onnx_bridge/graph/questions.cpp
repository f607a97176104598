#include "onnx_bridge/graph/questions.h"

#include <algorithm>

#include "fmt/format.h"
#include "onnx_bridge/graph/constant_nodes.h"
#include "onnx_bridge/graph/graph_view.h"
#include "onnx_bridge/graph/names.h"
#include "onnx_bridge/model/subgraphs.h"

namespace saturate {

bool is_operator(const Node& node, std::string_view op_type, std::string_view domain) {
  return node.op_type == op_type && node.domain == domain;
}

std::size_t reads_of(const Graph& graph, const std::string& value) {
  const auto read =
      static_cast<std::size_t>(std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return reads(node, value); }));
  return read + (find_named(graph.outputs, value) ? 1 : 0);
}

const Tensor* constant_tensor(const Graph& graph, const std::string& value) {
  if (const Initializer* i = find_named(graph.initializers, value))
    return i->sparse || find_named(graph.inputs, value) ? nullptr : &i->tensor;
  const Node* node = producer_of(graph, value);
  if (!node) return nullptr;
  if (is_operator(*node, "Identity")) return constant_tensor(graph, node->inputs[0]);
  const Attribute* held = is_operator(*node, "Constant") ? find_attribute(node->attributes, "value") : nullptr;
  return held && std::holds_alternative<Tensor>(held->value) ? &held->t() : nullptr;
}

std::optional<std::vector<std::int64_t>> constant_ints(const Graph& graph, const std::string& value) {
  const Node* maker = producer_of(graph, value);
  const std::optional<Tensor> written = maker && is_constant(*maker) ? value_of(*maker) : std::nullopt;  // also value_ints
  const Tensor* tensor = written ? &*written : constant_tensor(graph, value);
  if (!tensor || tensor->dtype() != DType::kInt64 || !is_aligned(*tensor)) return std::nullopt;
  const auto all = tensor->span<std::int64_t>();
  return std::vector<std::int64_t>(all.begin(), all.end());
}

std::optional<std::size_t> rank_of(const std::map<std::string, ValueType>& types, const std::string& value) {
  const auto it = types.find(value);
  return it == types.end() || !it->second.shape ? std::nullopt : std::optional(it->second.shape->size());
}

std::optional<std::vector<std::int64_t>> static_dims(const std::map<std::string, ValueType>& types, const std::string& value) {
  if (!rank_of(types, value)) return std::nullopt;
  std::vector<std::int64_t> dims;
  for (const DimSpec& dim : *types.at(value).shape) {
    if (!std::holds_alternative<std::int64_t>(dim)) return std::nullopt;
    dims.push_back(std::get<std::int64_t>(dim));
  }
  return dims;
}

absl::Status wants_opset(const Model& model, std::int64_t least) {
  if (model.opset("") >= least) return absl::OkStatus();
  return absl::UnimplementedError(
      fmt::format("the model's opset is {}, and {} is needed; `saturate optimize --opset` writes it", model.opset(""), least));
}

Node make_node(std::string op_type, std::vector<std::string> inputs, std::string output, std::vector<Attribute> attributes,
               std::string domain) {
  Node node;
  node.op_type = std::move(op_type);
  node.domain = std::move(domain);
  node.inputs = std::move(inputs);
  node.outputs = {std::move(output)};
  node.attributes = std::move(attributes);
  return node;
}

}  // namespace saturate
