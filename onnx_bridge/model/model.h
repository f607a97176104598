// An ONNX model as plain C++ values, without protobuf. What these values cannot say stays in the original messages,
// which every node, graph and model keeps a handle to (`origin`): untouched parts are written back from there.
#pragma once

#include <map>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "onnx_bridge/model/data_format.h"
#include "onnx_bridge/model/tensor.h"

namespace saturate {

struct Graph;

// A dim as written: a number, a name, or nothing (monostate).
using DimSpec = std::variant<std::monostate, std::int64_t, std::string>;

// onnx.TypeProto.
struct ValueType {
  enum class Kind : std::uint8_t { kUnknown, kTensor, kSparseTensor, kSequence, kOptional, kMap, kOpaque };
  Kind kind = Kind::kUnknown;
  DType dtype = DType::kUndefined;            // tensor, sparse tensor; map: the key type
  std::optional<std::vector<DimSpec>> shape;  // tensor, sparse tensor; nullopt: unknown rank
  std::shared_ptr<const ValueType> element;   // sequence, optional, map (value)
};

struct ValueInfo {
  std::string name;
  ValueType type;
  std::shared_ptr<const void> origin;  // onnx.ValueInfoProto, null where made by us
};

enum class AttributeType : std::int32_t {  // onnx.AttributeProto.AttributeType
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kTypeProto = 13,
  kTypeProtos = 14,
};

// By type: float, int64, string, tensor, graph, floats, ints, strings, tensors, graphs; monostate for the others (see Attribute::raw).
using AttributeVariant =
    std::variant<std::monostate, float, std::int64_t, std::string, Tensor, std::shared_ptr<const Graph>, std::vector<float>,
                 std::vector<std::int64_t>, std::vector<std::string>, std::vector<Tensor>, std::vector<std::shared_ptr<const Graph>>>;
// One whose copies are made in model.cpp instead of in every file that holds an attribute.
struct AttributeValue : AttributeVariant {
  using AttributeVariant::AttributeVariant;
  using AttributeVariant::operator=;
  AttributeValue() = default;
  AttributeValue(const AttributeValue&);
  AttributeValue(AttributeValue&&) noexcept;
  AttributeValue& operator=(const AttributeValue&);
  AttributeValue& operator=(AttributeValue&&) noexcept;
  ~AttributeValue();
};

struct Attribute {
  std::string name;
  AttributeType type = AttributeType::kUndefined;
  AttributeValue value;
  std::string ref;                  // ref_attr_name inside a function body, else empty
  std::shared_ptr<const void> raw;  // onnx.AttributeProto, for the types that `value` does not carry

  std::int64_t i() const { return std::get<std::int64_t>(value); }
  float f() const { return std::get<float>(value); }
  const std::string& s() const { return std::get<std::string>(value); }
  const std::vector<std::int64_t>& ints() const { return std::get<std::vector<std::int64_t>>(value); }
  const std::vector<float>& floats() const { return std::get<std::vector<float>>(value); }
  const std::vector<std::string>& strings() const { return std::get<std::vector<std::string>>(value); }
  const Tensor& t() const { return std::get<Tensor>(value); }
  const Graph& g() const { return *std::get<std::shared_ptr<const Graph>>(value); }

  static Attribute of(std::string name, std::int64_t value);
  static Attribute of(std::string name, float value);
  static Attribute of(std::string name, std::string value);
  static Attribute of(std::string name, std::vector<std::int64_t> value);
  static Attribute of(std::string name, std::vector<float> value);
  static Attribute of(std::string name, std::vector<std::string> value);
  static Attribute of(std::string name, Tensor value);
};

const Attribute* find_attribute(const std::vector<Attribute>& attributes, std::string_view name);
// As people read it: "MatMul", "com.microsoft.Attention".
std::string qualified_name(std::string_view domain, std::string_view op_type);
std::string without_domain(std::string_view qualified_name);

// Whether `name` is one of these, e.g. one_of(node.op_type, {"Add", "Sub"}).
inline bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  for (const std::string_view each : names)
    if (each == name) return true;
  return false;
}

// metadata_props by key.
using Metadata = std::map<std::string, std::string>;
// On which devices a node runs, and in which stage: NodeProto.device_configurations (IR 11) as messages, without shards of tensors.
using Devices = std::vector<std::string>;

struct Node {
  std::string name, op_type, domain, overload;  // domain "" for ai.onnx (normalized on load)
  std::vector<std::string> inputs, outputs;     // "" = absent
  std::vector<Attribute> attributes;
  std::shared_ptr<const void> origin;             // onnx.NodeProto; written back as it is, but for renamed inputs and outputs
  std::shared_ptr<const Metadata> metadata = {};  // in place of what `origin` has; null: that
  std::shared_ptr<const Devices> devices = {};    // of a node without `origin`
};

// The first output that has a name; "" where none has.
std::string first_output(const Node& node);
// An attribute that is a whole number; `otherwise` where it is not there, or something else.
std::int64_t int_attribute(const Node& node, std::string_view name, std::int64_t otherwise);

struct Initializer {
  std::string name;
  Tensor tensor;                       // external data is mapped, not read
  std::shared_ptr<const void> origin;  // onnx.TensorProto (or SparseTensorProto, then tensor is empty and sparse is true)
  bool sparse = false;
};

struct Graph {
  std::string name;
  std::vector<ValueInfo> inputs, outputs, value_info;
  std::vector<Initializer> initializers;
  std::vector<Node> nodes;             // in topological order after load
  std::shared_ptr<const void> origin;  // onnx.GraphProto: doc string, quantization annotations, metadata, unknown fields
};

struct Function {
  std::string domain, name, overload;
  std::vector<std::string> inputs, outputs, attributes;  // attributes without default
  std::vector<Attribute> attribute_defaults;
  std::vector<Node> nodes;
  std::map<std::string, std::int64_t> opset_imports;
  std::shared_ptr<const void> origin;  // onnx.FunctionProto
};

struct Model {
  std::int64_t ir_version = 8;
  std::map<std::string, std::int64_t> opset_imports;  // domain ("" for ai.onnx) -> version
  Graph graph;
  std::vector<Function> functions;
  std::string path;                    // file it came from, empty if from memory
  std::optional<DataFormat> external;  // what its file had outside of itself; nullopt: nothing
  std::shared_ptr<const void> origin;  // onnx.ModelProto: producer, doc string, metadata_props, training info, unknown fields
  std::int64_t opset(const std::string& domain) const {
    auto it = opset_imports.find(domain);
    return it == opset_imports.end() ? 0 : it->second;
  }
};

// The model's own function that a node calls; null where it calls none.
const Function* called_function(const Model& model, const Node& node);

// Of all data of a graph's initializers.
std::size_t initializer_bytes(const Graph& graph);
// Names that the nodes of a graph (a subgraph of something) take from outside, in order of first use, without duplicates.
std::vector<std::string> captured_names(const Graph& graph);
// Every name of a graph and of its subgraphs.
void collect_names(const Graph& graph, std::unordered_set<std::string>& names);

}  // namespace saturate
