#include "tools/transform/edit.h"

#include <unordered_set>

#include "onnx_bridge/graph/names.h"
#include "onnx_bridge/model/subgraphs.h"

namespace saturate {

std::string add_constant(Work& work, const std::string& like, Tensor tensor) {
  const std::string name = work.fresh(like);
  work.graph().initializers.push_back({name, std::move(tensor), nullptr, false});
  return name;
}

std::string add_ints(Work& work, const std::string& like, const std::vector<std::int64_t>& values) {
  return add_constant(work, like, Tensor::vector_int64(values));
}

void drop_unread_nodes(Work& work) {
  std::unordered_set<std::string> kept;
  for (const ValueInfo& v : work.graph().inputs) kept.insert(v.name);
  erase_unread(work.graph(), kept);
  const auto left = defined_names(work.graph());
  std::erase_if(work.graph().value_info, [&](const ValueInfo& v) { return !left.contains(v.name); });
  std::erase_if(work.ties.values, [&](const auto& value) { return !left.contains(value.first); });
}

}  // namespace saturate
