#include "kernels/inputs/types.h"

#include <algorithm>
#include <set>

#include "kernels/runtime/runtime.h"
#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/graph/names.h"

namespace saturate {
namespace {

std::set<std::string> declared_symbols(const Graph& graph) {
  std::set<std::string> names;
  for (const ValueInfo& input : graph.inputs)
    if (input.type.shape)
      for (const DimSpec& dim : *input.type.shape)
        if (const auto* name = std::get_if<std::string>(&dim)) names.insert(*name);
  return names;
}

DimSpec dim_of(const DimTable& dims, Dim d, const std::set<std::string>& declared) {
  if (const auto number = dims.value(d)) return *number;
  const auto name = dims.symbol_name(d);
  return name && declared.contains(*name) ? DimSpec(*name) : DimSpec();
}

}  // namespace

absl::StatusOr<std::map<std::string, ValueType>> inferred_types(const Model& model) {
  const auto evaluator = make_evaluator();
  OnnxEGraph g(*evaluator);
  const absl::StatusOr<Lowered> lowered = lower(model, g);
  if (!lowered.ok()) return lowered.status();
  const std::set<std::string> declared = declared_symbols(model.graph);
  std::map<std::string, ValueType> types;
  for (const auto& [name, id] : lowered->values) {
    const Facts& facts = g.facts(id);
    if (facts.kind != Facts::Kind::kTensor || facts.dtype == DType::kUndefined) continue;
    ValueType& type = types[name];
    type.kind = ValueType::Kind::kTensor;
    type.dtype = facts.dtype;
    if (!facts.shape) continue;
    type.shape.emplace();
    for (const Dim d : *facts.shape) type.shape->push_back(dim_of(g.dims(), d, declared));
  }
  return types;
}

std::optional<ValueInfo> info_with_rank(const Graph& graph, const std::string& value, const std::map<std::string, ValueType>& types) {
  const auto complete = [](const ValueType& type) {
    return type.kind == ValueType::Kind::kTensor ? type.shape.has_value() : type.kind != ValueType::Kind::kUnknown;
  };
  for (const auto* list : {&graph.inputs, &graph.outputs, &graph.value_info})
    if (const ValueInfo* info = find_named(*list, value); info && complete(info->type)) return *info;
  const auto it = types.find(value);
  return it == types.end() || !complete(it->second) ? std::nullopt : std::optional(ValueInfo{value, it->second, nullptr});
}

}  // namespace saturate
