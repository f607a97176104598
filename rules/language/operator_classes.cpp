#include "rules/language/operator_classes.h"

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {

std::optional<std::vector<std::string>> operators_of_class(std::string_view name) {
  const auto trait = trait_named(name);
  if (!trait) return std::nullopt;
  std::vector<std::string> out;
  for (const std::string_view op : operators_with(*trait)) {
    const std::size_t dot = op.rfind('.');
    const bool standard = dot == std::string_view::npos;
    if (newest_schema(standard ? "" : op.substr(0, dot), standard ? op : op.substr(dot + 1)) != nullptr) out.emplace_back(op);
  }
  return out;
}

std::string operator_classes() {
  std::string out;
  for (int i = 0; i < kTraits; ++i) {
    if (i > 0) out += ", ";
    out += trait_name(static_cast<Trait>(i));
  }
  return out;
}

}  // namespace saturate
