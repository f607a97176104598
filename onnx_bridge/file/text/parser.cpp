// The reader's small parts: names, numbers, types, literals. Nodes and graphs are in graph.cpp.
#include "onnx_bridge/file/text/parser.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "fmt/format.h"
#include "onnx_bridge/file/proto/convert.h"
#include "onnx_bridge/file/text/reader.h"
#include "onnx_bridge/model/max_rank.h"

namespace saturate::text {
namespace {

using TokenKind = TextToken::Kind;

std::string describe(const TextToken& t) {
  switch (t.kind) {
    case TokenKind::kEnd:
      return "the end of the text";
    case TokenKind::kString:
      return fmt::format("\"{}\"", t.text);
    default:
      return fmt::format("'{}'", t.text);
  }
}

std::optional<DType> dtype_of(std::string_view name) {
  if (name == "undefined") return DType::kUndefined;
  if (name.starts_with("type_")) {
    int number = 0;
    const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size()) return static_cast<DType>(number);
  }
  return parse_dtype(name);
}

bool is_infinity(std::string_view text) { return text == "inf" || text == "infinity" || text == "-inf" || text == "-infinity"; }
bool is_nan(std::string_view text) { return text == "nan" || text == "-nan"; }
bool is_special_number(const TextToken& t) {
  return (t.kind == TokenKind::kName || t.kind == TokenKind::kFloat) && (is_infinity(t.text) || is_nan(t.text));
}

template <typename T>
std::optional<T> parse_float(const TextToken& t) {
  if (is_special_number(t)) {
    if (is_nan(t.text)) return t.text[0] == '-' ? -std::numeric_limits<T>::quiet_NaN() : std::numeric_limits<T>::quiet_NaN();
    return t.text[0] == '-' ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
  }
  if (t.kind != TokenKind::kInt && t.kind != TokenKind::kFloat) return std::nullopt;
  T value = 0;
  const auto [end, error] = std::from_chars(t.text.data(), t.text.data() + t.text.size(), value);
  if (end != t.text.data() + t.text.size()) return std::nullopt;
  // Out of range: too small is zero, too large is refused.
  if (error == std::errc::result_out_of_range) {
    const double wide = std::strtod(t.text.c_str(), nullptr);
    if (std::fabs(wide) > 1) return std::nullopt;
    return static_cast<T>(wide);
  }
  return error == std::errc() ? std::optional<T>(value) : std::nullopt;
}

template <typename T>
std::optional<T> parse_integer(const TextToken& t, int base = 10) {
  T value = 0;
  const auto [end, error] = std::from_chars(t.text.data(), t.text.data() + t.text.size(), value, base);
  if (error != std::errc() || end != t.text.data() + t.text.size()) return std::nullopt;
  return value;
}

}  // namespace

TextReader::Nesting::Nesting(TextReader& r) : reader(r) {
  if (++reader.depth_ > proto::kMaxNesting) {
    --reader.depth_;
    reader.fail_here(fmt::format("nested more than {} deep", proto::kMaxNesting));
  }
}

void TextReader::fail(const TextToken& token, const std::string& what) const {
  throw TextError{fmt::format("{}:{}:{}: {}", name_, token.line, token.column, what)};
}

bool TextReader::accept(std::string_view punct) {
  if (!at_punct(punct)) return false;
  next();
  return true;
}

void TextReader::expect(std::string_view punct) {
  if (!accept(punct)) fail_here(fmt::format("expected '{}', found {}", punct, describe(peek())));
}

void TextReader::expect_end() {
  if (peek().kind != TokenKind::kEnd) fail_here(fmt::format("expected the end of the text, found {}", describe(peek())));
}

std::string TextReader::name(const char* what) {
  if (!at_name()) fail_here(fmt::format("expected {}, found {}", what, describe(peek())));
  return next().text;
}

std::string TextReader::string(const char* what) {
  if (peek().kind != TokenKind::kString) fail_here(fmt::format("expected {} in quotes, found {}", what, describe(peek())));
  return next().text;
}

std::int64_t TextReader::integer() {
  if (peek().kind != TokenKind::kInt) fail_here(fmt::format("expected an integer, found {}", describe(peek())));
  const auto value = parse_integer<std::int64_t>(peek());
  if (!value) fail_here(fmt::format("{} does not fit into 64 bits", peek().text));
  next();
  return *value;
}

std::string TextReader::hex_bytes() {
  if (peek().kind != TokenKind::kHex || peek().text.size() % 2 != 0)
    fail_here(fmt::format("expected bytes (0x and two digits for each), found {}", describe(peek())));
  const std::string digits = next().text;
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

float TextReader::float_number() {
  if (peek().kind == TokenKind::kHex) {
    const auto bits = parse_integer<std::uint32_t>(peek(), 16);
    if (!bits) fail_here(fmt::format("0x{} has more than 32 bits", peek().text));
    next();
    return std::bit_cast<float>(*bits);
  }
  const auto value = parse_float<float>(peek());
  if (!value) fail_here(fmt::format("expected a number that a float holds, found {}", describe(peek())));
  next();
  return *value;
}

std::vector<std::pair<std::string, std::string>> TextReader::string_pairs() {
  std::vector<std::pair<std::string, std::string>> pairs;
  expect("[");
  while (!at_punct("]")) {
    std::string key = string("a key");
    expect(":");
    pairs.emplace_back(std::move(key), string("a value"));
    if (!accept(",")) break;
  }
  expect("]");
  return pairs;
}

std::map<std::string, std::int64_t> TextReader::opset_imports() {
  std::map<std::string, std::int64_t> imports;
  expect("[");
  while (!at_punct("]")) {
    const TextToken key = peek();
    const std::string domain = proto::normalized_domain(string("a domain"));
    expect(":");
    const std::int64_t version = integer();
    if (version < 1) fail(key, fmt::format("opset version {} of domain \"{}\" is below 1", version, domain));
    if (version > proto::kMaxVersion)
      fail(key, fmt::format("opset version {} of domain \"{}\" is above {}", version, domain, proto::kMaxVersion));
    if (!imports.emplace(domain, version).second) fail(key, fmt::format("domain \"{}\" is named twice", domain));
    if (!accept(",")) break;
  }
  expect("]");
  return imports;
}

void TextReader::header(const std::function<void(const TextToken& key)>& visit) {
  expect("<");
  while (!at_punct(">")) {
    if (peek().kind != TokenKind::kName) fail_here(fmt::format("expected a key, found {}", describe(peek())));
    const TextToken key = next();
    expect(":");
    visit(key);
    if (!accept(",")) break;
  }
  expect(">");
}

bool TextReader::at_type() const {
  if (peek().kind != TokenKind::kName) return false;
  const std::string& t = peek().text;
  if (dtype_of(t) || t == "opaque") return true;
  return at_punct("(", 1) && (t == "seq" || t == "optional" || t == "map" || t == "sparse_tensor");
}

ValueType TextReader::type() {
  const Nesting nesting(*this);
  if (!at_type()) fail_here(fmt::format("expected a type such as float[2,N], found {}", describe(peek())));
  const std::string word = next().text;
  ValueType out;
  if (const auto dtype = dtype_of(word)) return tensor_type(*dtype);
  if (word == "opaque") {
    out.kind = ValueType::Kind::kOpaque;
    return out;
  }
  expect("(");
  if (word == "sparse_tensor") {
    out = type();
    if (out.kind != ValueType::Kind::kTensor) fail_here("a sparse tensor's type is written sparse_tensor(float[N])");
    out.kind = ValueType::Kind::kSparseTensor;
  } else {
    out.kind = word == "seq" ? ValueType::Kind::kSequence : word == "map" ? ValueType::Kind::kMap : ValueType::Kind::kOptional;
    if (word == "map") {
      const auto key = dtype_of(name("the key type of the map"));
      if (!key) fail_here("this is no key type");
      out.dtype = *key;
      expect(",");
    }
    out.element = std::make_shared<const ValueType>(type());
  }
  expect(")");
  return out;
}

ValueType TextReader::tensor_type(DType dtype) {
  ValueType out;
  out.kind = ValueType::Kind::kTensor;
  out.dtype = dtype;
  out.shape.emplace();
  if (!accept("[")) return out;
  if (accept("]")) {
    out.shape.reset();  // float[] is of unknown rank, float of rank 0
    return out;
  }
  do {
    if (out.shape->size() == kMaxRank) fail_here(fmt::format("a tensor has at most {} dims", kMaxRank));
    if (accept("?"))
      out.shape->emplace_back();
    else if (at_name())
      out.shape->emplace_back(next().text);
    else if (peek().kind == TokenKind::kInt && peek().text[0] != '-')
      out.shape->emplace_back(integer());
    else
      fail_here(fmt::format("expected a dim (a number, a name or ?), found {}", describe(peek())));
  } while (accept(","));
  expect("]");
  return out;
}

Shape TextReader::literal_dims(const ValueType& type) const {
  if (type.kind != ValueType::Kind::kTensor || !type.shape)
    fail_here("a literal needs a tensor type with dims, such as float[2] {1, 2} or float {1}");
  Shape dims;
  for (const DimSpec& d : *type.shape) {
    const auto* n = std::get_if<std::int64_t>(&d);
    if (!n) fail_here("all dims of a literal must be numbers");
    dims.push_back(*n);
  }
  if (!checked_bytes(type.dtype, dims)) fail_here(fmt::format("there is no literal of {} with such dims", dtype_name(type.dtype)));
  return dims;
}

Tensor TextReader::literal(const ValueType& type) {
  if (at_punct("[")) return external(type);
  const TextToken open = peek();
  if (open.kind == TokenKind::kHex && bit_width(type.dtype) == 0 && type.dtype != DType::kString) {  // of a dtype newer than this program
    const auto held = std::make_shared<const std::string>(hex_bytes());
    return Tensor(type.dtype, literal_dims(type), held, std::as_bytes(std::span(*held)));
  }
  Shape dims = literal_dims(type);
  expect("{");
  if (type.dtype == DType::kString) return string_literal(std::move(dims));
  if (bit_width(type.dtype) == 0) fail(open, fmt::format("there is no literal of {}", dtype_name(type.dtype)));
  // Each element takes two characters at least: dims beyond the text are refused before memory is asked for.
  const bool complex = type.dtype == DType::kComplex64 || type.dtype == DType::kComplex128;
  const std::int64_t count = *checked_elements(dims) * (complex ? 2 : 1);
  if (count > static_cast<std::int64_t>(tokens_.size())) fail(open, fmt::format("the dims ask for {} elements, the text has fewer", count));
  Tensor tensor(type.dtype, dims);
  // A complex tensor is filled as one of its parts, then seen as complex.
  if (complex) {
    dims.push_back(2);
    tensor = Tensor(type.dtype == DType::kComplex64 ? DType::kFloat : DType::kDouble, dims);
    dims.pop_back();
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (!at_punct("}") && i > 0) expect(",");
    if (at_punct("}")) fail_here(fmt::format("the dims ask for {} elements, here are {}", count, i));
    element(tensor, i);
  }
  if (!accept("}")) fail_here(fmt::format("the dims ask for {} elements, here are more, or '}}' is missing", count));
  if (!complex) return tensor;
  Tensor out(type.dtype, dims);
  if (count > 0) std::memcpy(out.mutable_data(), tensor.bytes().data(), tensor.bytes().size());
  return out;
}

Tensor TextReader::string_literal(Shape dims) {
  std::vector<std::string> values;
  while (!at_punct("}")) {
    values.push_back(string("an element"));
    if (!accept(",")) break;
  }
  expect("}");
  if (static_cast<std::int64_t>(values.size()) != *checked_elements(dims))
    fail_here(fmt::format("the dims ask for {} elements, here are {}", *checked_elements(dims), values.size()));
  return Tensor::strings(std::move(dims), std::move(values));
}

void TextReader::element(Tensor& tensor, std::int64_t i) {
  const TextToken t = next();
  const DType dtype = tensor.dtype();
  bool stored = false;
  if (dtype == DType::kBool && t.kind == TokenKind::kName) {
    stored = (t.text == "true" || t.text == "false") && store_int(tensor, i, t.text == "true");
  } else if (t.kind == TokenKind::kHex) {
    const auto bits = parse_integer<std::uint64_t>(t, 16);
    stored = bits && (bit_width(dtype) >= 64 || *bits < std::uint64_t{1} << bit_width(dtype));
    if (stored) store_bits(tensor, i, dtype == DType::kBool ? *bits != 0 : *bits);
  } else if (dtype == DType::kUint64 && t.kind == TokenKind::kInt) {
    const auto value = parse_integer<std::uint64_t>(t);
    stored = value.has_value();
    if (stored) store_bits(tensor, i, *value);
  } else if (t.kind == TokenKind::kInt && is_floating(dtype) && bit_width(dtype) < 32) {
    const auto bits = parse_integer<std::uint64_t>(t);  // as the standard has it: see parser.h
    stored = bits && *bits < std::uint64_t{1} << bit_width(dtype);
    if (stored) store_bits(tensor, i, *bits);
  } else if (t.kind == TokenKind::kInt && !is_floating(dtype)) {
    const auto value = parse_integer<std::int64_t>(t);
    stored = value && store_int(tensor, i, *value);
  } else if (dtype == DType::kFloat) {
    const auto value = parse_float<float>(t);
    stored = value.has_value();
    if (stored) store_bits(tensor, i, std::bit_cast<std::uint32_t>(*value));
  } else if (is_floating(dtype)) {
    const auto value = parse_float<double>(t);
    stored = value && store_double(tensor, i, *value);
  }
  if (!stored) fail(t, fmt::format("{} is not a valid {}", describe(t), dtype_name(dtype)));
}

Tensor TextReader::external(const ValueType& type) {
  const TextToken open = peek();
  ExternalReference reference;
  for (auto& [key, value] : string_pairs()) {
    if (key == "location")
      reference.location = value;
    else if (key == "offset")
      reference.offset = value;
    else if (key == "length")
      reference.length = value;
  }
  if (!files_) fail(open, "data files cannot be named here");
  auto tensor = files_->map(reference, type.dtype, literal_dims(type));
  if (!tensor.ok()) fail(open, std::string(tensor.status().message()));
  return *std::move(tensor);
}

std::optional<ValueType> type_of(const Attribute& attribute) {
  if (!attribute.raw || attribute.type != AttributeType::kTypeProto) return std::nullopt;
  ExternalFiles none("");
  return proto::Reader(nullptr, none).read(static_cast<const onnx::AttributeProto*>(attribute.raw.get())->tp());
}

Attribute type_attribute(std::string name, const ValueType& type) {
  auto message = std::make_shared<onnx::AttributeProto>();
  message->set_name(name);
  message->set_type(onnx::AttributeProto::TYPE_PROTO);
  proto::Writer(nullptr, 0, false).write(type, message->mutable_tp());
  Attribute out;
  out.name = std::move(name);
  out.type = AttributeType::kTypeProto;
  out.raw = std::move(message);
  return out;
}

std::string message_bytes(const Attribute& attribute) {
  return attribute.raw ? static_cast<const onnx::AttributeProto*>(attribute.raw.get())->SerializeAsString() : std::string();
}

std::shared_ptr<const void> attribute_message(const std::string& bytes) {
  auto message = std::make_shared<onnx::AttributeProto>();
  return message->ParseFromString(bytes) ? message : nullptr;
}

std::string message_bytes(const Initializer& sparse) {
  return static_cast<const onnx::SparseTensorProto*>(sparse.origin.get())->SerializeAsString();
}

std::shared_ptr<const void> sparse_message(const std::string& bytes, const std::string& name) {
  auto message = std::make_shared<onnx::SparseTensorProto>();
  if (!message->ParseFromString(bytes)) return nullptr;
  message->mutable_values()->set_name(name);
  return message;
}

void TextReader::scalar_value(Attribute& out, AttributeType wanted) {
  const TextToken& t = peek();
  if (t.kind == TokenKind::kString)
    out.value = next().text;
  else if (t.kind == TokenKind::kFloat || t.kind == TokenKind::kHex || is_special_number(t) ||
           (t.kind == TokenKind::kInt && wanted == AttributeType::kFloat))
    out.value = float_number();
  else if (t.kind == TokenKind::kInt)
    out.value = integer();
  else
    fail_here(fmt::format("expected the value of an attribute, found {}", describe(t)));
}

void TextReader::attribute_value(Attribute& out) {
  const AttributeType wanted = out.type;
  const TextToken first = peek();
  AttributeType found = AttributeType::kInt;
  if (first.kind == TokenKind::kHex &&
      (wanted == AttributeType::kSparseTensor || wanted == AttributeType::kSparseTensors || wanted == AttributeType::kTypeProtos)) {
    out.raw = attribute_message(hex_bytes());
    if (!out.raw) fail(first, "these bytes are no AttributeProto");
    found = wanted;
  } else if (accept("[")) {
    list_value(out);
    found = out.type;
  } else if (at_type() && !is_special_number(peek())) {
    const ValueType t = type();
    if (at_name() && at_punct("{", 1)) next();  // a name of the tensor, which an attribute has no use for
    if (at_punct("{") || at_punct("[") || peek().kind == TokenKind::kHex) {
      out.value = literal(t);
      found = AttributeType::kTensor;
    } else {
      out.raw = type_attribute(out.name, t).raw;
      found = AttributeType::kTypeProto;
    }
  } else if (at_name() && at_punct("(", 1)) {
    out.value = std::make_shared<const Graph>(graph());
    found = AttributeType::kGraph;
  } else {
    scalar_value(out, wanted);
    found = std::holds_alternative<float>(out.value)         ? AttributeType::kFloat
            : std::holds_alternative<std::string>(out.value) ? AttributeType::kString
                                                             : AttributeType::kInt;
  }
  if (wanted != AttributeType::kUndefined && found != wanted)
    fail(first, fmt::format("the value of attribute '{}' is not of the type written before it", out.name));
  out.type = found;
}

// After "[". What an empty list holds must be written as the attribute's type; without one it is a list of ints.
void TextReader::list_value(Attribute& out) {
  std::vector<Attribute> items;
  const AttributeType wanted = out.type;
  const bool floats = wanted == AttributeType::kFloats;
  bool any_float = floats;
  while (!at_punct("]")) {
    Attribute item;
    item.type = floats ? AttributeType::kFloat : AttributeType::kUndefined;
    if (at_punct("[")) fail_here("a list in a list is no attribute");
    attribute_value(item);
    any_float |= item.type == AttributeType::kFloat;
    items.push_back(std::move(item));
    if (!accept(",")) break;
  }
  expect("]");
  const auto gather = [&]<typename T>(std::vector<T> list, AttributeType type) {
    for (const Attribute& item : items) {
      if constexpr (std::is_same_v<T, float>) {
        if (const auto* n = std::get_if<std::int64_t>(&item.value)) {
          list.push_back(static_cast<float>(*n));
          continue;
        }
      }
      const T* value = std::get_if<T>(&item.value);
      if (!value) fail_here(fmt::format("the elements of the list '{}' are of different types", out.name));
      list.push_back(*value);
    }
    out.value = std::move(list);
    out.type = type;
  };
  if (items.empty() && wanted == AttributeType::kFloats)
    gather(std::vector<float>(), wanted);
  else if (items.empty() && wanted == AttributeType::kStrings)
    gather(std::vector<std::string>(), wanted);
  else if (items.empty() && wanted == AttributeType::kTensors)
    gather(std::vector<Tensor>(), wanted);
  else if (items.empty() && wanted == AttributeType::kGraphs)
    gather(std::vector<std::shared_ptr<const Graph>>(), wanted);
  else if (items.empty())
    gather(std::vector<std::int64_t>(), AttributeType::kInts);
  else if (any_float)
    gather(std::vector<float>(), AttributeType::kFloats);
  else if (items[0].type == AttributeType::kInt)
    gather(std::vector<std::int64_t>(), AttributeType::kInts);
  else if (items[0].type == AttributeType::kString)
    gather(std::vector<std::string>(), AttributeType::kStrings);
  else if (items[0].type == AttributeType::kTensor)
    gather(std::vector<Tensor>(), AttributeType::kTensors);
  else if (items[0].type == AttributeType::kGraph)
    gather(std::vector<std::shared_ptr<const Graph>>(), AttributeType::kGraphs);
  else
    fail_here(fmt::format("the list '{}' holds what no attribute can hold", out.name));
}

}  // namespace saturate::text
