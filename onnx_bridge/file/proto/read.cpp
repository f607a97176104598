#include <bit>
#include <functional>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "onnx_bridge/file/proto/convert.h"
#include "onnx_bridge/model/max_rank.h"

namespace saturate::proto {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor data is viewed as it lies in the file");

template <typename R>
std::span<const std::byte> bytes_of(const R& field) {
  return std::as_bytes(std::span(field.data(), static_cast<std::size_t>(field.size())));
}

std::vector<DimSpec> read_shape(const onnx::TensorShapeProto& shape, const Places& places) {
  std::vector<DimSpec> dims;
  if (static_cast<std::size_t>(shape.dim_size()) > kMaxRank)
    places.fail(fmt::format("a shape of {} dims, tensors have at most {}", shape.dim_size(), kMaxRank));
  dims.reserve(static_cast<std::size_t>(shape.dim_size()));
  for (const auto& d : shape.dim()) {
    if (d.has_dim_value() && d.dim_value() >= 0)
      dims.emplace_back(static_cast<std::int64_t>(d.dim_value()));
    else if (d.has_dim_param() && !d.dim_param().empty())
      dims.emplace_back(d.dim_param());
    else
      dims.emplace_back();  // a negative number is how some exporters say "unknown"
  }
  return dims;
}

template <typename T>
void read_tensor_type(const T& type, const Places& places, ValueType& out) {
  out.dtype = static_cast<DType>(type.elem_type());
  if (type.has_shape()) out.shape = read_shape(type.shape(), places);
}

AttributeType guess_type(const onnx::AttributeProto& a) {
  if (a.has_f()) return AttributeType::kFloat;
  if (a.has_i()) return AttributeType::kInt;
  if (a.has_s()) return AttributeType::kString;
  if (a.has_t()) return AttributeType::kTensor;
  if (a.has_g()) return AttributeType::kGraph;
  if (a.floats_size()) return AttributeType::kFloats;
  if (a.ints_size()) return AttributeType::kInts;
  if (a.strings_size()) return AttributeType::kStrings;
  if (a.tensors_size()) return AttributeType::kTensors;
  if (a.graphs_size()) return AttributeType::kGraphs;
  return AttributeType::kUndefined;
}

using TensorVisitor = std::function<void(const onnx::TensorProto&)>;

void visit_sparse(const onnx::SparseTensorProto& sparse, const TensorVisitor& visit) {
  visit(sparse.values());
  visit(sparse.indices());
}

void for_each_tensor(const onnx::GraphProto& graph, const TensorVisitor& visit, bool dense, int depth = 0);
// Tensors of a message as it lies in the file: the parts of sparse ones, and, where asked for, dense ones.
void for_each_tensor(const onnx::NodeProto& node, const TensorVisitor& visit, bool dense, int depth = 0) {
  if (depth > kMaxNesting) return;  // refused elsewhere
  for (const auto& a : node.attribute()) {
    if (a.has_sparse_tensor()) visit_sparse(a.sparse_tensor(), visit);
    for (const auto& s : a.sparse_tensors()) visit_sparse(s, visit);
    if (dense && a.has_t()) visit(a.t());
    if (dense)
      for (const auto& t : a.tensors()) visit(t);
    if (a.has_g()) for_each_tensor(a.g(), visit, dense, depth + 1);
    for (const auto& g : a.graphs()) for_each_tensor(g, visit, dense, depth + 1);
  }
}
void for_each_tensor(const onnx::GraphProto& graph, const TensorVisitor& visit, bool dense, int depth) {
  for (const auto& s : graph.sparse_initializer()) visit_sparse(s, visit);
  if (dense)
    for (const auto& t : graph.initializer()) visit(t);
  for (const auto& n : graph.node()) for_each_tensor(n, visit, dense, depth);
}

std::string dims_text(const Shape& dims) { return fmt::format("[{}]", fmt::join(dims, ",")); }

// Entries that a typed field must have for `elements` elements of a dtype.
std::int64_t field_entries(DType dtype, std::int64_t elements) {
  switch (dtype) {
    case DType::kComplex64:
    case DType::kComplex128:
      return elements * 2;
    case DType::kUint4:
    case DType::kInt4:
    case DType::kFloat4e2m1:
      return (elements + 1) / 2;
    case DType::kUint2:
    case DType::kInt2:
      return (elements + 3) / 4;
    default:
      return elements;
  }
}

template <typename Out, typename R>
Tensor narrowed(DType dtype, Shape dims, const R& field) {
  Tensor t(dtype, std::move(dims));
  std::byte* out = t.mutable_data();
  for (int i = 0; i < field.size(); ++i) {
    const Out value = static_cast<Out>(field.Get(i));
    std::memcpy(out + static_cast<std::size_t>(i) * sizeof(Out), &value, sizeof(Out));
  }
  return t;
}

template <typename R>
Tensor six_bits(DType dtype, Shape dims, const R& field) {
  Tensor t(dtype, std::move(dims));
  std::byte* out = t.mutable_data();
  for (int i = 0; i < field.size(); ++i)
    for (int b = 0; b < 6; ++b)
      if (field.Get(i) >> b & 1) out[(static_cast<std::size_t>(i) * 6 + b) / 8] |= std::byte{1} << ((i * 6 + b) % 8);
  return t;
}

}  // namespace

std::string normalized_domain(const std::string& domain) { return domain == "ai.onnx" ? std::string() : domain; }

Places::Step Places::enter(const char* what, std::string_view name, std::int64_t index, std::string_view type) {
  steps_.push_back({what, name, type, index});
  return Step(*this);
}

std::string Places::describe() const {
  std::string text;
  const auto shown = [](std::string_view name) { return name.substr(0, 1000); };  // it may have any length
  for (const Entry& e : steps_) {
    if (!text.empty()) text += ", ";
    text += e.what;
    if (e.index >= 0) text += fmt::format(" {}", e.index);
    if (!e.type.empty())
      text += e.name.empty() ? fmt::format(" ({})", shown(e.type)) : fmt::format(" ({} '{}')", shown(e.type), shown(e.name));
    else if (!e.name.empty())
      text += fmt::format(" '{}'", shown(e.name));
  }
  return text;
}

void Places::fail(const std::string& what) const {
  const std::string place = describe();
  throw LoadError{place.empty() ? what : place + ": " + what};
}

ValueType Reader::read(const onnx::TypeProto& message) {
  if (++depth_ > kMaxNesting) places_.fail(fmt::format("types are nested more than {} deep", kMaxNesting));
  ValueType out;
  const auto element = [&](const onnx::TypeProto& e) { return std::make_shared<const ValueType>(read(e)); };
  switch (message.value_case()) {
    case onnx::TypeProto::kTensorType:
      out.kind = ValueType::Kind::kTensor;
      read_tensor_type(message.tensor_type(), places_, out);
      break;
    case onnx::TypeProto::kSparseTensorType:
      out.kind = ValueType::Kind::kSparseTensor;
      read_tensor_type(message.sparse_tensor_type(), places_, out);
      break;
    case onnx::TypeProto::kSequenceType:
      out.kind = ValueType::Kind::kSequence;
      out.element = element(message.sequence_type().elem_type());
      break;
    case onnx::TypeProto::kOptionalType:
      out.kind = ValueType::Kind::kOptional;
      out.element = element(message.optional_type().elem_type());
      break;
    case onnx::TypeProto::kMapType:
      out.kind = ValueType::Kind::kMap;
      out.dtype = static_cast<DType>(message.map_type().key_type());
      out.element = element(message.map_type().value_type());
      break;
    case onnx::TypeProto::VALUE_NOT_SET:
      break;
    default:
      out.kind = ValueType::Kind::kOpaque;
  }
  --depth_;
  return out;
}

ValueInfo Reader::read(const onnx::ValueInfoProto& message) {
  ValueInfo out;
  out.name = message.name();
  const auto step = places_.enter("value", out.name);
  if (message.has_type()) out.type = read(message.type());
  out.origin = alias(&message);
  return out;
}

Shape Reader::dims_of(const onnx::TensorProto& message) const {
  if (static_cast<std::size_t>(message.dims_size()) > kMaxRank)
    places_.fail(fmt::format("a tensor of {} dims, at most {} can be", message.dims_size(), kMaxRank));
  return Shape(message.dims().begin(), message.dims().end());
}

Tensor Reader::read(const onnx::TensorProto& message) {
  Shape dims = dims_of(message);
  const auto dtype = static_cast<DType>(message.data_type());
  if (message.has_segment()) places_.fail("the tensor is stored in segments, which ONNX tools do not read: store it in one piece");
  if (!checked_elements(dims)) places_.fail(fmt::format("dims {} are negative, or their product is beyond 2^63", dims_text(dims)));
  if (!checked_bytes(dtype, dims)) places_.fail(fmt::format("a tensor with dims {} has more bytes than fit into 63 bits", dims_text(dims)));
  if (dtype == DType::kUndefined) places_.fail("the tensor has no data type");
  if (message.data_location() != onnx::TensorProto::EXTERNAL) return with_plain_bools(inline_tensor(message, std::move(dims)));
  ExternalReference reference;
  bool located = false;
  for (const auto& entry : message.external_data()) {
    if (entry.key() == "location")
      reference.location = entry.value(), located = true;
    else if (entry.key() == "offset")
      reference.offset = entry.value();
    else if (entry.key() == "length")
      reference.length = entry.value();
  }
  if (!located) places_.fail("external data without a location");
  auto mapped = files_.map(reference, dtype, std::move(dims));
  if (!mapped.ok()) places_.fail(std::string(mapped.status().message()));
  return with_plain_bools(*std::move(mapped));
}

Tensor Reader::inline_tensor(const onnx::TensorProto& message, Shape dims) {
  const auto dtype = static_cast<DType>(message.data_type());
  const std::int64_t elements = *checked_elements(dims);
  if (dtype == DType::kString) {
    if (message.string_data_size() != elements)
      places_.fail(fmt::format("dims {} need {} strings, the tensor has {}", dims_text(dims), elements, message.string_data_size()));
    return Tensor::strings(std::move(dims), {message.string_data().begin(), message.string_data().end()});
  }
  if (bit_width(dtype) == 0)  // a type newer than this program: carried along, not looked into
    return Tensor(dtype, std::move(dims), alias(&message.raw_data()), std::as_bytes(std::span(message.raw_data())));
  if (!message.has_raw_data()) return typed_tensor(message, std::move(dims));
  const std::size_t need = *checked_bytes(dtype, dims);
  if (message.raw_data().size() != need)
    places_.fail(fmt::format("{} with dims {} takes {} bytes, the tensor has {}", dtype_name(dtype), dims_text(dims), need,
                             message.raw_data().size()));
  return Tensor(dtype, std::move(dims), alias(&message.raw_data()), std::as_bytes(std::span(message.raw_data())));
}

Tensor Reader::detached_tensor(const onnx::TensorProto& message, const DetachedData& data) {
  Shape dims = dims_of(message);
  const auto dtype = static_cast<DType>(message.data_type());
  if (!checked_elements(dims) || !checked_bytes(dtype, dims)) places_.fail(fmt::format("dims {} make no tensor", dims_text(dims)));
  const std::size_t need = *checked_bytes(dtype, dims);
  if (has_data(message)) places_.fail("the tensor has data of its own beside the data given apart");
  if (dtype == DType::kString) places_.fail("strings can't be given apart");
  if (bit_width(dtype) > 0 && data.bytes.size() != need)
    places_.fail(fmt::format("{} with dims {} takes {} bytes, {} has {}", dtype_name(dtype), dims_text(dims), need,
                             data.mapped ? "the tensor" : "the data given apart", data.bytes.size()));
  Tensor tensor(dtype, std::move(dims), data.owner, data.bytes);
  tensor.set_mapped(data.mapped);
  return with_plain_bools(std::move(tensor));
}

Tensor Reader::typed_tensor(const onnx::TensorProto& m, Shape dims) {
  const auto dtype = static_cast<DType>(m.data_type());
  const std::int64_t need = field_entries(dtype, *checked_elements(dims));
  const auto counted = [&](const char* field, std::int64_t have) {
    if (have != need)
      places_.fail(
          fmt::format("{} with dims {} needs {} entries in {}, the tensor has {}", dtype_name(dtype), dims_text(dims), need, field, have));
  };
  const auto view = [&](const char* field, const auto& values) {
    counted(field, values.size());
    return Tensor(dtype, std::move(dims), alias(values.data()), bytes_of(values));
  };
  switch (dtype) {
    case DType::kFloat:
    case DType::kComplex64:
      return view("float_data", m.float_data());
    case DType::kDouble:
    case DType::kComplex128:
      return view("double_data", m.double_data());
    case DType::kInt64:
      return view("int64_data", m.int64_data());
    case DType::kUint64:
      return view("uint64_data", m.uint64_data());
    case DType::kInt32:
      return view("int32_data", m.int32_data());
    case DType::kUint32:
      counted("uint64_data", m.uint64_data_size());
      return narrowed<std::uint32_t>(dtype, std::move(dims), m.uint64_data());
    default:
      break;
  }
  counted("int32_data", m.int32_data_size());
  if (bit_width(dtype) == 16) return narrowed<std::uint16_t>(dtype, std::move(dims), m.int32_data());
  if (bit_width(dtype) == 6) return six_bits(dtype, std::move(dims), m.int32_data());
  return narrowed<std::uint8_t>(dtype, std::move(dims), m.int32_data());
}

Attribute Reader::read(const onnx::AttributeProto& message) {
  const auto step = places_.enter("attribute", message.name());
  auto type = static_cast<AttributeType>(message.type());
  if (type == AttributeType::kUndefined && message.ref_attr_name().empty()) type = guess_type(message);
  Attribute out;
  if (message.ref_attr_name().empty()) out = read_value(message, type);
  out.name = message.name();
  out.type = type;
  out.ref = message.ref_attr_name();
  if (type == AttributeType::kUndefined && out.ref.empty()) places_.fail("the attribute has neither a type nor a value");
  if (out.ref.empty() && std::holds_alternative<std::monostate>(out.value)) out.raw = alias(&message);
  return out;
}

Attribute Reader::read_value(const onnx::AttributeProto& message, AttributeType type) {
  Attribute out;
  const auto graph = [&](const onnx::GraphProto& g) { return std::make_shared<const Graph>(read(g)); };
  switch (type) {
    case AttributeType::kFloat:
      out.value = message.f();
      break;
    case AttributeType::kInt:
      out.value = static_cast<std::int64_t>(message.i());
      break;
    case AttributeType::kString:
      out.value = message.s();
      break;
    case AttributeType::kTensor:
      out.value = read(message.t());
      break;
    case AttributeType::kGraph:
      out.value = graph(message.g());
      break;
    case AttributeType::kFloats:
      out.value = std::vector<float>(message.floats().begin(), message.floats().end());
      break;
    case AttributeType::kInts:
      out.value = std::vector<std::int64_t>(message.ints().begin(), message.ints().end());
      break;
    case AttributeType::kStrings:
      out.value = std::vector<std::string>(message.strings().begin(), message.strings().end());
      break;
    case AttributeType::kTensors: {
      std::vector<Tensor> tensors;
      for (const auto& t : message.tensors()) tensors.push_back(read(t));
      out.value = std::move(tensors);
      break;
    }
    case AttributeType::kGraphs: {
      std::vector<std::shared_ptr<const Graph>> graphs;
      for (const auto& g : message.graphs()) graphs.push_back(graph(g));
      out.value = std::move(graphs);
      break;
    }
    default:
      break;
  }
  return out;
}

Node Reader::read(const onnx::NodeProto& message) {
  Node out;
  out.name = message.name();
  out.op_type = message.op_type();
  out.domain = normalized_domain(message.domain());
  out.overload = overload_of(message);
  if (out.op_type.empty()) places_.fail("the node has no op_type");
  out.inputs.assign(message.input().begin(), message.input().end());
  out.outputs.assign(message.output().begin(), message.output().end());
  out.attributes.reserve(static_cast<std::size_t>(message.attribute_size()));
  for (const auto& a : message.attribute()) {
    if (find_attribute(out.attributes, a.name())) places_.fail(fmt::format("attribute '{}' is given twice", a.name()));
    out.attributes.push_back(read(a));
  }
  out.origin = alias(&message);
  return out;
}

Graph Reader::read(const onnx::GraphProto& message) {
  if (++depth_ > kMaxNesting) places_.fail(fmt::format("subgraphs are nested more than {} deep", kMaxNesting));
  Graph out;
  out.name = message.name();
  const auto step = places_.enter("graph", message.name());
  for (const auto& v : message.input()) out.inputs.push_back(read(v));
  for (const auto& v : message.output()) out.outputs.push_back(read(v));
  for (const auto& v : message.value_info()) out.value_info.push_back(read(v));
  out.initializers.reserve(static_cast<std::size_t>(message.initializer_size()));
  std::vector<const DetachedData*> apart(static_cast<std::size_t>(message.initializer_size()), nullptr);
  if (depth_ == 1)
    for (const DetachedData& d : detached_) {
      if (d.index >= apart.size()) places_.fail(fmt::format("data is given for initializer {} of {}", d.index, apart.size()));
      if (apart[d.index] == nullptr) apart[d.index] = &d;
    }
  for (int i = 0; i < message.initializer_size(); ++i) {
    const auto& t = message.initializer(i);
    const auto at = places_.enter("initializer", t.name());
    const DetachedData* data = apart[static_cast<std::size_t>(i)];
    out.initializers.push_back({t.name(), data ? detached_tensor(t, *data) : read(t), alias(&t), false});
  }
  for (const auto& t : message.sparse_initializer()) out.initializers.push_back({t.values().name(), Tensor(), alias(&t), true});
  out.nodes.reserve(static_cast<std::size_t>(message.node_size()));
  for (int i = 0; i < message.node_size(); ++i) {
    const auto at = places_.enter("node", message.node(i).name(), i, message.node(i).op_type());
    out.nodes.push_back(read(message.node(i)));
  }
  out.origin = alias(&message);
  check_and_sort(out, places_);
  --depth_;
  return out;
}

std::map<std::string, std::int64_t> Reader::read_opsets(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  std::map<std::string, std::int64_t> out;
  for (const auto& import : imports) {
    const std::string domain = normalized_domain(import.domain());
    if (import.version() < 1 || import.version() > kMaxVersion)
      places_.fail(
          fmt::format("opset_import of domain '{}' has version {}, versions are 1 to {}", import.domain(), import.version(), kMaxVersion));
    const auto [it, added] = out.emplace(domain, import.version());
    if (!added && it->second != import.version())
      places_.fail(
          fmt::format("opset_import names domain '{}' twice, with versions {} and {}", import.domain(), it->second, import.version()));
  }
  return out;
}

Function Reader::read(const onnx::FunctionProto& message) {
  Function out;
  out.domain = normalized_domain(message.domain());
  out.name = message.name();
  out.overload = overload_of(message);
  const auto step = places_.enter("function", message.name());
  out.inputs.assign(message.input().begin(), message.input().end());
  out.outputs.assign(message.output().begin(), message.output().end());
  out.attributes.assign(message.attribute().begin(), message.attribute().end());
  const auto whole = owner_;
  for (onnx::AttributeProto& a : attribute_protos(message)) {
    const auto held = std::make_shared<const onnx::AttributeProto>(std::move(a));
    owner_ = held;
    out.attribute_defaults.push_back(read(*held));
    owner_ = whole;
  }
  for (int i = 0; i < message.node_size(); ++i) {
    const auto at = places_.enter("node", message.node(i).name(), i, message.node(i).op_type());
    out.nodes.push_back(read(message.node(i)));
  }
  out.opset_imports = read_opsets(message.opset_import());
  out.origin = alias(&message);
  check_and_sort(out, places_);
  return out;
}

// What is copied to the result as it is must not lead to files: nobody looks whether they are beside it, and they would be lost.
void Reader::check_copied_parts(const onnx::ModelProto& message) {
  const auto check = [&](const onnx::TensorProto& t) {
    if (t.data_location() == onnx::TensorProto::EXTERNAL || t.external_data_size() > 0)
      places_.fail("external data is only read of dense weights and attributes: store this tensor inside the model");
  };
  for (const auto& info : message.training_info()) {
    for (const auto* graph : {&info.initialization(), &info.algorithm()}) {
      const auto step = places_.enter("training graph", graph->name());
      for_each_tensor(*graph, check, true);
    }
  }
  const auto step = places_.enter("sparse tensor", "");
  for_each_tensor(message.graph(), check, false);
  for (const auto& f : message.functions())
    for (const auto& node : f.node()) for_each_tensor(node, check, false);
}

Model Reader::read(const onnx::ModelProto& message) {
  Model out;
  if (!message.has_graph()) places_.fail("the file holds no graph: it is no ONNX model, or a damaged one");
  out.ir_version = message.ir_version();
  check_copied_parts(message);
  out.opset_imports = read_opsets(message.opset_import());
  if (out.opset_imports.empty() && out.ir_version < 3) out.opset_imports[""] = 1;  // IR.md: the import is implied before IR 3
  out.graph = read(message.graph());
  detached_.clear();  // subgraphs of functions are no main graphs
  out.functions.reserve(static_cast<std::size_t>(message.functions_size()));
  for (const auto& f : message.functions()) out.functions.push_back(read(f));
  out.origin = alias(&message);
  assume_opset(out);
  check_model(out, places_);
  return out;
}

}  // namespace saturate::proto

namespace saturate {

bool opset_was_assumed(const Model& model) {
  if (!model.origin || model.opset("") == 0) return false;
  const auto& message = *static_cast<const onnx::ModelProto*>(model.origin.get());
  const auto& imports = message.opset_import();
  if (imports.empty() && message.ir_version() < 3) return false;
  return std::none_of(imports.begin(), imports.end(), [](const auto& i) { return proto::normalized_domain(i.domain()).empty(); });
}

namespace {

void add_repeated_constants(const onnx::GraphProto& graph, std::vector<std::string>& names) {
  absl::flat_hash_map<std::string_view, int> times;
  for (const onnx::NodeProto& node : graph.node()) {
    if (node.op_type() == "Constant" && proto::normalized_domain(node.domain()).empty() && node.output_size() == 1 &&
        ++times[node.output(0)] == 2)
      names.push_back(node.output(0));
    for (const onnx::AttributeProto& a : node.attribute())
      if (a.has_g()) add_repeated_constants(a.g(), names);
  }
}

template <typename M>
std::size_t texts_of(const M& message) {
  std::size_t bytes = message.doc_string().size();
  if constexpr (requires { message.metadata_props(); })  // of models; of all messages in newer ONNX, to which older has unknown fields
    for (const auto& entry : message.metadata_props()) bytes += entry.key().size() + entry.value().size();
  if constexpr (proto::kFull<M>)
    bytes += message.unknown_fields().SpaceUsedExcludingSelfLong();
  else
    bytes += message.unknown_fields().size();
  return bytes;
}

std::size_t texts_of_graph(const onnx::GraphProto& graph);

std::size_t texts_of_node(const onnx::NodeProto& node) {
  std::size_t bytes = texts_of(node);
  for (const onnx::AttributeProto& a : node.attribute()) {
    bytes += texts_of(a) + a.s().size();
    for (const std::string& text : a.strings()) bytes += text.size();
    if (a.has_g()) bytes += texts_of_graph(a.g());
    for (const onnx::GraphProto& graph : a.graphs()) bytes += texts_of_graph(graph);
  }
  return bytes;
}

std::size_t texts_of_graph(const onnx::GraphProto& graph) {
  std::size_t bytes = texts_of(graph);
  for (const onnx::NodeProto& node : graph.node()) bytes += texts_of_node(node);
  for (const onnx::TensorProto& tensor : graph.initializer()) bytes += texts_of(tensor);
  for (const auto* values : {&graph.input(), &graph.output(), &graph.value_info()})
    for (const onnx::ValueInfoProto& value : *values) bytes += texts_of(value);
  return bytes;
}

}  // namespace

std::vector<std::string> names_of_repeated_constants(const Model& model) {
  std::vector<std::string> names;
  if (model.origin) add_repeated_constants(static_cast<const onnx::ModelProto*>(model.origin.get())->graph(), names);
  return names;
}

std::size_t bytes_of_texts(const Model& model) {
  if (!model.origin) return 0;
  const auto& message = *static_cast<const onnx::ModelProto*>(model.origin.get());
  std::size_t bytes = texts_of(message) + texts_of_graph(message.graph());
  for (const onnx::FunctionProto& function : message.functions()) {
    bytes += texts_of(function);
    for (const onnx::NodeProto& node : function.node()) bytes += texts_of_node(node);
  }
  return bytes;
}

}  // namespace saturate
