#include <cmath>

#include "fmt/format.h"
#include "tools/api/saturate_impl.h"

namespace saturate::api {
namespace {

Operator::Attribute attribute_of(const saturate::Attribute& a) {
  switch (a.type) {
    case AttributeType::kFloat:
      return static_cast<double>(a.f());
    case AttributeType::kInt:
      return a.i();
    case AttributeType::kString:
      return a.s();
    case AttributeType::kFloats:
      return std::vector<double>(a.floats().begin(), a.floats().end());
    case AttributeType::kInts:
      return a.ints();
    case AttributeType::kStrings:
      return a.strings();
    default:
      return std::monostate();
  }
}

Operator::Type type_of(const Facts& facts, const DimTable& dims) {
  Operator::Type out;
  out.dtype = facts.kind == Facts::Kind::kTensor ? static_cast<std::int32_t>(facts.dtype) : 0;
  if (!facts.shape) return out;
  out.shape.emplace();
  for (const Dim d : *facts.shape) {
    const auto number = dims.value(d);
    if (number)
      out.shape->emplace_back(*number);
    else
      out.shape->emplace_back(dims.to_string(dims.canonical(d)));
  }
  return out;
}

// A caller's function as a cost model. What it says wrong is remembered: extraction has no way to fail by it.
class FunctionCost : public saturate::CostModel {
 public:
  FunctionCost(api::CostModel function, double constant_cost) : function_(std::move(function)), constant_cost_(constant_cost) {}
  std::string name() const override { return "function"; }
  double constant_cost(std::size_t bytes) const override { return constant_cost_ * static_cast<double>(bytes); }
  const std::string& error() const { return error_; }

  double cost(const OnnxEGraph& g, const ENode& node, Id id) const override {
    const OpKey& key = g.key(node.op);
    Operator op;
    op.domain = key.domain;
    op.op_type = key.op_type;
    for (const saturate::Attribute& a : key.attributes) op.attributes.emplace_back(a.name, attribute_of(a));
    for (const Id child : node.children) op.inputs.push_back(type_of(g.facts(child), g.dims()));
    const Facts& facts = g.facts(id);
    if (facts.kind == Facts::Kind::kTuple)
      for (const Facts& f : facts.elements) op.outputs.push_back(type_of(f, g.dims()));
    else
      op.outputs.push_back(type_of(facts, g.dims()));
    const double cost = function_(op);
    if (std::isfinite(cost) && cost >= 0) return cost;
    if (error_.empty()) error_ = fmt::format("cost model: {} costs {}; give a finite number of at least 0", key.op_type, cost);
    return 0;
  }

 private:
  api::CostModel function_;
  double constant_cost_;
  mutable std::string error_;
};

}  // namespace

std::unique_ptr<saturate::CostModel> make_cost_model(CostModel function, double constant_cost) {
  return std::make_unique<FunctionCost>(std::move(function), constant_cost);
}

std::string cost_model_error(const saturate::CostModel& model) {
  const auto* own = dynamic_cast<const FunctionCost*>(&model);
  return own ? own->error() : std::string();
}

}  // namespace saturate::api
