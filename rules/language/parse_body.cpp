#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_table.h"
#include "rules/language/operators.h"
#include "rules/language/parse_parser.h"
#include "rules/terms/literals.h"

namespace saturate {

// Nodes in braces or, of a rule with one output, the expression that is this output.
bool RuleParser::parse_side(const Rule& rule, std::vector<RuleNode>& nodes) {
  if (peek().is("{") || peek().kind != Token::Kind::kName) return parse_body(nodes);
  if (rule.outputs.size() != 1)
    return fail(peek().place, fmt::format("a rule of {} outputs names each; write nodes in braces, as in `{{ Y = {} (...) }}`",
                                          rule.outputs.size(), peek().text));
  RuleNode node;
  node.outputs = rule.outputs;
  return parse_call(std::move(node), nodes);
}

bool RuleParser::parse_body(std::vector<RuleNode>& nodes) {
  if (!expect("{", "before the nodes of a body")) return false;
  while (!peek().is("}"))
    if (!parse_node(nodes)) return false;
  next();
  return true;
}

bool RuleParser::parse_node(std::vector<RuleNode>& nodes) {
  RuleNode node;
  do {
    std::string name;
    if (peek().kind == Token::Kind::kString)
      name = next().text;
    else if (!peek().is(",") && !peek().is("=") && !expect_name(name, "the name of an output, as in `Y = Add (A, B)`"))
      return false;
    node.outputs.push_back(std::move(name));
  } while (accept(","));
  return expect("=", "after the outputs of a node") && parse_call(std::move(node), nodes);
}

// `Add (X, Erf (Y))`: the nodes of its arguments come before its own.
bool RuleParser::parse_call(RuleNode node, std::vector<RuleNode>& nodes) {
  if (!parse_operator_name(node)) return false;
  if (peek().is("<") && !parse_attributes(node)) return false;
  if (!expect("(", fmt::format("before the inputs of {}", node.op_type)) || !parse_arguments(node, nodes)) return false;
  if (peek().is("<") && !parse_attributes(node)) return false;
  node.passes = accept("?");
  const OpSchema* schema = schema_for_rule(defined_.get(), node.domain, node.op_type);
  for (RuleAttribute& a : node.attributes)
    if (std::string problem = complete_attribute_type(schema, node.op_type, a); !problem.empty()) return fail(a.place, problem);
  if (defined_->schema(node.domain, node.op_type)) add_defaults_of_defined(*schema, node);
  while (!node.inputs.empty() && node.inputs.back().empty()) node.inputs.pop_back();
  if (!node.mirrored.empty() && node.mirrored.back() + 1 >= node.inputs.size())
    return fail(node.place, fmt::format("`|` stands between two inputs of {}; name both", node.op_type));
  nodes.push_back(std::move(node));
  return true;
}

// Those that the standard defines get their defaults where rules are compiled.
void RuleParser::add_defaults_of_defined(const OpSchema& schema, RuleNode& node) {
  if (!node.rest.empty()) return;
  for (const OpAttribute& known : schema.attributes) {
    if (!known.default_value || node.attribute(known.name)) continue;
    RuleAttribute& added = node.attributes.emplace_back();
    added.literal = *known.default_value;
    added.place = node.place;
  }
}

bool RuleParser::parse_operator_name(RuleNode& node) {
  std::string name;
  if (!expect_name(name, "an operator")) return false;
  node.place = tokens_[at_ - 1].place;
  while (accept(".")) {
    node.domain += (node.domain.empty() ? "" : ".") + name;
    if (!expect_name(name, "an operator")) return false;
  }
  if (node.domain == "ai.onnx") node.domain.clear();
  node.op_type = name;
  return true;
}

bool RuleParser::parse_arguments(RuleNode& node, std::vector<RuleNode>& nodes) {
  if (accept(")")) return true;
  while (true) {
    if (!parse_argument(node.inputs.emplace_back(), nodes)) return false;
    if (accept(")")) return true;
    if (accept("|"))
      node.mirrored.push_back(node.inputs.size() - 1);
    else if (!expect(",", "between inputs"))
      return false;
  }
}

// A name, nothing, an operator with arguments of its own, or a number or a list of numbers, which is a Constant.
bool RuleParser::parse_argument(std::string& name, std::vector<RuleNode>& nodes) {
  const Token& token = peek();
  if (token.is(",") || token.is(")")) return true;
  if (token.kind == Token::Kind::kString) {
    name = next().text;
    return true;
  }
  const bool number = token.kind == Token::Kind::kInt || token.kind == Token::Kind::kReal || token.is("-") || token.is("[") ||
                      token.is_word("inf") || token.is_word("nan");
  const bool called = token.kind == Token::Kind::kName && (peek(1).is("(") || peek(1).is("<") || peek(1).is("."));
  if (!number && !called) return expect_name(name, "an input: a name, a number or an operator");
  if (++depth_ > kMaxDepth) return fail(token.place, "the operators are nested too deeply; give a step a name in braces");
  RuleNode node;
  name = fmt::format("{}:{}", token.text, ++unnamed_);  // no name that can be written
  node.outputs.push_back(name);
  const bool ok = number ? parse_constant(std::move(node), nodes) : parse_call(std::move(node), nodes);
  --depth_;
  return ok;
}

bool RuleParser::parse_constant(RuleNode node, std::vector<RuleNode>& nodes) {
  RuleAttribute a;
  a.place = node.place = peek().place;
  node.op_type = "Constant";
  if (!parse_literal(a.literal)) return false;
  const auto& value = a.literal.value;
  if (std::holds_alternative<float>(value))
    a.literal.name = "value_float";
  else if (std::holds_alternative<std::int64_t>(value))
    a.literal.name = "value_int";
  else if (std::holds_alternative<std::vector<float>>(value))
    a.literal.name = "value_floats";
  else if (std::holds_alternative<std::vector<std::int64_t>>(value))
    a.literal.name = "value_ints";
  else
    return fail(a.place, "an input is a number or a list of numbers, not strings");
  if (const std::string problem = complete_attribute_type(newest_schema("", "Constant"), "Constant", a); !problem.empty())
    return fail(a.place, problem);
  node.attributes.push_back(std::move(a));
  nodes.push_back(std::move(node));
  return true;
}

bool RuleParser::parse_attributes(RuleNode& node) {
  next();
  if (accept(">")) return true;
  do {
    if (!(peek().is(".") ? parse_rest(node.rest) : parse_attribute(node.attributes))) return false;
  } while (accept(","));
  return expect(">", "after the attributes");
}

bool RuleParser::parse_rest(std::string& name) {
  const Place place = peek().place;
  if (!accept(".") || !accept(".")) return fail(place, "expected the name of all other attributes, as in `..a`");
  if (!name.empty()) return fail(place, "all other attributes have a name already; keep one");
  return expect_name(name, "the name of all other attributes, as in `..a`");
}

bool RuleParser::parse_attribute(std::vector<RuleAttribute>& attributes) {
  static const std::pair<std::string_view, AttributeType> types[] = {
      {"int", AttributeType::kInt},      {"float", AttributeType::kFloat},   {"string", AttributeType::kString},
      {"ints", AttributeType::kInts},    {"floats", AttributeType::kFloats}, {"strings", AttributeType::kStrings},
      {"tensor", AttributeType::kTensor}};
  RuleAttribute a;
  a.place = peek().place;
  if (!expect_name(a.literal.name, "the name of an attribute")) return false;
  for (const RuleAttribute& other : attributes)
    if (other.literal.name == a.literal.name) return fail(a.place, fmt::format("attribute `{}` is given twice; keep one", a.literal.name));
  if (accept(":")) {
    const Token type = next();
    for (const auto& [name, value] : types)
      if (type.is_word(name)) a.literal.type = value;
    if (a.literal.type == AttributeType::kUndefined)
      return fail(type.place,
                  fmt::format("{} is no type of attribute; write int, float, string, ints, floats, strings or tensor", shown(type)));
  }
  if (!expect("=", "after the name of an attribute") || !parse_attribute_value(a)) return false;
  attributes.push_back(std::move(a));
  return true;
}

bool RuleParser::parse_attribute_value(RuleAttribute& attribute) {
  if (peek().kind != Token::Kind::kVariable) return parse_literal(attribute.literal);
  attribute.variable = next().text;
  attribute.kind = attribute.variable == "_" ? RuleAttribute::Kind::kAny : RuleAttribute::Kind::kVariable;
  return true;
}

// The value is stored as written; complete_attribute_type() turns it into what the schema asks for.
bool RuleParser::parse_literal(Attribute& attribute) {
  const Token& token = peek();
  if (token.kind == Token::Kind::kString) {
    attribute.value = next().text;
    return true;
  }
  if (token.is("[")) return parse_literal_list(attribute);
  if (token.kind == Token::Kind::kName && (peek(1).is("[") || peek(1).is("{"))) {
    const auto dtype = parse_dtype(token.text);
    if (!dtype) return fail(token.place, fmt::format("`{}` is no type of tensor elements; write float, int64, bool, ...", token.text));
    next();
    return parse_tensor_literal(attribute, *dtype);
  }
  double real = 0;
  std::int64_t integer = 0;
  bool is_real = false;
  if (!parse_number(real, integer, is_real)) return false;
  if (is_real)
    attribute.value = static_cast<float>(real);
  else
    attribute.value = integer;
  return true;
}

bool RuleParser::parse_literal_list(Attribute& attribute) {
  next();
  std::vector<std::int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string> strings;
  bool any_real = false;
  if (!accept("]")) {
    do {
      if (peek().kind == Token::Kind::kString) {
        strings.push_back(next().text);
        continue;
      }
      double real = 0;
      std::int64_t integer = 0;
      bool is_real = false;
      if (!parse_number(real, integer, is_real)) return false;
      any_real |= is_real;
      ints.push_back(integer);
      floats.push_back(static_cast<float>(is_real ? real : static_cast<double>(integer)));
    } while (accept(","));
    if (!expect("]", "after a list")) return false;
  }
  if (!strings.empty())
    attribute.value = std::move(strings);
  else if (any_real)
    attribute.value = std::move(floats);
  else
    attribute.value = std::move(ints);
  return true;
}

bool RuleParser::parse_dims(Shape& dims) {
  if (!accept("[")) return true;
  if (accept("]")) return true;
  do {
    if (peek().kind != Token::Kind::kInt) return fail(peek().place, fmt::format("expected a dim as a number, found {}", shown(peek())));
    dims.push_back(next().integer);
  } while (accept(","));
  return expect("]", "after the dims of a tensor");
}

bool RuleParser::parse_elements(std::vector<double>& values) {
  next();
  if (accept("}")) return true;
  do {
    double real = 0;
    std::int64_t integer = 0;
    bool is_real = false;
    if (!parse_number(real, integer, is_real)) return false;
    values.push_back(is_real ? real : static_cast<double>(integer));
  } while (accept(","));
  return expect("}", "after the elements of a tensor");
}

bool RuleParser::parse_tensor_literal(Attribute& attribute, DType dtype) {
  const Place place = peek().place;
  Shape dims;
  std::vector<double> values;
  if (!parse_dims(dims)) return false;
  if (!peek().is("{")) return fail(peek().place, "a tensor as an attribute needs its elements, as in `float[2] {1, 2}`");
  if (!parse_elements(values)) return false;
  auto tensor = tensor_of_reals(dtype, dims, values);
  if (!tensor.ok()) return fail(place, std::string(tensor.status().message()));
  attribute.value = *std::move(tensor);
  return true;
}

bool RuleParser::parse_number(double& real, std::int64_t& integer, bool& is_real) {
  const bool negative = accept("-");
  const Token token = next();
  if (token.is_word("inf") || token.is_word("nan")) {
    is_real = true;
    real = token.is_word("inf") ? std::numeric_limits<double>::infinity() : std::nan("");
  } else if (token.is_word("true") || token.is_word("false")) {
    integer = token.is_word("true");
  } else if (token.kind == Token::Kind::kReal) {
    is_real = true;
    real = token.real;
  } else if (token.kind == Token::Kind::kInt) {
    integer = token.integer;
  } else {
    return fail(token.place, fmt::format("expected a number, found {}", shown(token)));
  }
  if (negative) {
    real = -real;
    integer = -integer;
  }
  return true;
}

}  // namespace saturate
