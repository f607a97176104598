#include "rules/check/check_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "onnx_bridge/opsets/canonical.h"
#include "rules/terms/literals.h"

namespace saturate {
namespace {

Facts input_facts(const Tensor& t, DimTable& dims, const std::vector<std::string>& names) {
  Facts f;
  f.kind = Facts::Kind::kTensor;
  f.dtype = t.dtype();
  f.shape.emplace();
  for (std::size_t i = 0; i < t.dims().size(); ++i) {
    const bool named = i < names.size() && !names[i].empty();
    f.shape->push_back(named ? dims.symbol(names[i]) : dims.constant(t.dims()[i]));
    if (named) dims.assume_non_negative(f.shape->back());
  }
  return f;
}

}  // namespace

std::string LeftSide::build(const std::set<std::string>& variable) {
  if (rule_.operators && !g_.defined()) g_.define(rule_.operators);
  for (const auto& [name, tensor] : instance_.tensors)
    ids_[name] = variable.contains(name) ? g_.input(name, input_facts(tensor, g_.dims(), axes_[name])) : g_.constant(tensor);
  for (const RuleNode& node : rule_.left)
    if (std::string problem = node.is_constant() ? "" : add(node); !problem.empty()) return problem;
  for (const std::string& output : rule_.outputs) add_reader(g_, ids_[output]);
  g_.egraph().rebuild();
  return {};
}

LeftSide::Axes LeftSide::named_sizes(const Instance& instance, const RuleExample& example, std::map<std::string, std::int64_t>& sizes) {
  Axes axes;
  for (const ExampleValue& v : example.values) {
    const auto tensor = instance.tensors.find(v.name);
    if (v.attribute || v.values || tensor == instance.tensors.end() || tensor->second.dims().size() != v.dims.size()) continue;
    auto& names = axes[v.name];
    for (std::size_t i = 0; i < v.dims.size(); ++i) {
      names.push_back(v.dims[i] > 1 ? fmt::format("size{}", v.dims[i]) : "");
      if (v.dims[i] > 1 && sizes.try_emplace(names.back(), tensor->second.dims()[i]).first->second != tensor->second.dims()[i]) return {};
    }
  }
  return axes;
}

const RuleNode* LeftSide::constant(const std::string& name) const {
  for (const RuleNode& n : rule_.left)
    if (n.is_constant() && n.outputs[0] == name) return &n;
  return nullptr;
}

std::string LeftSide::add(const RuleNode& node) {
  const OpSchema* schema = schema_for_rule(rule_.operators.get(), node.domain, node.op_type);
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
        const auto t = tensor_of_reals(dtype.value_or(DType::kFloat), c.list ? Shape{static_cast<std::int64_t>(c.size())} : Shape{}, reals);
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

void LeftSide::add_reader(OnnxEGraph& g, Id output) {
  const Facts& f = g.facts(output);
  if (f.kind != Facts::Kind::kTensor || !is_floating(f.dtype) || !f.shape || f.rank() == 0) return;
  g.add(make_key("", "Softmax", {Attribute::of("axis", std::int64_t{-1})}, 1, f.rank()), std::array{output});
}

// As lowering does: axes >= 0.
void LeftSide::normalize_axes(std::vector<Id>& children, const OpSchema* schema, bool grows) {
  for (std::size_t i = 1; schema && i < children.size(); ++i) {
    const auto value = g_.facts(children[i]).value;
    if (!is_axes_input(*schema, i) || !value || !g_.facts(children[0]).shape) continue;
    if (auto axes = axes_from_front(*value, g_.facts(children[0]).rank() + (grows ? value->size() : 0)))
      children[i] = g_.constant(*std::move(axes));
  }
}

ClassValues::ClassValues(const OnnxEGraph& g, const Instance& instance, const LeftSide& left, std::map<std::string, std::int64_t> sizes)
    : g_(g), sizes_(std::move(sizes)) {
  for (const auto& [name, tensor] : instance.tensors) known_.emplace(left.id(name), tensor);
}

absl::StatusOr<Value> ClassValues::of(Id id) {
  constexpr int kDeepest = 100;
  const Id root = g_.egraph().find(id);
  if (const auto it = known_.find(root); it != known_.end()) return it->second;
  const auto nodes = g_.egraph().class_nodes(root);
  if (nodes.empty() || ++depth_ > kDeepest) return absl::InternalError("a class has no e-node that can be run");
  const ENode node = g_.egraph().node(nodes[0]);
  absl::StatusOr<Value> value = g_.key(node.op).domain == "#" ? leaf(node) : absl::StatusOr<Value>(Value());
  if (value.ok() && g_.key(node.op).domain != "#") {
    auto outputs = run(node);
    value = outputs.ok() ? absl::StatusOr<Value>(outputs->at(0)) : outputs.status();
  }
  --depth_;
  if (value.ok()) known_.emplace(root, *value);
  return value;
}

absl::StatusOr<Value> ClassValues::leaf(const ENode& node) {
  const OpKey& key = g_.key(node.op);
  if (key.op_type == kConstantOp) return Value(g_.constant_tensor(node.op));
  if (key.op_type == kAbsentOp) return Value();
  if (key.op_type == kLiteralOp) {
    std::vector<std::int64_t> numbers;
    for (const Dim d : g_.literal_dims(node.op)) {
      const auto n = g_.dims().evaluate(d, sizes_);
      if (!n) return absl::InternalError("a literal has a dim without a number");
      numbers.push_back(*n);
    }
    return Value(Tensor::vector_int64(std::move(numbers)));
  }
  if (key.op_type != kProjOp) return absl::InternalError(fmt::format("{} has no value", key.op_type));
  const Attribute* index = find_attribute(key.attributes, "index");
  auto outputs = run(g_.egraph().node(g_.egraph().class_nodes(g_.egraph().find(node.children[0]))[0]));
  if (!outputs.ok()) return outputs.status();
  return outputs->at(static_cast<std::size_t>(index ? index->i() : 0));
}

// A shape literal says every size, 0 too; raising writes a Reshape to it so.
bool ClassValues::is_literal(Id id) const {
  const auto nodes = g_.egraph().class_nodes(g_.egraph().find(id));
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeId n) { return g_.key(g_.egraph().node(n).op).op_type == kLiteralOp; });
}

absl::StatusOr<std::vector<Value>> ClassValues::run(const ENode& node) {
  const OpKey& key = g_.key(node.op);
  Node call;
  call.op_type = key.op_type;
  call.domain = key.domain;
  call.attributes = key.attributes;
  call.outputs.assign(static_cast<std::size_t>(key.outputs), "y");
  std::vector<Value> inputs;
  std::vector<DType> dtypes;
  for (const Id child : std::vector<Id>(node.children.begin(), node.children.end())) {
    auto value = of(child);
    if (!value.ok()) return value.status();
    call.inputs.emplace_back(value->present() ? "x" : "");
    dtypes.push_back(value->is_tensor() ? value->tensor().dtype() : DType::kUndefined);
    inputs.push_back(*std::move(value));
  }
  if (call.op_type == "Reshape" && call.domain.empty() && node.children.size() == 2 && is_literal(node.children[1])) {
    std::erase_if(call.attributes, [](const Attribute& a) { return a.name == "allowzero"; });
    call.attributes.push_back(Attribute::of("allowzero", std::int64_t{1}));
  }
  std::string why;
  if (const OpSchema* schema = newest_schema(key.domain, key.op_type); schema && !dtypes_fit(*schema, dtypes, &why))
    return absl::InvalidArgumentError(why);
  auto outputs = run_operator_of_rule(g_.evaluator(), dynamic_cast<const RuleOperators*>(g_.defined()), call, inputs);
  if (!outputs.ok())
    return absl::Status(outputs.status().code(), fmt::format("{}: {}", key.op_type, std::string(outputs.status().message())));
  if (outputs->empty()) return absl::InternalError(fmt::format("{} has no outputs", key.op_type));
  return outputs;
}

}  // namespace saturate
