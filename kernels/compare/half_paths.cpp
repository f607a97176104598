#include "kernels/compare/half_paths.h"

#include <algorithm>
#include <optional>
#include <set>

#include "kernels/compare/noise.h"
#include "kernels/inputs/widened.h"
#include "onnx_bridge/model/function_index.h"
#include "onnx_bridge/model/subgraphs.h"
#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

// Attributes that name the type in which an operator computes, or that it gives.
constexpr std::string_view kTypeAttributes[] = {"to", "dtype", "output_dtype", "softmax_precision", "stash_type"};

std::optional<DType> named_dtype(const Node& node) {
  for (const Attribute& a : node.attributes)
    if (a.type == AttributeType::kInt &&
        std::find(std::begin(kTypeAttributes), std::end(kTypeAttributes), a.name) != std::end(kTypeAttributes))
      return static_cast<DType>(a.i());
  return std::nullopt;
}

// Follows values from inputs to outputs.
class HalfWalk {
 public:
  explicit HalfWalk(const Model& model) : model_(model) {
    for (const ValueInfo& input : model.graph.inputs) values_[input.name] = {input.type.dtype, HalfPath::kNone, false};
    for (const Initializer& i : model.graph.initializers) values_[i.name] = {i.tensor.dtype(), HalfPath::kNone, true};
    for (const auto* list : {&model.graph.value_info, &model.graph.outputs})
      for (const ValueInfo& info : *list)
        if (info.type.kind == ValueType::Kind::kTensor) declared_[info.name] = info.type.dtype;
    for (const Node& node : model.graph.nodes) see(node);
  }

  HalfPath of(const std::string& value) const {
    const auto it = values_.find(value);
    return it == values_.end() ? HalfPath::kComputed : it->second.path;
  }

 private:
  struct Known {
    std::optional<DType> dtype;
    HalfPath path = HalfPath::kNone;
    bool constant = false;
  };

  void see(const Node& node) {
    Known in{std::nullopt, HalfPath::kNone, true};
    bool reads_half = false;
    const auto read = [&](const std::string& name) {
      const auto it = values_.find(name);
      if (it == values_.end()) return;
      in.path = std::max(in.path, it->second.path);
      in.constant = in.constant && it->second.constant;
      reads_half = reads_half || (it->second.dtype && is_16_bit_float(*it->second.dtype));
    };
    for (const std::string& input : node.inputs) read(input);
    bool has_body = functions_.called(node) != nullptr;
    for_each_body(node, [&](const Graph& body) {
      has_body = true;
      for (const std::string& name : captured_names(body)) read(name);
    });
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const std::optional<DType> dtype = dtype_of(node, o);
      values_[node.outputs[o]] = {dtype, has_body ? path_of_body(in.path) : path_of(node, dtype, in, reads_half), in.constant && !has_body};
    }
  }

  HalfPath path_of_body(HalfPath in) {
    if (!any_half_) any_half_ = is_16_bit_float(coarsest_float(model_, Bodies::kToo));
    return *any_half_ ? HalfPath::kComputed : in;
  }

  static HalfPath path_of(const Node& node, std::optional<DType> dtype, const Known& in, bool reads_half) {
    if (in.constant) return HalfPath::kNone;  // folded, or not: the same numbers
    const bool gives_half = dtype ? is_16_bit_float(*dtype) : reads_half;
    const bool moves = has(Trait::kMovement, node) || has(Trait::kSelection, node) || node.op_type == "Identity";
    const bool casts = node.domain.empty() && one_of(node.op_type, {"Cast", "CastLike"});
    if (moves || (casts && !gives_half)) return in.path;
    if (casts) return reads_half ? in.path : std::max(in.path, HalfPath::kRounded);
    const std::optional<DType> named = named_dtype(node);
    return gives_half || (named && is_16_bit_float(*named)) ? HalfPath::kComputed : in.path;
  }

  std::optional<DType> dtype_of(const Node& node, std::size_t output) const {
    if (const auto it = declared_.find(node.outputs[output]); it != declared_.end() && it->second != DType::kUndefined) return it->second;
    if (node.op_type == "Cast") return named_dtype(node);
    if (node.op_type == "Constant")
      if (const Attribute* value = find_attribute(node.attributes, "value"); value && std::holds_alternative<Tensor>(value->value))
        return value->t().dtype();
    const OpSchema* schema = find_schema(node.domain, node.op_type, model_.opset(node.domain));
    if (!schema || schema->outputs.empty()) return std::nullopt;
    const std::string_view type = schema->outputs[std::min(output, schema->outputs.size() - 1)].type;
    if (const auto only = dtype_of_tensor(type)) return only;
    for (std::size_t i = 0; i < node.inputs.size() && !schema->inputs.empty(); ++i) {
      if (schema->inputs[std::min(i, schema->inputs.size() - 1)].type != type) continue;
      if (const auto it = values_.find(node.inputs[i]); it != values_.end() && it->second.dtype) return it->second.dtype;
    }
    return std::nullopt;
  }

  const Model& model_;
  const FunctionIndex functions_{model_.functions};
  std::map<std::string, Known> values_;
  std::map<std::string, DType> declared_;
  std::optional<bool> any_half_;
};

}  // namespace

std::map<std::string, HalfPath> half_paths(const Model& model) {
  std::map<std::string, HalfPath> out;
  if (!is_16_bit_float(coarsest_float(model, Bodies::kToo))) return out;
  const HalfWalk walk(model);
  for (const ValueInfo& output : model.graph.outputs) out[output.name] = walk.of(output.name);
  return out;
}

}  // namespace saturate
