#include "onnx_bridge/model/uncalled_functions.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace saturate {
namespace {

using Name = std::tuple<std::string, std::string, std::string>;  // domain, name, overload

Name name_of(const Function& f) { return {f.domain, f.name, f.overload}; }

bool other_opset(const Function& f, const Model& model) {
  const auto opset = f.opset_imports.find("");
  return opset != f.opset_imports.end() && opset->second != model.opset("");
}

class Calls {
 public:
  explicit Calls(const Model& model) : model_(model) {
    for (const Function& f : model.functions) open_.insert(name_of(f));
    visit(model.graph.nodes);
  }

  bool contains(const Function& f) const { return called_.contains(name_of(f)); }

 private:
  void visit(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      for (const Attribute& a : node.attributes)
        if (a.type == AttributeType::kGraph) visit(a.g().nodes);
      const Name name{node.domain, node.op_type, node.overload};
      if (open_.erase(name) == 0) continue;
      called_.insert(name);
      for (const Function& f : model_.functions)
        if (name_of(f) == name) visit(f.nodes);
    }
  }

  const Model& model_;
  std::set<Name> open_, called_;
};

}  // namespace

Model without_uncalled_functions(Model model, const Model& before) {
  if (model.functions.empty()) return model;
  const Calls now(model), then(before);
  const auto given = before.opset(""), opset = model.opset("");
  std::erase_if(model.functions,
                [&](const Function& f) { return !now.contains(f) && (then.contains(f) || (opset != given && other_opset(f, model))); });
  return model;
}

}  // namespace saturate
