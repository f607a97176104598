#include "onnx_bridge/convert/node_text.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {
namespace {

// Two independent 64-bit sums (FNV-1a, and splitmix's mixing) of bytes.
std::string digest(std::span<const std::byte> bytes) {
  std::uint64_t fnv = 0xcbf29ce484222325u, mixed = bytes.size();
  const auto step = [&](std::uint64_t word) {
    fnv = (fnv ^ word) * 0x100000001b3u;
    mixed = (mixed + word) * 0xbf58476d1ce4e5b9u;
    mixed ^= mixed >> 29;
  };
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    step(word);
  }
  for (; at < bytes.size(); ++at) step(static_cast<std::uint64_t>(bytes[at]) + 0x100);
  return fmt::format("{:016x}{:016x}", fnv, mixed);
}

std::string with_length(std::string_view text) { return fmt::format("{}:{}", text.size(), text); }

// The values of a graph by numbers.
class Numbering {
 public:
  std::string of(const std::string& name) {
    if (name.empty()) return "-";
    return fmt::format("{}", numbers_.try_emplace(name, numbers_.size()).first->second);
  }
  std::string of(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += of(name) + " ";
    return out;
  }

 private:
  std::unordered_map<std::string, std::size_t> numbers_;
};

std::string nodes_text(const std::vector<Node>& nodes, Numbering& numbers) {
  std::string out;
  for (const Node& node : nodes) {
    // Captured values take their numbers from where they are first met, in the order of `captured_names`, as children of an e-node do.
    out += fmt::format("{}.{}.{}({}){}->{};", node.domain, node.op_type, node.overload, numbers.of(node.inputs),
                       attributes_text(node.attributes), numbers.of(node.outputs));
  }
  return out;
}

}  // namespace

std::string tensor_text(const Tensor& tensor) {
  std::string content;
  if (tensor.dtype() == DType::kString)
    for (const std::string& s : tensor.string_data()) content += with_length(s);
  else
    content = digest(tensor.bytes());
  return fmt::format("{}[{}]{}", dtype_name(tensor.dtype()), fmt::join(tensor.dims(), ","), content);
}

std::string body_text(const Graph& graph) {
  Numbering numbers;
  for (const std::string& name : captured_names(graph)) numbers.of(name);
  std::string out = "{";
  for (const ValueInfo& input : graph.inputs) out += numbers.of(input.name) + ",";
  for (const Initializer& i : graph.initializers)
    out += fmt::format("{}={}", numbers.of(i.name), i.sparse ? "sparse" : tensor_text(i.tensor));
  out += nodes_text(graph.nodes, numbers);
  for (const ValueInfo& output : graph.outputs) out += numbers.of(output.name) + ",";
  return out + "}";
}

std::string function_text(const Function& function) {
  Numbering numbers;
  numbers.of(function.inputs);
  std::string out = nodes_text(function.nodes, numbers) + numbers.of(function.outputs) + attributes_text(function.attribute_defaults);
  for (const auto& [domain, version] : function.opset_imports) out += fmt::format("{}@{} ", domain, version);
  return out + fmt::format("{}", fmt::join(function.attributes, ","));
}

std::string exact_text(const Attribute& a) {
  const auto bits = [](float f) { return fmt::format("{:08x}", std::bit_cast<std::uint32_t>(f)); };
  std::string out = fmt::format("{}:{}=", a.name, static_cast<int>(a.type));
  if (!a.ref.empty()) return out + "@" + a.ref;
  if (const auto* f = std::get_if<float>(&a.value)) return out + bits(*f);
  if (const auto* i = std::get_if<std::int64_t>(&a.value)) return out + fmt::format("{}", *i);
  if (const auto* s = std::get_if<std::string>(&a.value)) return out + with_length(*s);
  if (const auto* t = std::get_if<Tensor>(&a.value)) return out + tensor_text(*t);
  if (const auto* g = std::get_if<std::shared_ptr<const Graph>>(&a.value)) return out + body_text(**g);
  if (const auto* list = std::get_if<std::vector<float>>(&a.value))
    for (const float f : *list) out += bits(f) + ",";
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&a.value)) out += fmt::format("{}", fmt::join(*list, ","));
  if (const auto* list = std::get_if<std::vector<std::string>>(&a.value))
    for (const std::string& s : *list) out += with_length(s);
  if (const auto* list = std::get_if<std::vector<Tensor>>(&a.value))
    for (const Tensor& t : *list) out += tensor_text(t);
  if (const auto* list = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&a.value))
    for (const auto& g : *list) out += body_text(*g);
  return out;
}

std::string attributes_text(std::vector<Attribute> attributes) {
  std::sort(attributes.begin(), attributes.end(), [](const Attribute& a, const Attribute& b) { return a.name < b.name; });
  std::string out = "<";
  for (const Attribute& a : attributes) out += exact_text(a) + ";";
  return out + ">";
}

std::string operator_text(const OpKey& key) {
  return fmt::format("{}.{}.{}v{}u{}{}", key.domain, key.op_type, key.overload, key.version, key.unique, attributes_text(key.attributes));
}

std::string short_attributes(const Node& node) {
  constexpr std::size_t kMostText = 40;
  std::vector<std::string> out;
  const OpSchema* schema = find_schema(node.domain, node.op_type, kNewestOpset);
  for (const Attribute& a : node.attributes) {
    const OpAttribute* declared = schema ? schema->attribute(a.name) : nullptr;
    if (declared && declared->default_value && exact_text(*declared->default_value) == exact_text(a)) continue;
    std::string text;
    if (const auto* f = std::get_if<float>(&a.value)) text = fmt::format("{:.6g}", *f);
    if (const auto* i = std::get_if<std::int64_t>(&a.value)) text = fmt::format("{}", *i);
    if (const auto* s = std::get_if<std::string>(&a.value)) text = *s;
    if (const auto* list = std::get_if<std::vector<float>>(&a.value)) text = fmt::format("[{:.6g}]", fmt::join(*list, ","));
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&a.value)) text = fmt::format("[{}]", fmt::join(*list, ","));
    if (const auto* list = std::get_if<std::vector<std::string>>(&a.value)) text = fmt::format("[{}]", fmt::join(*list, ","));
    if (!text.empty()) out.push_back(fmt::format("{} {}", a.name, text.size() > kMostText ? text.substr(0, kMostText) + "..." : text));
  }
  return fmt::format("{}", fmt::join(out, ", "));
}

}  // namespace saturate
