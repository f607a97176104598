#include "onnx_bridge/empty_dims.h"

#include <algorithm>
#include <map>
#include <vector>

namespace saturate {

bool fills(const DimTable& dims, Dim d, std::span<const std::string> symbols) {
  if (dims.positive(d)) return true;
  std::map<std::string, std::int64_t> ones;
  for (const std::string& name : symbols) ones.emplace(name, 1);
  const auto least = dims.evaluate(d, ones);
  return least && *least >= 1;
}

bool may_make_empty(const OnnxEGraph& g, const Lowered& lowered, const Model& model, Id target, Id result) {
  const auto& given = g.facts(target).content;
  const auto& made = g.facts(result).shape;
  const auto equal = [&](Dim a, Dim b) { return g.dims().equal(a, b); };
  if (!given || !made || !std::equal(given->begin(), given->end(), made->begin(), made->end(), equal)) return false;
  std::vector<std::string> symbols;
  for (const ValueInfo& input : model.graph.inputs)
    if (const Facts& f = g.facts(lowered.values.at(input.name)); f.shape)
      for (Dim d : *f.shape)
        if (auto name = g.dims().symbol_name(d)) symbols.push_back(*std::move(name));
  return std::any_of(made->begin(), made->end(), [&](Dim d) { return !fills(g.dims(), d, symbols); });
}

}  // namespace saturate
