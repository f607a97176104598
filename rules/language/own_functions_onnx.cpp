// Functions of rule files as local functions of a model.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/opsets/body_opset.h"
#include "rules/language/own_functions.h"

namespace saturate {
namespace {

// The nodes of a body. Numbers become Constants, and are cast to what their reader's other inputs are.
class OnnxBody {
 public:
  OnnxBody(const Rule& function, std::int64_t opset) : function_(function), opset_(opset) {}

  absl::StatusOr<std::vector<Node>> nodes() {
    for (const auto* names : {&function_.inputs, &function_.outputs})
      for (const std::string& name : *names) claim(name);
    for (const auto& [name, attribute] : function_.lets) add_number_of_attribute(name, attribute->text);
    for (const RuleNode& node : function_.right) {
      const absl::Status s = node.is_constant() ? add_number(node) : add(node);
      if (!s.ok()) return s;
    }
    return std::move(nodes_);
  }

 private:
  struct Number {
    std::string name;  // of the Constant's value
    DType dtype;
  };

  // The name of a value, made of letters alone.
  std::string claim(const std::string& value) {
    const auto [it, is_new] = names_.try_emplace(value);
    if (!is_new) return it->second;
    std::string name = value;
    std::replace_if(
        name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c) && c != '_'; }, '_');
    if (name != value) name = "n" + name;
    while (!taken_.insert(name).second) name += "_";
    return it->second = name;
  }
  std::string of(const std::string& value) { return value.empty() ? value : claim(value); }

  const Attribute& declared(const std::string& attribute) const { return function_.left.front().attribute(attribute)->literal; }

  void add_constant(const std::string& value, Attribute a) {
    const bool ints = a.type == AttributeType::kInt || a.type == AttributeType::kInts;
    numbers_[value] = {claim(value), ints ? DType::kInt64 : DType::kFloat};
    Node& node = nodes_.emplace_back();
    node.op_type = "Constant";
    node.attributes = {std::move(a)};
    node.outputs = {numbers_[value].name};
  }

  absl::Status add_number(const RuleNode& node) {
    add_constant(node.outputs[0], node.attributes[0].literal);
    return absl::OkStatus();
  }

  void add_number_of_attribute(const std::string& value, const std::string& attribute) {
    const AttributeType type = declared(attribute).type;
    const char* names[] = {"value_float", "value_floats", "value_int", "value_ints"};
    const int which = type == AttributeType::kFloat ? 0 : type == AttributeType::kFloats ? 1 : type == AttributeType::kInt ? 2 : 3;
    Attribute a;
    a.name = names[which];
    a.type = type;
    a.ref = attribute;
    add_constant(value, std::move(a));
  }

  absl::Status add(const RuleNode& from) {
    Node node;
    node.domain = from.domain;
    node.op_type = from.op_type;
    for (const std::string& o : from.outputs) node.outputs.push_back(of(o));
    for (std::size_t i = 0; i < from.inputs.size(); ++i) {
      auto input = numbers_.contains(from.inputs[i]) ? typed(from, i) : absl::StatusOr<std::string>(of(from.inputs[i]));
      if (!input.ok()) return input.status();
      node.inputs.push_back(*std::move(input));
    }
    for (const RuleAttribute& a : from.attributes) {
      Attribute& written = node.attributes.emplace_back(a.literal);
      if (a.kind != RuleAttribute::Kind::kVariable) continue;
      written.value = AttributeValue();
      written.type = declared(a.variable).type;
      written.ref = a.variable;
    }
    return write(node);
  }

  // The name of a number in the dtype that its reader takes.
  absl::StatusOr<std::string> typed(const RuleNode& reader, std::size_t input) {
    const Number& number = numbers_.at(reader.inputs[input]);
    const OpSchema* schema = schema_for_rule(function_.operators.get(), reader.domain, reader.op_type);
    const OpSchema::Formal* formal = schema ? formal_at(schema->inputs, input) : nullptr;
    if (!formal || (reader.domain.empty() && reader.op_type == "Identity")) return number.name;
    for (std::size_t i = 0; i < reader.inputs.size(); ++i) {
      const OpSchema::Formal* other = formal_at(schema->inputs, i);
      if (i == input || !other || other->type != formal->type || formal->type.starts_with("tensor(")) continue;
      if (!reader.inputs[i].empty() && !numbers_.contains(reader.inputs[i])) return cast(number, "CastLike", of(reader.inputs[i]), {});
    }
    const std::vector<DType> unknown(reader.inputs.size(), DType::kUndefined);
    const DType wanted = wanted_dtype(schema, input, unknown, number.dtype).value_or(number.dtype);
    if (wanted == number.dtype) return number.name;
    return cast(number, "Cast", "", Attribute::of("to", static_cast<std::int64_t>(wanted)));
  }

  absl::StatusOr<std::string> cast(const Number& number, const char* op_type, const std::string& like, std::optional<Attribute> to) {
    std::string& name = casts_[{number.name, to ? fmt::format("{}", to->i()) : like}];
    if (!name.empty()) return name;
    name = claim(fmt::format("{}_as_{}", number.name, to ? dtype_name(static_cast<DType>(to->i())) : like));
    Node node;
    node.op_type = op_type;
    node.inputs = {number.name};
    if (to)
      node.attributes = {*std::move(to)};
    else
      node.inputs.push_back(like);
    node.outputs = {name};
    if (const absl::Status s = write(node); !s.ok()) return s;
    return name;
  }

  absl::Status write(const Node& node) {
    auto written = node_in_opset(node, kNewestOpset, opset_);
    if (!written.ok())
      return absl::FailedPreconditionError(
          fmt::format("function {} cannot be written: {}", law_of(function_.name), std::string(written.status().message())));
    std::move(written->begin(), written->end(), std::back_inserter(nodes_));
    return absl::OkStatus();
  }

  const Rule& function_;
  std::int64_t opset_;
  std::vector<Node> nodes_;
  std::map<std::string, std::string> names_;
  std::set<std::string> taken_;
  std::map<std::string, Number> numbers_;
  std::map<std::pair<std::string, std::string>, std::string> casts_;
};

}  // namespace

absl::StatusOr<Function> onnx_function(const Rule& function, std::int64_t opset,
                                       const std::map<std::string, std::int64_t>& domain_versions) {
  const RuleNode& call = function.left.front();
  Function out;
  out.domain = call.domain;
  out.name = call.op_type;
  out.inputs = call.inputs;
  out.outputs = function.outputs;
  for (const RuleAttribute& a : call.attributes) {
    if (a.literal.value.index() == 0)
      out.attributes.push_back(a.literal.name);
    else
      out.attribute_defaults.push_back(a.literal);
  }
  auto nodes = OnnxBody(function, opset).nodes();
  if (!nodes.ok()) return nodes.status();
  out.nodes = *std::move(nodes);
  out.opset_imports[""] = opset;
  for (const Node& n : out.nodes) {
    const auto version = domain_versions.find(n.domain);
    if (!n.domain.empty()) out.opset_imports[n.domain] = version == domain_versions.end() ? 1 : version->second;
  }
  return out;
}

}  // namespace saturate
