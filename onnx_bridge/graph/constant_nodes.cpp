#include "onnx_bridge/graph/constant_nodes.h"

namespace saturate {

bool is_constant(const Node& node) {
  return node.op_type == "Constant" && node.domain.empty() && node.outputs.size() == 1 && node.attributes.size() == 1 &&
         node.attributes[0].ref.empty();
}

std::optional<Tensor> value_of(const Node& constant) {
  const Attribute& a = constant.attributes[0];
  if (!a.ref.empty()) return std::nullopt;  // a call gives it
  const auto length = [](const auto& list) { return Shape{static_cast<std::int64_t>(list.size())}; };
  if (a.name == "value" && std::holds_alternative<Tensor>(a.value)) return a.t();
  if (a.name == "value_float") return Tensor::of<float>(DType::kFloat, {}, std::vector{a.f()});
  if (a.name == "value_floats") return Tensor::of<float>(DType::kFloat, length(a.floats()), a.floats());
  if (a.name == "value_int") return Tensor::scalar_int64(a.i());
  if (a.name == "value_ints") return Tensor::vector_int64(a.ints());
  if (a.name == "value_string") return Tensor::strings({}, {a.s()});
  if (a.name == "value_strings") return Tensor::strings(length(a.strings()), a.strings());
  return std::nullopt;
}

}  // namespace saturate
