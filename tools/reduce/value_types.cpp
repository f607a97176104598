#include "tools/reduce/value_types.h"

#include <set>

#include "kernels/runtime/runtime.h"
#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/model/subgraphs.h"

namespace saturate {
namespace {

constexpr int kDeepest = 8;  // bodies in bodies

class TypeCollector {
 public:
  TypeCollector() : evaluator_(make_evaluator()) {}

  void collect(const Model& model, const LowerOptions& options, OnnxEGraph& g, int depth) {
    const auto lowered = lower(model, g, options);
    if (!lowered.ok()) return;
    for (const auto& [name, id] : lowered->values)
      if (!options.captured.contains(name)) note(name, g.facts(g.egraph().find(id)), g.dims());
    if (depth == kDeepest) return;
    for (const Node& node : model.graph.nodes)
      for (const Attribute& a : node.attributes) {
        if (a.type != AttributeType::kGraph) continue;
        const Model body = model_of_body(model, a.g());
        OnnxEGraph inside(*evaluator_);
        LowerOptions captured;
        captured.captured = capture(body.graph, g, *lowered, inside.dims());
        collect(body, captured, inside, depth + 1);
      }
  }

  ValueTypes run(const Model& model) {
    OnnxEGraph g(*evaluator_);
    collect(model, {}, g, 0);
    for (const std::string& name : several_) types_.erase(name);
    return std::move(types_);
  }

 private:
  void note(const std::string& name, const Facts& facts, const DimTable& dims) {
    ValueType type;
    if (facts.dtype == DType::kUndefined) return;
    if (facts.kind == Facts::Kind::kTensor) {
      type.kind = ValueType::Kind::kTensor;
      type.dtype = facts.dtype;
      if (facts.shape) {
        type.shape.emplace();
        for (const Dim d : *facts.shape) {
          const auto number = dims.value(d);
          type.shape->push_back(number ? DimSpec(*number) : DimSpec(dims.to_string(d)));
        }
      }
    } else if (facts.kind == Facts::Kind::kSequence || facts.kind == Facts::Kind::kOptional) {
      type.kind = facts.kind == Facts::Kind::kSequence ? ValueType::Kind::kSequence : ValueType::Kind::kOptional;
      type.element = std::make_shared<ValueType>(ValueType{ValueType::Kind::kTensor, facts.dtype, std::nullopt, nullptr});
    } else {
      return;
    }
    const auto [it, is_new] = types_.try_emplace(name, type);
    if (!is_new && (it->second.kind != type.kind || it->second.dtype != type.dtype || it->second.shape != type.shape))
      several_.insert(name);
  }

  std::unique_ptr<Evaluator> evaluator_;
  ValueTypes types_;
  std::set<std::string> several_;
};

}  // namespace

ValueTypes value_types(const Model& model) { return TypeCollector().run(model); }

std::string pack_types(const ValueTypes& types) {
  Model model;
  for (const auto& [name, type] : types) model.graph.inputs.push_back({name, type, nullptr});
  absl::StatusOr<std::string> bytes = serialize_model(model);
  return bytes.ok() ? *std::move(bytes) : std::string();
}

ValueTypes unpack_types(std::string_view bytes) {
  ValueTypes types;
  const absl::StatusOr<Model> model = parse_model(bytes, "");
  if (!model.ok()) return types;
  for (const ValueInfo& input : model->graph.inputs) types[input.name] = input.type;
  return types;
}

}  // namespace saturate
