#include "onnx_bridge/convert/calls.h"

#include <optional>
#include <string>
#include <utility>

namespace saturate {
namespace {

// The call's attribute, or the function's default; nullopt where neither exists (the attribute is then absent).
std::optional<Attribute> bind_attribute(const Attribute& a, const Node& call, const Function& function) {
  if (a.ref.empty()) return a;
  const Attribute* bound = find_attribute(call.attributes, a.ref);
  if (!bound) bound = find_attribute(function.attribute_defaults, a.ref);
  if (!bound) return std::nullopt;
  Attribute copy = *bound;
  copy.name = a.name;
  return copy;
}

// Of a body's dims the numbers, and those that an input has; others are new symbols.
class DimsOfInputs {
 public:
  DimsOfInputs(DimTable& outside, DimTable& inside) : outside_(outside), inside_(inside) {}
  void add(const Facts& f) {
    for (const auto* list : {&f.shape, &f.content})
      for (const Dim d : list->value_or(std::vector<Dim>{})) known_.emplace_back(inside_.imported(outside_, d), d);
  }
  Facts facts_outside(const Facts& inside) const {
    Facts out;
    if (inside.kind == Facts::Kind::kTuple || inside.kind == Facts::Kind::kAbsent) return out;
    out.kind = inside.kind;
    out.dtype = inside.dtype;
    out.never_negative = inside.never_negative;
    if (inside.shape) out.shape.emplace();
    for (const Dim d : inside.shape.value_or(std::vector<Dim>{})) out.shape->push_back(outside_of(d));
    return out;
  }

 private:
  Dim outside_of(Dim inside) const {
    if (const auto number = inside_.value(inside)) return outside_.constant(*number);
    for (const auto& [here, there] : known_)
      if (inside_.equal(here, inside)) return there;
    const Dim made = outside_.fresh("unk");
    outside_.assume_non_negative(made);
    return made;
  }

  DimTable &outside_, &inside_;
  std::vector<std::pair<Dim, Dim>> known_;
};

}  // namespace

Node bind_attributes(const Node& node, const Node& call, const Function& function) {
  Node out = node;
  out.attributes.clear();
  for (const Attribute& a : node.attributes) {
    auto bound = bind_attribute(a, call, function);
    if (!bound) continue;
    if (bound->type == AttributeType::kGraph) {
      auto graph = std::make_shared<Graph>(bound->g());
      for (Node& inner : graph->nodes) inner = bind_attributes(inner, call, function);
      bound->value = std::shared_ptr<const Graph>(std::move(graph));
    }
    out.attributes.push_back(std::move(*bound));
  }
  return out;
}

std::vector<Facts> facts_of_call(const Model& model, const Function& function, const Node& call, const OnnxEGraph& g,
                                 std::span<const Id> inputs, const std::set<OperatorName>& kept) {
  Model body;
  body.ir_version = model.ir_version;
  body.opset_imports = function.opset_imports;
  body.functions = model.functions;
  std::set<std::string> absent;
  OnnxEGraph inside(g.evaluator());
  DimsOfInputs dims(g.dims(), inside.dims());
  LowerOptions options;
  options.kept = kept;
  for (std::size_t i = 0; i < function.inputs.size(); ++i) {
    if (i >= call.inputs.size() || call.inputs[i].empty()) {
      absent.insert(function.inputs[i]);
      continue;
    }
    options.captured[function.inputs[i]] = captured_value(g, inputs[i], inside.dims());
    dims.add(g.facts(inputs[i]));
  }
  for (const Node& node : function.nodes) {
    Node& bound = body.graph.nodes.emplace_back(bind_attributes(node, call, function));
    for (std::string& name : bound.inputs)
      if (absent.contains(name)) name.clear();
  }
  for (const std::string& name : function.outputs) body.graph.outputs.push_back({name, {}, nullptr});
  const auto lowered = lower(body, inside, options);
  std::vector<Facts> out;
  if (lowered.ok())
    for (const Id root : lowered->roots) out.push_back(dims.facts_outside(inside.facts(root)));
  return out;
}

}  // namespace saturate
