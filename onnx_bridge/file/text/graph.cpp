// The reader's large parts: attributes, nodes, graphs, functions; and parser.h's entrances.
#include <array>

#include "fmt/format.h"
#include "onnx_bridge/file/proto/convert.h"
#include "onnx_bridge/file/text/reader.h"

namespace saturate {
namespace text {
namespace {

using TokenKind = TextToken::Kind;

constexpr std::array<std::pair<std::string_view, AttributeType>, 14> kAttributeTypes = {{{"float", AttributeType::kFloat},
                                                                                         {"int", AttributeType::kInt},
                                                                                         {"string", AttributeType::kString},
                                                                                         {"tensor", AttributeType::kTensor},
                                                                                         {"graph", AttributeType::kGraph},
                                                                                         {"floats", AttributeType::kFloats},
                                                                                         {"ints", AttributeType::kInts},
                                                                                         {"strings", AttributeType::kStrings},
                                                                                         {"tensors", AttributeType::kTensors},
                                                                                         {"graphs", AttributeType::kGraphs},
                                                                                         {"sparse_tensor", AttributeType::kSparseTensor},
                                                                                         {"sparse_tensors", AttributeType::kSparseTensors},
                                                                                         {"type_proto", AttributeType::kTypeProto},
                                                                                         {"type_protos", AttributeType::kTypeProtos}}};

}  // namespace

Attribute TextReader::attribute() {
  const Nesting nesting(*this);
  Attribute out;
  out.name = name("the name of an attribute");
  if (accept(":")) {
    const TextToken word = peek();
    const std::string type = name("the type of an attribute");
    for (const auto& [text, value] : kAttributeTypes)
      if (text == type) out.type = value;
    if (out.type == AttributeType::kUndefined)
      fail(word, fmt::format("'{}' is no type of an attribute (int, float, string, tensor, graph, ints, ...)", type));
  }
  expect("=");
  if (accept("@"))
    out.ref = name("the name of the function's attribute");
  else
    attribute_value(out);
  return out;
}

std::vector<Attribute> TextReader::attribute_list() {
  std::vector<Attribute> out;
  while (!at_punct(">") && peek().kind != TokenKind::kEnd) {
    const TextToken first = peek();
    Attribute a = attribute();
    if (find_attribute(out, a.name)) fail(first, fmt::format("attribute '{}' is given twice", a.name));
    out.push_back(std::move(a));
    if (!accept(",")) break;
  }
  return out;
}

std::vector<Attribute> TextReader::attributes() {
  std::vector<Attribute> out = attribute_list();
  expect(">");
  return out;
}

// Names with commas between, each of which may be missing, up to where `at_stop` holds.
std::vector<std::string> TextReader::names(std::string_view stop, const std::function<bool()>& at_stop) {
  std::vector<std::string> out;
  if (at_stop()) return out;
  for (;;) {
    if (at_punct(",") || at_stop())
      out.emplace_back();
    else
      out.push_back(name("the name of a value"));
    if (at_stop()) return out;
    if (!accept(",")) fail_here(fmt::format("expected ',' or '{}'", stop));
  }
}

// domain.domain.Op:overload
void TextReader::op_name(Node& out) {
  std::vector<std::string> parts = {name("an operator")};
  while (accept(".")) parts.push_back(name("the next part of the operator's name"));
  out.op_type = parts.back();
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) out.domain += (i ? "." : "") + parts[i];
  out.domain = proto::normalized_domain(out.domain);
  if (accept(":")) out.overload = name("an overload");
}

Node TextReader::node() {
  const Nesting nesting(*this);
  Node out;
  if (accept("[")) {
    out.name = name("the name of the node");
    expect("]");
  }
  out.outputs = names("=", [&] { return at_punct("="); });
  expect("=");
  op_name(out);
  if (accept("<")) out.attributes = attributes();
  expect("(");
  out.inputs = names(")", [&] { return at_punct(")"); });
  expect(")");
  if (at_punct("<")) {
    if (!out.attributes.empty()) fail_here("the attributes of this node stand before its inputs already");
    next();
    out.attributes = attributes();
  }
  return out;
}

std::vector<Node> TextReader::nodes() {
  std::vector<Node> out;
  expect("{");
  while (!at_punct("}")) {
    if (peek().kind == TokenKind::kEnd) fail_here("'}' is missing");
    out.push_back(node());
  }
  expect("}");
  return out;
}

// `float[2] x, y, float[2] w = {1,2}`: types may be missing; a value with data is an initializer.
void TextReader::values(std::vector<ValueInfo>& out, std::vector<Initializer>* initializers, std::string_view close) {
  while (!at_punct(close)) {
    const TextToken first = peek();
    ValueInfo v;
    // `float` alone is the name of a value where nothing that could be its name follows.
    const bool typed = at_type() && !((at_punct(",", 1) || at_punct(close, 1)));
    if (typed) v.type = type();
    v.name = name("the name of a value");
    if (at_punct("=") || at_punct("{")) {
      accept("=");
      if (!initializers) fail_here("data cannot stand here");
      if (!typed) fail(first, "data needs a type before the name: float[2] w = {1, 2}");
      if (v.type.kind == ValueType::Kind::kSparseTensor) {
        auto message = sparse_message(hex_bytes(), v.name);
        if (!message) fail(first, "these bytes are no SparseTensorProto");
        initializers->push_back({v.name, Tensor(), std::move(message), true});
        if (!accept(",")) break;
        continue;
      }
      initializers->push_back({v.name, literal(v.type), nullptr, false});
      if (close == ")") out.push_back(std::move(v));  // an input with a default
    } else {
      out.push_back(std::move(v));
    }
    if (!accept(",")) break;
  }
  expect(close);
}

Graph TextReader::graph() {
  const Nesting nesting(*this);
  const TextToken first = peek();
  Graph out;
  out.name = name("the name of a graph");
  expect("(");
  values(out.inputs, &out.initializers, ")");
  expect("=>");
  expect("(");
  values(out.outputs, nullptr, ")");
  if (accept("<")) values(out.value_info, &out.initializers, ">");
  out.nodes = nodes();
  try {
    proto::check_and_sort(out, proto::Places());
  } catch (const proto::LoadError& e) {
    fail(first, fmt::format("graph '{}': {}", out.name, e.message));
  }
  return out;
}

Function TextReader::function() {
  const TextToken first = peek();
  Function out;
  if (at_punct("<"))
    header([&](const TextToken& key) {
      if (key.text == "domain")
        out.domain = proto::normalized_domain(string("a domain"));
      else if (key.text == "overload")
        out.overload = string("an overload");
      else if (key.text == "opset_import")
        out.opset_imports = opset_imports();
      else if (key.text == "doc_string")
        string("a text");
      else
        fail(key, fmt::format("'{}' is no key of a function: domain, overload, opset_import, doc_string", key.text));
    });
  out.name = name("the name of a function");
  if (accept("<")) {
    while (!at_punct(">")) {
      if (at_name() && !at_punct(":", 1) && !at_punct("=", 1))
        out.attributes.push_back(next().text);
      else
        out.attribute_defaults.push_back(attribute());
      if (!accept(",")) break;
    }
    expect(">");
  }
  std::vector<ValueInfo> in, outs, between;
  expect("(");
  values(in, nullptr, ")");
  expect("=>");
  expect("(");
  values(outs, nullptr, ")");
  if (accept("<")) values(between, nullptr, ">");
  for (const ValueInfo& v : in) out.inputs.push_back(v.name);
  for (const ValueInfo& v : outs) out.outputs.push_back(v.name);
  out.nodes = nodes();
  try {
    proto::check_and_sort(out, proto::Places());
  } catch (const proto::LoadError& e) {
    fail(first, fmt::format("function '{}': {}", out.name, e.message));
  }
  return out;
}

}  // namespace text

namespace {

template <typename F>
auto guarded(const F& parse) -> absl::StatusOr<decltype(parse())> {
  try {
    return parse();
  } catch (const text::TextError& e) {
    return absl::InvalidArgumentError(e.message);
  }
}

}  // namespace

absl::StatusOr<std::vector<TextToken>> tokenize_text(std::string_view input, const std::string& name) {
  return guarded([&] { return text::tokenize(input, name); });
}

absl::StatusOr<std::vector<Node>> parse_text_nodes(std::string_view input, const std::string& name) {
  return guarded([&] {
    text::TextReader reader(input, name, nullptr);
    std::vector<Node> nodes;
    if (reader.at_punct("{"))
      nodes = reader.nodes();
    else
      while (reader.peek().kind != TextToken::Kind::kEnd) nodes.push_back(reader.node());
    reader.expect_end();
    return nodes;
  });
}

absl::StatusOr<std::vector<Attribute>> parse_text_attributes(std::string_view input, const std::string& name) {
  return guarded([&] {
    text::TextReader reader(input, name, nullptr);
    std::vector<Attribute> out = reader.accept("<") ? reader.attributes() : reader.attribute_list();
    reader.expect_end();
    return out;
  });
}

absl::StatusOr<ValueType> parse_text_type(std::string_view input, const std::string& name) {
  return guarded([&] {
    text::TextReader reader(input, name, nullptr);
    ValueType type = reader.type();
    reader.expect_end();
    return type;
  });
}

absl::StatusOr<Tensor> parse_text_tensor(std::string_view input, const std::string& name) {
  return guarded([&] {
    text::TextReader reader(input, name, nullptr);
    const ValueType type = reader.type();
    Tensor tensor = reader.literal(type);
    reader.expect_end();
    return tensor;
  });
}

}  // namespace saturate
