#include <algorithm>
#include <bit>
#include <cmath>

#include "fmt/format.h"
#include "onnx_bridge/file/text/model.h"
#include "onnx_bridge/file/text/reader.h"

namespace saturate {
namespace text {
namespace {

class Printer {
 public:
  std::string out;

  void graph(const Graph& g, int indent) {
    out.append(name_text(g.name)).append(" (");
    const auto initializer_of = [&](const std::string& name) -> const Initializer* {
      for (const Initializer& i : g.initializers)
        if (i.name == name && !i.sparse) return &i;
      return nullptr;
    };
    std::vector<const Initializer*> defaults;
    for (std::size_t i = 0; i < g.inputs.size(); ++i) {
      out += i ? ", " : "";
      const Initializer* given = initializer_of(g.inputs[i].name);
      // Data with a type of its own is printed here only where the two types agree.
      if (given && g.inputs[i].type.kind == ValueType::Kind::kTensor && type_of_tensor(given->tensor) == print_text(g.inputs[i].type)) {
        tensor(given->tensor, given->name);
        defaults.push_back(given);
      } else {
        value(g.inputs[i]);
      }
    }
    out += ") => (";
    list(g.outputs);
    out += ")";
    between(g, defaults, indent);
    block(g.nodes, indent);
  }

  void function(const Function& f) {
    out += fmt::format("<\n  domain: {}", quoted_text(f.domain));
    if (!f.overload.empty()) out += fmt::format(",\n  overload: {}", quoted_text(f.overload));
    out += fmt::format(",\n  opset_import: {}\n>\n{} ", opsets(f.opset_imports), name_text(f.name));
    if (!f.attributes.empty() || !f.attribute_defaults.empty()) {
      std::string separator = "<";
      for (const std::string& a : f.attributes) out.append(std::exchange(separator, ", ")).append(name_text(a));
      for (const Attribute& a : f.attribute_defaults) {
        out += std::exchange(separator, ", ");
        attribute(a, 0);
      }
      out += "> ";
    }
    out += fmt::format("({}) => ({})", names(f.inputs), names(f.outputs));
    block(f.nodes, 0);
  }

  void node(const Node& n, int indent) {
    if (!n.name.empty()) out += fmt::format("[{}] ", name_text(n.name));
    out += fmt::format("{} = {}", names(n.outputs), op(n));
    if (!n.attributes.empty()) {
      out += " <";
      for (std::size_t i = 0; i < n.attributes.size(); ++i) {
        out += i ? ", " : "";
        attribute(n.attributes[i], indent);
      }
      out += ">";
    }
    out += fmt::format(" ({})", names(n.inputs));
  }

  void attribute(const Attribute& a, int indent) {
    out += name_text(a.name);
    const std::string_view type = attribute_type_name(a.type);
    if (!type.empty()) out += fmt::format(": {}", type);
    out += " = ";
    if (!a.ref.empty()) {
      out += fmt::format("@{}", name_text(a.ref));
      return;
    }
    switch (a.value.index()) {
      case 1:
        out += number(a.f());
        break;
      case 2:
        out += std::to_string(a.i());
        break;
      case 3:
        out += quoted_text(a.s());
        break;
      case 4:
        tensor(a.t(), "");
        break;
      case 5:
        graph(a.g(), indent + 2);
        break;
      case 6:
        items(a.floats(), [&](float v) { out += number(v); });
        break;
      case 7:
        items(a.ints(), [&](std::int64_t v) { out += std::to_string(v); });
        break;
      case 8:
        items(a.strings(), [&](const std::string& v) { out += quoted_text(v); });
        break;
      case 9:
        items(std::get<9>(a.value), [&](const Tensor& v) { tensor(v, ""); });
        break;
      case 10:
        items(std::get<10>(a.value), [&](const auto& v) { graph(*v, indent + 2); });
        break;
      default:
        if (const auto type_value = type_of(a))
          out += print_text(*type_value);
        else
          out += hex(message_bytes(a));
    }
  }

  void tensor(const Tensor& t, const std::string& name) {
    out += type_of_tensor(t);
    if (!name.empty()) out += fmt::format(" {} =", name_text(name));
    if (bit_width(t.dtype()) == 0 && t.dtype() != DType::kString) {
      out.append(" ").append(hex({reinterpret_cast<const char*>(t.bytes().data()), t.bytes().size()}));
      return;
    }
    out += " {";
    if (t.dtype() == DType::kString) {
      for (std::size_t i = 0; i < t.string_data().size(); ++i) out.append(i ? ", " : "").append(quoted_text(t.string_data()[i]));
    } else {
      elements(t);
    }
    out += "}";
  }

  static std::string type_of_tensor(const Tensor& t) {
    ValueType type;
    type.kind = ValueType::Kind::kTensor;
    type.dtype = t.dtype();
    type.shape.emplace();
    for (std::int64_t d : t.dims()) type.shape->emplace_back(d);
    std::string text = print_text(type);
    return text;
  }

  static std::string opsets(const std::map<std::string, std::int64_t>& imports) {
    std::string text = "[";
    for (const auto& [domain, version] : imports)
      text += fmt::format("{}{} : {}", text.size() > 1 ? ", " : "", quoted_text(domain), version);
    return text + "]";
  }

 private:
  static std::string names(const std::vector<std::string>& list) {
    std::string text;
    for (std::size_t i = 0; i < list.size(); ++i) text.append(i ? ", " : "").append(name_text(list[i]));
    return text;
  }

  static std::string op(const Node& n) {
    std::string text;
    std::size_t begin = 0;
    // Only a domain whose parts are all there can be split at its points.
    const bool splits = !n.domain.empty() && n.domain.front() != '.' && n.domain.back() != '.' && n.domain.find("..") == std::string::npos;
    while (splits && begin <= n.domain.size()) {
      const std::size_t end = std::min(n.domain.find('.', begin), n.domain.size());
      text.append(name_text(n.domain.substr(begin, end - begin))).append(".");
      begin = end + 1;
    }
    if (!n.domain.empty() && !splits) text.append(quoted_text(n.domain)).append(".");
    text += name_text(n.op_type);
    if (!n.overload.empty()) text.append(":").append(name_text(n.overload));
    return text;
  }

  // Shortest text that reads back as the same number; NaNs other than the usual one as bits.
  static std::string number(float v) {
    const auto bits = std::bit_cast<std::uint32_t>(v);
    if (std::isnan(v) && bits != 0x7fc00000u) return fmt::format("0x{:08x}", bits);
    return decimal(v);
  }
  template <typename T>
  static std::string decimal(T v) {
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
    std::string text = fmt::format("{}", v);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
  }

  template <typename L, typename F>
  void items(const L& values, const F& print) {
    out += "[";
    bool first = true;
    for (const auto& v : values) {
      if (!std::exchange(first, false)) out += ", ";
      print(v);
    }
    out += "]";
  }

  void elements(const Tensor& t) {
    const DType dtype = t.dtype();
    if (dtype == DType::kComplex64 || dtype == DType::kComplex128) {
      Shape dims = t.dims();
      dims.push_back(2);
      const Tensor parts(dtype == DType::kComplex64 ? DType::kFloat : DType::kDouble, dims, nullptr, t.bytes());
      elements(parts);
      return;
    }
    for (std::int64_t i = 0; i < t.size(); ++i) {
      if (i) out += ", ";
      out += element(t, i);
    }
  }

  static std::string element(const Tensor& t, std::int64_t i) {
    const DType dtype = t.dtype();
    const std::uint64_t bits = element_bits(t, i);
    if (dtype == DType::kFloat) return number(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    if (dtype == DType::kUint64) return std::to_string(bits);
    if (!is_floating(dtype)) {
      if (dtype == DType::kBool && bits > 1) return fmt::format("0x{:02x}", bits);
      return std::to_string(*element_as_int(t, i));
    }
    const double value = *element_as_double(t, i);
    if (std::isnan(value) && !(dtype == DType::kDouble && bits == 0x7ff8000000000000u)) return fmt::format("0x{:x}", bits);
    return decimal(value);
  }

  void value(const ValueInfo& v) {
    const std::string type = print_text(v.type);
    out.append(type).append(type.empty() ? "" : " ").append(name_text(v.name));
  }

  void list(const std::vector<ValueInfo>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      out += i ? ", " : "";
      value(values[i]);
    }
  }

  void between(const Graph& g, const std::vector<const Initializer*>& printed, int indent) {
    const std::string opening = fmt::format("\n{:{}}<", "", indent);
    bool any = false;
    const auto begin_item = [&] {
      out += any ? std::string_view(", ") : std::string_view(opening);
      any = true;
    };
    for (const Initializer& i : g.initializers) {
      if (std::find(printed.begin(), printed.end(), &i) != printed.end()) continue;
      begin_item();
      if (i.sparse)
        out += fmt::format("sparse_tensor(undefined[]) {} = {}", name_text(i.name), hex(message_bytes(i)));
      else
        tensor(i.tensor, i.name);
    }
    for (const ValueInfo& v : g.value_info) {
      begin_item();
      value(v);
    }
    if (any) out += ">";
  }

  void block(const std::vector<Node>& nodes, int indent) {
    const std::string blanks(static_cast<std::size_t>(indent), ' ');
    out.append("\n").append(blanks).append("{\n");
    for (const Node& n : nodes) {
      out.append(blanks).append("  ");
      node(n, indent + 2);
      out += "\n";
    }
    out.append(blanks).append("}");
  }
};

bool plain(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (char c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) return false;
  // Words that would be read as types or numbers.
  for (std::string_view word : {"undefined", "opaque", "seq", "optional", "map", "sparse_tensor", "inf", "infinity", "nan"})
    if (name == word) return false;
  return !parse_dtype(name) && !name.starts_with("type_");
}

}  // namespace

std::string hex(std::string_view bytes) {
  std::string out = "0x";
  for (char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string quoted_text(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string name_text(std::string_view name) { return plain(name) ? std::string(name) : quoted_text(name); }

std::string print_function(const Function& f) {
  Printer p;
  p.function(f);
  return std::move(p.out);
}

}  // namespace text

std::string print_text(const ValueType& type) {
  const auto tensor = [&] {
    const int number = static_cast<int>(type.dtype);
    std::string text =
        type.dtype == DType::kUndefined || parse_dtype(dtype_name(type.dtype)) ? dtype_name(type.dtype) : fmt::format("type_{}", number);
    if (!type.shape) return text + "[]";
    if (type.shape->empty()) return text;
    for (std::size_t i = 0; i < type.shape->size(); ++i) {
      text += i ? "," : "[";
      if (const auto* n = std::get_if<std::int64_t>(&(*type.shape)[i]))
        text += std::to_string(*n);
      else if (const auto* s = std::get_if<std::string>(&(*type.shape)[i]))
        text += text::name_text(*s);
      else
        text += "?";
    }
    return text + "]";
  };
  const auto element = [&] { return type.element ? print_text(*type.element) : std::string("undefined"); };
  switch (type.kind) {
    case ValueType::Kind::kUnknown:
      return "";
    case ValueType::Kind::kTensor:
      return tensor();
    case ValueType::Kind::kSparseTensor:
      return fmt::format("sparse_tensor({})", tensor());
    case ValueType::Kind::kSequence:
      return fmt::format("seq({})", element());
    case ValueType::Kind::kOptional:
      return fmt::format("optional({})", element());
    case ValueType::Kind::kMap:
      return fmt::format("map({}, {})", dtype_name(type.dtype), element());
    case ValueType::Kind::kOpaque:
      return "opaque";
  }
  return "";
}

std::string_view attribute_type_name(AttributeType type) {
  constexpr std::string_view kNames[] = {"",           "float",   "int",     "string", "tensor",        "graph",          "floats",
                                         "ints",       "strings", "tensors", "graphs", "sparse_tensor", "sparse_tensors", "type_proto",
                                         "type_protos"};
  const auto i = static_cast<std::size_t>(type);
  return i < std::size(kNames) ? kNames[i] : "";
}

std::string print_text(const Tensor& tensor) {
  text::Printer p;
  p.tensor(tensor, "");
  return std::move(p.out);
}

std::string print_text(const Attribute& attribute) {
  text::Printer p;
  p.attribute(attribute, 0);
  return std::move(p.out);
}

std::string print_text(const Node& node) {
  text::Printer p;
  p.node(node, 0);
  return std::move(p.out);
}

std::string print_text(const Graph& graph) {
  text::Printer p;
  p.graph(graph, 0);
  return std::move(p.out);
}

}  // namespace saturate
