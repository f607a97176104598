#include "onnx_bridge/model/uncalled_functions.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace saturate {
namespace {

using Name = std::tuple<std::string_view, std::string_view, std::string_view>;  // domain, name, overload

Name name_of(const Function& f) { return {f.domain, f.name, f.overload}; }

bool other_opset(const Function& f, const Model& model) {
  const auto opset = f.opset_imports.find("");
  return opset != f.opset_imports.end() && opset->second != model.opset("");
}

class Calls {
 public:
  explicit Calls(const Model& model) {
    for (const Function& f : model.functions) open_[name_of(f)].push_back(&f);
    visit(model.graph.nodes);
  }

  bool contains(const Function& f) const { return called_.contains(name_of(f)); }

 private:
  void visit(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      for (const Attribute& a : node.attributes)
        if (a.type == AttributeType::kGraph) visit(a.g().nodes);
      const auto open = open_.extract(Name{node.domain, node.op_type, node.overload});
      if (open.empty()) continue;
      called_.insert(open.key());
      for (const Function* f : open.mapped()) visit(f->nodes);
    }
  }

  std::map<Name, std::vector<const Function*>> open_;
  std::set<Name> called_;
};

}  // namespace

Model without_uncalled_functions(Model model, const Model& before) {
  if (model.functions.empty()) return model;
  const Calls now(model), then(before);
  const auto given = before.opset(""), opset = model.opset("");
  const auto goes = [&](const Function& f) { return !now.contains(f) && (then.contains(f) || (opset != given && other_opset(f, model))); };
  std::vector<Function> kept;  // names are looked up in those that are there: none is moved before all are told
  std::vector<bool> going;
  for (const Function& f : model.functions) going.push_back(goes(f));
  for (std::size_t i = 0; i < going.size(); ++i)
    if (!going[i]) kept.push_back(std::move(model.functions[i]));
  model.functions = std::move(kept);
  return model;
}

}  // namespace saturate
