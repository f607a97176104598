#include "onnx_bridge/model/constant_inputs.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace saturate {
namespace {

template <typename Named>
std::set<std::string> names_of_all(const std::vector<Named>& list) {
  std::set<std::string> names;
  for (const Named& n : list) names.insert(n.name);
  return names;
}

}  // namespace

void settle_constant_inputs(Model& out, const Model& original) {
  if (original.ir_version >= 4) return;
  const std::set<std::string> inputs = names_of_all(original.graph.inputs), before = names_of_all(original.graph.initializers),
                              written = names_of_all(out.graph.initializers);
  const auto among_inputs = [&](const std::set<std::string>& names) {
    return std::includes(inputs.begin(), inputs.end(), names.begin(), names.end());
  };
  if (among_inputs(before) && !among_inputs(written)) out.ir_version = std::max<std::int64_t>(out.ir_version, 4);
  std::erase_if(out.graph.inputs,
                [&](const ValueInfo& v) { return before.contains(v.name) && (out.ir_version >= 4 || !written.contains(v.name)); });
}

}  // namespace saturate
