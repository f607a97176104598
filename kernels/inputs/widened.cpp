#include "kernels/inputs/widened.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace saturate {
namespace {

DType widened(DType dtype) { return is_16_bit_float(dtype) ? DType::kFloat : dtype; }

std::int64_t widened(std::int64_t dtype) { return static_cast<std::int64_t>(widened(static_cast<DType>(dtype))); }

void widen_type(ValueType& type) {
  type.dtype = widened(type.dtype);
  if (!type.element) return;
  ValueType element = *type.element;
  widen_type(element);
  type.element = std::make_shared<ValueType>(std::move(element));
}

void widen_graph(Graph& graph);

std::shared_ptr<const Graph> widened_body(const Graph& body) {
  Graph wide = body;
  widen_graph(wide);
  return std::make_shared<Graph>(std::move(wide));
}

void widen_attribute(Attribute& attribute) {
  if (auto* number = std::get_if<std::int64_t>(&attribute.value)) {
    if (one_of(attribute.name, {"to", "dtype", "output_dtype", "softmax_precision"})) *number = widened(*number);
  } else if (auto* tensor = std::get_if<Tensor>(&attribute.value)) {
    *tensor = widened(*tensor);
  } else if (auto* one = std::get_if<std::shared_ptr<const Graph>>(&attribute.value)) {
    *one = widened_body(**one);
  } else if (auto* many = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&attribute.value)) {
    for (auto& body : *many) body = widened_body(*body);
  } else {
    return;
  }
  attribute.raw = nullptr;
}

void widen_graph(Graph& graph) {
  for (auto* list : {&graph.inputs, &graph.outputs, &graph.value_info})
    for (ValueInfo& info : *list) {
      widen_type(info.type);
      info.origin = nullptr;
    }
  for (Initializer& weight : graph.initializers) {
    if (!is_16_bit_float(weight.tensor.dtype())) continue;
    weight.tensor = widened(weight.tensor);
    weight.origin = nullptr;
  }
  for (Node& node : graph.nodes) {
    for (Attribute& attribute : node.attributes) widen_attribute(attribute);
    node.origin = nullptr;
  }
}

}  // namespace

bool is_16_bit_float(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBfloat16; }

Tensor widened(const Tensor& tensor) {
  if (!is_16_bit_float(tensor.dtype())) return tensor;
  Tensor wide(DType::kFloat, tensor.dims());
  for (std::int64_t i = 0; i < tensor.size(); ++i) store_double(wide, i, *element_as_double(tensor, i));
  return wide;
}

Inputs widened(Inputs inputs) {
  for (auto& [name, value] : inputs)
    if (value.is_tensor()) value = widened(value.tensor());
  return inputs;
}

std::optional<Model> widened(const Model& model, std::size_t most) {
  if (!model.functions.empty()) return std::nullopt;
  const auto reads_bits = [](const Node& node) { return node.op_type == "BitCast"; };
  if (std::any_of(model.graph.nodes.begin(), model.graph.nodes.end(), reads_bits)) return std::nullopt;
  std::size_t bytes = 0;
  for (const Initializer& weight : model.graph.initializers)
    if (is_16_bit_float(weight.tensor.dtype())) {
      if (weight.sparse) return std::nullopt;
      bytes += 2 * weight.tensor.bytes().size();
    }
  if (bytes > most) return std::nullopt;
  Model wide = model;
  widen_graph(wide.graph);
  return wide;
}

Value narrowed(const Value& wide, const Value& reference) {
  if (!wide.is_tensor() || !reference.is_tensor()) return reference;
  const Tensor &from = wide.tensor(), &to = reference.tensor();
  if (from.dims() != to.dims() || !is_floating(to.dtype())) return reference;
  Tensor out(to.dtype(), to.dims());
  for (std::int64_t i = 0; i < to.size(); ++i) {
    const double there = *element_as_double(to, i), here = element_as_double(from, i).value_or(NAN);
    store_double(out, i, std::isfinite(there) && std::isfinite(here) ? here : there);
    if (!std::isfinite(*element_as_double(out, i))) store_double(out, i, there);
  }
  return out;
}

}  // namespace saturate
