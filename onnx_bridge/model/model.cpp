#include "onnx_bridge/model/model.h"

#include <algorithm>
#include <string_view>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "onnx_bridge/model/evaluator.h"

namespace saturate {
namespace {

template <typename T>
Attribute make(std::string name, AttributeType type, T value) {
  Attribute a;
  a.name = std::move(name);
  a.type = type;
  a.value = std::move(value);
  return a;
}

using Names = absl::flat_hash_set<std::string_view>;

class CaptureFinder {
 public:
  std::vector<std::string> result;

  void visit(const Graph& graph) {
    Names& own = scopes_.emplace_back();
    for (const ValueInfo& v : graph.inputs) own.insert(v.name);
    for (const Initializer& i : graph.initializers) own.insert(i.name);
    for (const Node& n : graph.nodes) own.insert(n.outputs.begin(), n.outputs.end());
    for (const Node& n : graph.nodes) {
      for (const std::string& name : n.inputs) use(name);
      for (const Attribute& a : n.attributes) visit(a);
    }
    for (const ValueInfo& v : graph.outputs) use(v.name);
    scopes_.pop_back();
  }

 private:
  void visit(const Attribute& a) {
    if (const auto* one = std::get_if<std::shared_ptr<const Graph>>(&a.value)) {
      if (*one) visit(**one);
    } else if (const auto* many = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&a.value)) {
      for (const auto& g : *many)
        if (g) visit(*g);
    }
  }

  void use(const std::string& name) {
    if (name.empty()) return;
    for (const Names& scope : scopes_)
      if (scope.contains(name)) return;
    if (seen_.insert(name).second) result.push_back(name);
  }

  std::vector<Names> scopes_;
  Names seen_;
};

}  // namespace

AttributeValue::AttributeValue(const AttributeValue&) = default;
AttributeValue::AttributeValue(AttributeValue&&) noexcept = default;
AttributeValue& AttributeValue::operator=(const AttributeValue&) = default;
AttributeValue& AttributeValue::operator=(AttributeValue&&) noexcept = default;
AttributeValue::~AttributeValue() = default;

Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;

Attribute Attribute::of(std::string name, std::int64_t value) { return make(std::move(name), AttributeType::kInt, value); }
Attribute Attribute::of(std::string name, float value) { return make(std::move(name), AttributeType::kFloat, value); }
Attribute Attribute::of(std::string name, std::string value) { return make(std::move(name), AttributeType::kString, std::move(value)); }
Attribute Attribute::of(std::string name, std::vector<std::int64_t> value) {
  return make(std::move(name), AttributeType::kInts, std::move(value));
}
Attribute Attribute::of(std::string name, std::vector<float> value) {
  return make(std::move(name), AttributeType::kFloats, std::move(value));
}
Attribute Attribute::of(std::string name, std::vector<std::string> value) {
  return make(std::move(name), AttributeType::kStrings, std::move(value));
}
Attribute Attribute::of(std::string name, Tensor value) { return make(std::move(name), AttributeType::kTensor, std::move(value)); }

std::string qualified_name(std::string_view domain, std::string_view op_type) {
  return domain.empty() ? std::string(op_type) : std::string(domain) + "." + std::string(op_type);
}

std::string without_domain(std::string_view qualified_name) { return std::string(qualified_name.substr(qualified_name.rfind('.') + 1)); }

const Attribute* find_attribute(const std::vector<Attribute>& attributes, std::string_view name) {
  for (const Attribute& a : attributes)
    if (a.name == name) return &a;
  return nullptr;
}

std::string first_output(const Node& node) {
  const auto first = std::find_if(node.outputs.begin(), node.outputs.end(), [](const std::string& o) { return !o.empty(); });
  return first == node.outputs.end() ? "" : *first;
}

const Function* called_function(const Model& model, const Node& node) {
  for (const Function& f : model.functions)
    if (f.domain == node.domain && f.name == node.op_type && f.overload == node.overload) return &f;
  return nullptr;
}

std::int64_t int_attribute(const Node& node, std::string_view name, std::int64_t otherwise) {
  const Attribute* found = find_attribute(node.attributes, name);
  return found && std::holds_alternative<std::int64_t>(found->value) ? found->i() : otherwise;
}

std::vector<std::string> captured_names(const Graph& graph) {
  CaptureFinder finder;
  finder.visit(graph);
  return std::move(finder.result);
}

void collect_names(const Graph& graph, std::unordered_set<std::string>& names) {
  for (const auto* values : {&graph.inputs, &graph.outputs})
    for (const ValueInfo& v : *values) names.insert(v.name);
  for (const Initializer& i : graph.initializers) names.insert(i.name);
  for (const Node& node : graph.nodes) {
    names.insert(node.inputs.begin(), node.inputs.end());
    names.insert(node.outputs.begin(), node.outputs.end());
    for (const Attribute& a : node.attributes)
      if (a.type == AttributeType::kGraph) collect_names(a.g(), names);
  }
}

std::size_t initializer_bytes(const Graph& graph) {
  std::size_t bytes = 0;
  for (const Initializer& i : graph.initializers) bytes += i.tensor.bytes().size();
  return bytes;
}

}  // namespace saturate
