#include <set>

#include "kernels/verify/verify.h"
#include "onnx_bridge/model/function_index.h"
#include "onnx_bridge/operators/random_nodes.h"

namespace saturate {
namespace {

// Without a seed; one in training draws others each time in any case.
bool is_random_operator(const Node& node) { return may_draw(node) && (training_input(node) || !find_attribute(node.attributes, "seed")); }

class RandomTaint {
 public:
  explicit RandomTaint(const Model& model) : by_name_(model.functions) {}

  // Names of values of the graph that depend on chance; `tainted` holds those it captures.
  std::set<std::string> graph(const Graph& graph, std::set<std::string> tainted) {
    nodes(graph.nodes, graph.initializers, tainted);
    return tainted;
  }

 private:
  void nodes(const std::vector<Node>& list, const std::vector<Initializer>& initializers, std::set<std::string>& tainted) {
    std::map<std::string, bool> flags;  // constant booleans: Dropout's training_mode
    for (const Initializer& i : initializers)
      if (i.tensor.dtype() == DType::kBool && i.tensor.size() == 1) flags[i.name] = element_as_int(i.tensor, 0).value_or(1) != 0;
    for (const Node& node : list) {
      if (node.op_type == "Constant")
        if (const Attribute* v = find_attribute(node.attributes, "value");
            v && std::holds_alternative<Tensor>(v->value) && v->t().dtype() == DType::kBool && v->t().size() == 1)
          flags[node.outputs[0]] = element_as_int(v->t(), 0).value_or(1) != 0;
      if (!depends(node, flags, tainted)) continue;
      for (const std::string& output : node.outputs)
        if (!output.empty()) tainted.insert(output);
    }
  }
  bool depends(const Node& node, const std::map<std::string, bool>& flags, const std::set<std::string>& tainted) {
    if (is_random_operator(node)) {
      const auto place = training_input(node);
      const auto flag = place ? flags.find(node.inputs[*place]) : flags.end();
      if (flag == flags.end() || flag->second) return true;
    }
    for (const std::string& input : node.inputs)
      if (tainted.contains(input)) return true;
    for (const Attribute& attribute : node.attributes) {
      if (attribute.type == AttributeType::kGraph && attribute.ref.empty() && body_depends(attribute.g(), tainted)) return true;
    }
    return function_depends(node);
  }
  bool body_depends(const Graph& body, const std::set<std::string>& outer) {
    for (const std::string& name : captured_names(body))
      if (outer.contains(name)) return true;
    return !graph(body, {}).empty();
  }
  bool function_depends(const Node& node) {
    const Function* f = by_name_.called(node);
    if (f == nullptr) return false;
    if (const auto known = functions_.find(f); known != functions_.end()) return known->second;
    functions_[f] = false;  // also stops a recursive definition
    std::set<std::string> tainted;
    nodes(f->nodes, {}, tainted);
    return functions_[f] = !tainted.empty();
  }

  const FunctionIndex by_name_;
  std::map<const Function*, bool> functions_;
};

}  // namespace

std::vector<std::string> random_outputs(const Model& model) {
  const std::set<std::string> tainted = RandomTaint(model).graph(model.graph, {});
  std::vector<std::string> out;
  for (const ValueInfo& output : model.graph.outputs)
    if (tainted.contains(output.name)) out.push_back(output.name);
  return out;
}

}  // namespace saturate
