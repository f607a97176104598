#include "tools/diff/interface.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace saturate {

std::vector<const ValueInfo*> given_inputs(const Model& model) {
  std::set<std::string_view> initializers;
  if (model.ir_version < 4)
    for (const Initializer& i : model.graph.initializers) initializers.insert(i.name);
  std::vector<const ValueInfo*> out;
  for (const ValueInfo& input : model.graph.inputs)
    if (!initializers.contains(input.name)) out.push_back(&input);
  return out;
}

std::vector<const ValueInfo*> outputs_of(const Model& model) {
  std::vector<const ValueInfo*> out;
  for (const ValueInfo& info : model.graph.outputs) out.push_back(&info);
  return out;
}

std::map<std::string, std::string> partners(const std::vector<const ValueInfo*>& first, const std::vector<const ValueInfo*>& second) {
  std::map<std::string, std::string> out;
  std::vector<const ValueInfo*> rest;
  std::set<std::string> taken;
  for (const ValueInfo* a : first) {
    const bool there = std::any_of(second.begin(), second.end(), [&](const ValueInfo* b) { return b->name == a->name; });
    if (there) out[a->name] = a->name, taken.insert(a->name);
    if (!there) rest.push_back(a);
  }
  std::vector<const ValueInfo*> others;
  for (const ValueInfo* b : second)
    if (!taken.contains(b->name)) others.push_back(b);
  for (std::size_t i = 0; rest.size() == others.size() && i < rest.size(); ++i)
    if (rest[i]->type.kind == others[i]->type.kind && rest[i]->type.dtype == others[i]->type.dtype) out[rest[i]->name] = others[i]->name;
  return out;
}

}  // namespace saturate
