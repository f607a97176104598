#include "onnx_bridge/convert/captured.h"

#include "onnx_bridge/convert/lower.h"

namespace saturate {

Captured captured_value(const OnnxEGraph& outside, Id id, DimTable& dims) {
  const Facts& known = outside.facts(id);
  Captured out;
  out.facts.kind = known.kind;
  out.facts.dtype = known.dtype;
  if (known.kind != Facts::Kind::kTensor) return out;
  const auto imported = [&](const std::optional<std::vector<Dim>>& list) {
    std::optional<std::vector<Dim>> here;
    if (list) here.emplace();
    for (const Dim d : list.value_or(std::vector<Dim>{})) here->push_back(dims.imported(outside.dims(), d));
    return here;
  };
  out.facts.shape = imported(known.shape);
  out.facts.content = imported(known.content);
  if (known.counts_from) out.facts.counts_from = dims.imported(outside.dims(), *known.counts_from);
  if (known.constant) out.constant = known.value ? known.value : outside.value(id);
  return out;
}

std::map<std::string, Captured> capture(const Graph& body, const OnnxEGraph& outside, const Lowered& values, DimTable& dims) {
  std::map<std::string, Captured> out;
  for (const std::string& name : captured_names(body))
    if (const auto it = values.values.find(name); it != values.values.end()) out[name] = captured_value(outside, it->second, dims);
  return out;
}

}  // namespace saturate
