#include <algorithm>

#include "onnx_bridge/file/io.h"
#include "onnx_bridge/file/proto/convert.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate::proto {
namespace {

template <typename M>
const M* origin_of(const std::shared_ptr<const void>& origin) {
  return static_cast<const M*>(origin.get());
}

template <typename R>
bool same_names(const std::vector<std::string>& names, const R& field) {
  return std::equal(names.begin(), names.end(), field.begin(), field.end());
}

template <typename R>
void set_names(const std::vector<std::string>& names, R* field) {
  field->Clear();
  for (const std::string& n : names) *field->Add() = n;
}

// A tensor of an attribute that lies in a file of the input: its reference must be rewritten for the output.
bool has_file_data(const Attribute& a);
bool has_file_data(const Graph& g) {
  for (const Initializer& i : g.initializers)
    if (i.tensor.file_range()) return true;
  for (const Node& n : g.nodes)
    if (std::any_of(n.attributes.begin(), n.attributes.end(), [](const Attribute& a) { return has_file_data(a); })) return true;
  return false;
}
bool has_file_data(const Attribute& a) {
  if (const auto* t = std::get_if<Tensor>(&a.value)) return t->file_range() != nullptr;
  if (const auto* g = std::get_if<std::shared_ptr<const Graph>>(&a.value)) return has_file_data(**g);
  if (const auto* many = std::get_if<std::vector<Tensor>>(&a.value))
    return std::any_of(many->begin(), many->end(), [](const Tensor& t) { return t.file_range() != nullptr; });
  if (const auto* many = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&a.value))
    return std::any_of(many->begin(), many->end(), [](const auto& g) { return has_file_data(*g); });
  return false;
}

// Whether the tensor's data was given apart from its message (DetachedData).
bool lies_apart(const Initializer& init, const onnx::TensorProto& origin) {
  return !init.tensor.bytes().empty() && !has_data(origin) && origin.data_location() != onnx::TensorProto::EXTERNAL;
}

void write_opsets(const std::map<std::string, std::int64_t>& opsets, google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>* field) {
  google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto> before;
  before.Swap(field);
  std::map<std::string, std::int64_t> rest = opsets;
  for (const auto& import : before) {
    const auto it = rest.find(normalized_domain(import.domain()));
    if (it == rest.end()) continue;
    *field->Add() = import;
    if (import.version() != it->second) field->Mutable(field->size() - 1)->set_version(it->second);
    rest.erase(it);
  }
  for (const auto& [domain, version] : rest) {
    auto* import = field->Add();
    import->set_domain(domain);
    import->set_version(version);
  }
}

void write_shape(const std::vector<DimSpec>& dims, onnx::TensorShapeProto* out) {
  for (const DimSpec& d : dims) {
    auto* dim = out->add_dim();
    if (const auto* n = std::get_if<std::int64_t>(&d))
      dim->set_dim_value(*n);
    else if (const auto* s = std::get_if<std::string>(&d))
      dim->set_dim_param(*s);
  }
}

}  // namespace

bool same_type(const ValueType& a, const ValueType& b) {
  if (a.kind != b.kind || a.dtype != b.dtype || a.shape != b.shape || !a.element != !b.element) return false;
  return !a.element || same_type(*a.element, *b.element);
}

void Writer::write(const ValueType& type, onnx::TypeProto* out) const {
  const auto tensor = [&](auto* t) {
    t->set_elem_type(static_cast<std::int32_t>(type.dtype));
    if (type.shape) {
      t->mutable_shape();
      write_shape(*type.shape, t->mutable_shape());
    }
  };
  switch (type.kind) {
    case ValueType::Kind::kTensor:
      tensor(out->mutable_tensor_type());
      break;
    case ValueType::Kind::kSparseTensor:
      tensor(out->mutable_sparse_tensor_type());
      break;
    case ValueType::Kind::kSequence: {
      auto* e = out->mutable_sequence_type()->mutable_elem_type();
      if (type.element) write(*type.element, e);
      break;
    }
    case ValueType::Kind::kOptional: {
      auto* e = out->mutable_optional_type()->mutable_elem_type();
      if (type.element) write(*type.element, e);
      break;
    }
    case ValueType::Kind::kMap: {
      out->mutable_map_type()->set_key_type(static_cast<std::int32_t>(type.dtype));
      auto* e = out->mutable_map_type()->mutable_value_type();
      if (type.element) write(*type.element, e);
      break;
    }
    case ValueType::Kind::kOpaque:
      out->mutable_opaque_type();
      break;
    case ValueType::Kind::kUnknown:
      break;
  }
}

bool Writer::goes_out(const Tensor& tensor, bool has_origin) const {
  if (!plan_ || tensor.dtype() == DType::kString) return false;
  if (tensor.file_range()) return true;
  return tensor.bytes().size() >= threshold_ && (inline_goes_out_ || !has_origin);
}

void Writer::write_external(const Tensor& tensor, onnx::TensorProto* out) {
  const auto place = plan_->place(tensor, out->name());
  out->set_data_location(onnx::TensorProto::EXTERNAL);
  google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto> before;
  before.Swap(out->mutable_external_data());
  const auto add = [&](const char* key, const std::string& value) {
    auto* entry = out->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", plan_->location());
  add("offset", std::to_string(place.offset));
  add("length", std::to_string(place.length));
  // A checksum is of the whole file, which is another one now.
  for (auto& entry : before)
    if (entry.key() != "location" && entry.key() != "offset" && entry.key() != "length" && entry.key() != "checksum")
      *out->add_external_data() = entry;
}

void Writer::write(const Tensor& tensor, const std::string& name, onnx::TensorProto* out) {
  for (std::int64_t d : tensor.dims()) out->add_dims(d);
  out->set_data_type(static_cast<std::int32_t>(tensor.dtype()));
  if (!name.empty()) out->set_name(name);
  if (tensor.dtype() == DType::kString) {
    for (const std::string& s : tensor.string_data()) out->add_string_data(s);
  } else if (plan_ && tensor.file_range()) {
    write_external(tensor, out);
  } else {
    out->set_raw_data(tensor.bytes().data(), tensor.bytes().size());
  }
}

void Writer::write(const Attribute& a, onnx::AttributeProto* out) {
  if (a.raw) *out = *origin_of<onnx::AttributeProto>(a.raw);
  out->set_name(a.name);
  if (a.type != AttributeType::kUndefined) out->set_type(static_cast<onnx::AttributeProto::AttributeType>(a.type));
  if (!a.ref.empty()) {
    out->set_ref_attr_name(a.ref);
    return;
  }
  switch (a.value.index()) {
    case 1:
      out->set_f(std::get<1>(a.value));
      break;
    case 2:
      out->set_i(std::get<2>(a.value));
      break;
    case 3:
      out->set_s(std::get<3>(a.value));
      break;
    case 4:
      write(std::get<4>(a.value), "", out->mutable_t());
      break;
    case 5:
      write(*std::get<5>(a.value), out->mutable_g());
      break;
    case 6:
      for (float v : std::get<6>(a.value)) out->add_floats(v);
      break;
    case 7:
      for (std::int64_t v : std::get<7>(a.value)) out->add_ints(v);
      break;
    case 8:
      for (const std::string& v : std::get<8>(a.value)) out->add_strings(v);
      break;
    case 9:
      for (const Tensor& v : std::get<9>(a.value)) write(v, "", out->add_tensors());
      break;
    case 10:
      for (const auto& v : std::get<10>(a.value)) write(*v, out->add_graphs());
      break;
    default:
      break;
  }
}

const onnx::NodeProto* Writer::message(const Node& node) {
  const auto* origin = origin_of<onnx::NodeProto>(node.origin);
  if (origin && unchanged(node)) return origin;
  auto* out = own<onnx::NodeProto>();
  if (!origin) {
    set_names(node.inputs, out->mutable_input());
    set_names(node.outputs, out->mutable_output());
    if (!node.name.empty()) out->set_name(node.name);
    out->set_op_type(node.op_type);
    if (!node.domain.empty()) out->set_domain(node.domain);
    set_overload(out, node.overload);
    for (const Attribute& a : node.attributes) write(a, out->add_attribute());
    if (node.metadata) add_metadata(out, *node.metadata);
    if (node.devices) add_devices(out, *node.devices);
    return out;
  }
  if (node.metadata) {
    copy_except(*origin, out, {kNodeMetadata});
    add_metadata(out, *node.metadata);
  } else {
    *out = *origin;
  }
  if (!same_names(node.inputs, origin->input())) set_names(node.inputs, out->mutable_input());
  if (!same_names(node.outputs, origin->output())) set_names(node.outputs, out->mutable_output());
  if (node.name != origin->name()) out->set_name(node.name);
  for (int i = 0; i < out->attribute_size(); ++i) {
    const Attribute* a = find_attribute(node.attributes, origin->attribute(i).name());
    if (!a || unchanged(*a, origin->attribute(i))) continue;
    onnx::AttributeProto* target = out->mutable_attribute(i);
    // Doc strings and unknown fields of the attribute stay; tensors keep theirs where only their data moves.
    if (const auto* t = std::get_if<Tensor>(&a->value); t && target->has_t() && plan_ && t->file_range()) {
      write_external(*t, target->mutable_t());
      continue;
    }
    target->clear_t();
    target->clear_g();
    target->clear_tensors();
    target->clear_graphs();
    Attribute plain = *a;
    plain.raw = nullptr;
    write(plain, target);
  }
  return out;
}

const onnx::ValueInfoProto* Writer::message(const ValueInfo& value) {
  const auto* origin = origin_of<onnx::ValueInfoProto>(value.origin);
  if (origin && unchanged(value, origin)) return origin;
  auto* out = own<onnx::ValueInfoProto>();
  if (origin) *out = *origin;
  out->set_name(value.name);
  ExternalFiles none("");
  if (value.type.kind == ValueType::Kind::kUnknown || (origin && same_type(Reader(nullptr, none).read(origin->type()), value.type)))
    return out;
  const std::string denotation = out->type().denotation();
  out->clear_type();
  write(value.type, out->mutable_type());
  if (!denotation.empty()) out->mutable_type()->set_denotation(denotation);
  return out;
}

Writer::InitializerParts Writer::parts(const Initializer& init, bool keep_raw_apart) {
  const auto* origin = origin_of<onnx::TensorProto>(init.origin);
  const bool out_there = goes_out(init.tensor, origin != nullptr);
  if (origin && unchanged(init, *origin) && !out_there && !init.tensor.file_range()) return {origin, {}};
  auto* out = own<onnx::TensorProto>();
  if (!origin) {
    if (!out_there && (!keep_raw_apart || init.tensor.dtype() == DType::kString)) {
      write(init.tensor, init.name, out);
      return {out, {}};
    }
    for (std::int64_t d : init.tensor.dims()) out->add_dims(d);
    out->set_data_type(static_cast<std::int32_t>(init.tensor.dtype()));
    out->set_name(init.name);
    if (out_there) write_external(init.tensor, out);
    return {out, out_there ? std::span<const std::byte>() : init.tensor.bytes()};
  }
  const bool move_data = out_there || init.tensor.file_range() || lies_apart(init, *origin);
  copy_except(*origin, out, move_data ? std::initializer_list<int>{4, 5, 7, 9, 10, 11} : std::initializer_list<int>{});
  out->set_name(init.name);
  if (!move_data) return {out, {}};
  if (out_there) {
    write_external(init.tensor, out);
    return {out, {}};
  }
  out->clear_external_data();
  out->clear_data_location();
  if (keep_raw_apart) return {out, init.tensor.bytes()};
  out->set_raw_data(init.tensor.bytes().data(), init.tensor.bytes().size());
  return {out, {}};
}

std::optional<Writer::InitializerParts> Writer::parts_without_data(const Initializer& init) {
  const auto* origin = origin_of<onnx::TensorProto>(init.origin);
  if (origin && !init.tensor.file_range() && !lies_apart(init, *origin)) {
    if (!origin->has_raw_data() || goes_out(init.tensor, true)) return std::nullopt;
    auto* out = own<onnx::TensorProto>();
    copy_except(*origin, out, {9});
    out->set_name(init.name);
    return InitializerParts{out, init.tensor.bytes()};
  }
  InitializerParts parts = this->parts(init, true);
  if (!parts.raw.data()) return std::nullopt;
  return parts;
}

const onnx::TensorProto* Writer::as_external(const onnx::TensorProto& message, std::size_t bytes) {
  auto* out = own<onnx::TensorProto>();
  *out = message;
  out->set_data_location(onnx::TensorProto::EXTERNAL);
  out->clear_external_data();
  for (const auto& [key, value] : {std::pair("location", std::string("weights")), std::pair("length", std::to_string(bytes))}) {
    auto* entry = out->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  return out;
}

const onnx::SparseTensorProto* Writer::sparse_message(const Initializer& init) {
  const auto* origin = origin_of<onnx::SparseTensorProto>(init.origin);
  if (origin->values().name() == init.name) return origin;
  auto* out = own<onnx::SparseTensorProto>();
  *out = *origin;
  out->mutable_values()->set_name(init.name);
  return out;
}

void Writer::write_rest(const Graph& graph, onnx::GraphProto* out) {
  if (graph.origin) copy_except(*origin_of<onnx::GraphProto>(graph.origin), out, {1, 2, 5, 11, 12, 13, 15});
  if (!graph.name.empty() || !graph.origin || origin_of<onnx::GraphProto>(graph.origin)->has_name()) out->set_name(graph.name);
  for (const ValueInfo& v : graph.inputs) *out->add_input() = *message(v);
  for (const ValueInfo& v : graph.outputs) *out->add_output() = *message(v);
  for (const ValueInfo& v : graph.value_info) *out->add_value_info() = *message(v);
  for (const Initializer& i : graph.initializers)
    if (i.sparse) *out->add_sparse_initializer() = *sparse_message(i);
}

void Writer::write(const Graph& graph, onnx::GraphProto* out) {
  if (graph.origin && unchanged(graph, *origin_of<onnx::GraphProto>(graph.origin))) {
    *out = *origin_of<onnx::GraphProto>(graph.origin);
    return;
  }
  write_rest(graph, out);
  for (const Node& n : graph.nodes) *out->add_node() = *message(n);
  for (const Initializer& i : graph.initializers)
    if (!i.sparse) *out->add_initializer() = *parts(i, false).message;
}

void Writer::write(const Function& f, onnx::FunctionProto* out) {
  const auto* origin = origin_of<onnx::FunctionProto>(f.origin);
  if (origin) {
    copy_except(*origin, out, {7});
  } else {
    for (const Attribute& a : f.attribute_defaults) {
      onnx::AttributeProto proto;
      write(a, &proto);
      add_attribute_proto(out, proto);
    }
  }
  if (!origin || f.name != origin->name()) out->set_name(f.name);
  if (!origin || f.domain != normalized_domain(origin->domain())) out->set_domain(f.domain);
  if (!origin) set_overload(out, f.overload);
  set_names(f.inputs, out->mutable_input());
  set_names(f.outputs, out->mutable_output());
  set_names(f.attributes, out->mutable_attribute());
  for (const Node& n : f.nodes) *out->add_node() = *message(n);
  write_opsets(f.opset_imports, out->mutable_opset_import());
}

const onnx::FunctionProto* Writer::message(const Function& f) {
  if (f.origin && unchanged(f)) return origin_of<onnx::FunctionProto>(f.origin);
  auto* out = own<onnx::FunctionProto>();
  write(f, out);
  return out;
}

void Writer::write_rest(const Model& model, onnx::ModelProto* out) {
  std::int64_t ir = model.ir_version;
  if (model.origin) copy_except(*origin_of<onnx::ModelProto>(model.origin), out, {7, 25});
  const std::int64_t opset = model.opset("");
  if (opset == kNewestOpset && opset_was_assumed(model)) return;  // as it came
  bool raised = true;                                             // an unchanged opset needs no other IR version, whatever the table says
  for (const auto& import : out->opset_import()) raised &= !(normalized_domain(import.domain()).empty() && import.version() == opset);
  if (raised && opset > 0) ir = std::max<std::int64_t>(ir, ir_version_for_opset(opset));
  if (!model.origin || ir != out->ir_version()) out->set_ir_version(ir);
  if (!model.opset_imports.empty() && !(model.origin && out->opset_import_size() == 0 && model.ir_version < 3))
    write_opsets(model.opset_imports, out->mutable_opset_import());
}

bool Writer::unchanged(const ValueInfo& value, const void* origin) const {
  if (value.origin.get() != origin) return false;
  const auto& message = *static_cast<const onnx::ValueInfoProto*>(origin);
  ExternalFiles none("");
  return message.name() == value.name && same_type(Reader(nullptr, none).read(message.type()), value.type);
}

bool Writer::unchanged(const Initializer& init, const onnx::TensorProto& origin) const {
  return init.origin.get() == &origin && !init.tensor.file_range() && !lies_apart(init, origin) && init.name == origin.name();
}

bool Writer::unchanged(const Node& node) const {
  const auto* origin = origin_of<onnx::NodeProto>(node.origin);
  if (node.metadata) return false;
  if (!same_names(node.inputs, origin->input()) || !same_names(node.outputs, origin->output()) || node.name != origin->name()) return false;
  for (const auto& a : origin->attribute()) {
    const Attribute* mine = find_attribute(node.attributes, a.name());
    if (mine && !unchanged(*mine, a)) return false;
  }
  return true;
}

bool Writer::unchanged(const Attribute& a, const onnx::AttributeProto& origin) const {
  if (has_file_data(a)) return false;
  if (const auto* g = std::get_if<std::shared_ptr<const Graph>>(&a.value)) return unchanged(**g, origin.g());
  const auto* many = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&a.value);
  if (!many) return true;
  if (static_cast<int>(many->size()) != origin.graphs_size()) return false;
  for (int i = 0; i < origin.graphs_size(); ++i)
    if (!unchanged(*(*many)[static_cast<std::size_t>(i)], origin.graphs(i))) return false;
  return true;
}

bool Writer::unchanged(const Graph& g, const onnx::GraphProto& origin) const {
  if (g.origin.get() != &origin || g.name != origin.name()) return false;
  const auto values = [&](const std::vector<ValueInfo>& mine, const auto& theirs) {
    if (static_cast<int>(mine.size()) != theirs.size()) return false;
    for (int i = 0; i < theirs.size(); ++i)
      if (!unchanged(mine[static_cast<std::size_t>(i)], &theirs.Get(i))) return false;
    return true;
  };
  if (!values(g.inputs, origin.input()) || !values(g.outputs, origin.output()) || !values(g.value_info, origin.value_info())) return false;
  if (static_cast<int>(g.initializers.size()) != origin.initializer_size() + origin.sparse_initializer_size()) return false;
  int dense = 0, sparse = 0;
  for (const Initializer& i : g.initializers) {
    if (i.sparse) {
      if (sparse >= origin.sparse_initializer_size() || i.origin.get() != &origin.sparse_initializer(sparse++)) return false;
      if (origin.sparse_initializer(sparse - 1).values().name() != i.name) return false;
    } else if (dense >= origin.initializer_size() || !unchanged(i, origin.initializer(dense++))) {
      return false;
    }
  }
  if (static_cast<int>(g.nodes.size()) != origin.node_size()) return false;
  for (int i = 0; i < origin.node_size(); ++i) {
    const Node& n = g.nodes[static_cast<std::size_t>(i)];
    if (n.origin.get() != &origin.node(i) || !unchanged(n)) return false;
  }
  return true;
}

bool Writer::unchanged(const Function& f) const {
  const auto& origin = *origin_of<onnx::FunctionProto>(f.origin);
  if (f.name != origin.name() || f.domain != normalized_domain(origin.domain()) || f.overload != overload_of(origin)) return false;
  if (!same_names(f.inputs, origin.input()) || !same_names(f.outputs, origin.output()) || !same_names(f.attributes, origin.attribute()))
    return false;
  if (static_cast<int>(f.nodes.size()) != origin.node_size()) return false;
  for (int i = 0; i < origin.node_size(); ++i) {
    const Node& n = f.nodes[static_cast<std::size_t>(i)];
    if (n.origin.get() != &origin.node(i) || !unchanged(n)) return false;
  }
  google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto> imports = origin.opset_import();
  write_opsets(f.opset_imports, &imports);
  return std::equal(imports.begin(), imports.end(), origin.opset_import().begin(), origin.opset_import().end(),
                    [](const auto& a, const auto& b) { return a.version() == b.version() && a.domain() == b.domain(); });
}

}  // namespace saturate::proto

namespace saturate {

void set_metadata(Model& model, const std::string& key, const std::string& value) {
  const auto* origin = static_cast<const onnx::ModelProto*>(model.origin.get());
  auto changed = std::make_shared<onnx::ModelProto>();
  if (origin) proto::copy_except(*origin, changed.get(), {7, 25});  // but graph and functions
  auto& entries = *changed->mutable_metadata_props();
  const auto known = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.key() == key; });
  auto* entry = known == entries.end() ? changed->add_metadata_props() : &*known;
  entry->set_key(key);
  entry->set_value(value);
  model.origin = std::move(changed);
}

Devices devices_of(const Node& node) {
  if (node.devices) return *node.devices;
  return node.origin ? proto::devices_of(*static_cast<const onnx::NodeProto*>(node.origin.get())) : Devices();
}

bool names_devices(const Model& model) {
  return model.origin && proto::names_devices(*static_cast<const onnx::ModelProto*>(model.origin.get()));
}

Metadata metadata_of(const Node& node) {
  if (node.metadata) return *node.metadata;
  return node.origin ? proto::metadata_of(*static_cast<const onnx::NodeProto*>(node.origin.get())) : Metadata();
}

}  // namespace saturate
