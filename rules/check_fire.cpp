#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "onnx_bridge/canonical.h"
#include "rules/check_run.h"

namespace saturate {
namespace {

Facts input_facts(const Tensor& t, DimTable& dims) {
  Facts f;
  f.kind = Facts::Kind::kTensor;
  f.dtype = t.dtype();
  f.shape.emplace();
  for (std::int64_t d : t.dims()) f.shape->push_back(dims.constant(d));
  return f;
}

// The left side of a rule as e-nodes, with the example's tensors as inputs or constants.
class LeftSide {
 public:
  LeftSide(const Rule& rule, const Instance& instance, OnnxEGraph& g) : rule_(rule), instance_(instance), g_(g) {}

  std::string build(const std::set<std::string>& variable) {
    for (const auto& [name, tensor] : instance_.tensors)
      ids_[name] = variable.contains(name) ? g_.input(name, input_facts(tensor, g_.dims())) : g_.constant(tensor);
    for (const RuleNode& node : rule_.left)
      if (std::string problem = node.is_constant() ? "" : add(node); !problem.empty()) return problem;
    for (const std::string& output : rule_.outputs) add_reader(ids_[output]);
    g_.egraph().rebuild();
    return {};
  }

 private:
  const RuleNode* constant(const std::string& name) const {
    for (const RuleNode& n : rule_.left)
      if (n.is_constant() && n.outputs[0] == name) return &n;
    return nullptr;
  }

  std::string add(const RuleNode& node) {
    const OpSchema* schema = newest_schema(node.domain, node.op_type);
    std::vector<Id> children(node.inputs.size(), kNone);
    std::vector<DType> dtypes(children.size(), DType::kUndefined);
    for (bool numbers : {false, true})
      for (std::size_t i = 0; i < children.size(); ++i) {
        const RuleNode* number = constant(node.inputs[i]);
        if ((number != nullptr) != numbers) continue;
        if (number != nullptr) {
          const RuleConstant c = *rule_constant(*number);
          const auto dtype = wanted_dtype(schema, i, dtypes, c.integers ? DType::kInt64 : DType::kFloat);
          std::vector<double> reals;
          for (std::size_t k = 0; k < c.size(); ++k) reals.push_back(c.real(k));
          const auto t =
              tensor_of_reals(dtype.value_or(DType::kFloat), c.list ? Shape{static_cast<std::int64_t>(c.size())} : Shape{}, reals);
          if (!t.ok()) return std::string(t.status().message());
          children[i] = g_.constant(*t);
        } else {
          const auto it = ids_.find(node.inputs[i]);
          children[i] = it == ids_.end() ? g_.absent() : it->second;
        }
        dtypes[i] = g_.facts(children[i]).dtype;
      }
    std::vector<Attribute> attributes;
    for (const RuleAttribute& a : node.attributes) {
      if (a.kind == RuleAttribute::Kind::kAny) continue;
      if (a.kind == RuleAttribute::Kind::kLiteral) {
        attributes.push_back(a.literal);
      } else if (const auto it = instance_.attributes.find(a.variable); it != instance_.attributes.end()) {
        attributes.push_back(it->second);
        attributes.back().name = a.literal.name;
      }
    }
    normalize_axes(children, schema, node.op_type == "Unsqueeze");
    std::optional<int> rank;
    if (!children.empty() && g_.facts(children[0]).shape) rank = g_.facts(children[0]).rank();
    const int outputs = static_cast<int>(node.outputs.size());
    const Id id = g_.add(make_key(node.domain, node.op_type, std::move(attributes), outputs, rank), children);
    for (int i = 0; i < outputs; ++i)
      if (!node.outputs[static_cast<std::size_t>(i)].empty())
        ids_[node.outputs[static_cast<std::size_t>(i)]] = outputs == 1 ? id : g_.project(id, i);
    return {};
  }

  // Rules about masks ask whether a Softmax reads what they make.
  void add_reader(Id output) {
    const Facts& f = g_.facts(output);
    if (f.kind != Facts::Kind::kTensor || !is_floating(f.dtype) || !f.shape || f.rank() == 0) return;
    g_.add(make_key("", "Softmax", {Attribute::of("axis", std::int64_t{-1})}, 1, f.rank()), std::array{output});
  }

  // As lowering does: axes >= 0.
  void normalize_axes(std::vector<Id>& children, const OpSchema* schema, bool grows) {
    for (std::size_t i = 1; schema && i < children.size(); ++i) {
      const auto value = g_.facts(children[i]).value;
      if (!is_axes_input(*schema, i) || !value || !g_.facts(children[0]).shape) continue;
      if (auto axes = axes_from_front(*value, g_.facts(children[0]).rank() + (grows ? value->size() : 0)))
        children[i] = g_.constant(*std::move(axes));
    }
  }

  const Rule& rule_;
  const Instance& instance_;
  OnnxEGraph& g_;
  std::map<std::string, Id> ids_;
};

std::string try_to_fire(const Rule& rule, const Instance& instance, const Evaluator& evaluator, const std::set<std::string>& variable) {
  OnnxEGraph g(evaluator);
  if (std::string problem = LeftSide(rule, instance, g).build(variable); !problem.empty()) return problem;
  auto log = std::make_shared<RuleLog>();
  std::string why = "its pattern does not match";
  for (const Rewrite& rewrite : compile_rule(rule, g, log)) {
    if (rewrite.name != rule.name) continue;
    for (const OwnedMatch& found : search(g.egraph(), rewrite.left, 100)) {
      const Match match{found.classes, found.matched, found.ops};
      why = dynamic_cast<const RuleApplier&>(*rewrite.applier).why_not(match);
      if (!why.empty()) continue;
      std::vector<std::pair<Id, Id>> unions;
      rewrite.applier->apply(g.egraph(), match, unions);
      if (!unions.empty()) return {};
      why = log->refusals().empty() ? "its right side cannot be built" : "its sides exclude each other: " + log->refusals().front().what;
    }
  }
  return why;
}

}  // namespace

std::string why_it_does_not_fire(const Rule& rule, const Instance& instance, const RuleExample& example, const Evaluator& evaluator) {
  // Inputs whose elements the example writes out are the constants; where that does not fire, all that may be.
  std::set<std::string> variable = non_constant_names(rule), random = variable;
  for (const ExampleValue& v : example.values)
    if (!v.attribute && !v.values) random.insert(v.name);
  std::string why = try_to_fire(rule, instance, evaluator, random);
  return why.empty() ? why : try_to_fire(rule, instance, evaluator, variable).empty() ? "" : why;
}

}  // namespace saturate
