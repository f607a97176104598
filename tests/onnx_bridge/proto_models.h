// Test helper: models built from protobuf messages, with what plain values cannot say.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "onnx_bridge/file/io.h"
#include "onnx_bridge/file/proto/fields.h"

namespace saturate {

inline std::string message_of(const absl::Status& status) { return std::string(status.message()); }

}  // namespace saturate

namespace saturate::testing {

inline void add_entry(google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>* field, const std::string& key,
                      const std::string& value) {
  auto* entry = field->Add();
  entry->set_key(key);
  entry->set_value(value);
}

// metadata_props of messages where the installed ONNX may not know the field.
template <typename M>
void add_metadata(M* message, int number, const std::string& key, const std::string& value) {
  onnx::StringStringEntryProto entry;
  entry.set_key(key);
  entry.set_value(value);
  if constexpr (requires { message->add_metadata_props(); })
    *message->add_metadata_props() = entry;
  else
    proto::add_unknown_bytes(message, number, entry.SerializeAsString());
}

inline onnx::TensorProto* add_initializer(onnx::GraphProto* g, const std::string& name, int dtype,
                                          std::initializer_list<std::int64_t> dims) {
  auto* t = g->add_initializer();
  t->set_name(name);
  t->set_data_type(dtype);
  for (std::int64_t d : dims) t->add_dims(d);
  return t;
}

inline onnx::NodeProto* add_node(onnx::GraphProto* g, const std::string& op, std::initializer_list<const char*> inputs,
                                 std::initializer_list<const char*> outputs) {
  auto* n = g->add_node();
  n->set_op_type(op);
  for (const char* i : inputs) n->add_input(std::string(i));
  for (const char* o : outputs) n->add_output(std::string(o));
  return n;
}

inline onnx::AttributeProto* add_attribute(onnx::NodeProto* n, const std::string& name, onnx::AttributeProto::AttributeType type) {
  auto* a = n->add_attribute();
  a->set_name(name);
  a->set_type(type);
  return a;
}

inline onnx::ValueInfoProto* add_float(google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>* values, const std::string& name,
                                       std::initializer_list<std::int64_t> dims) {
  auto* v = values->Add();
  v->set_name(name);
  auto* t = v->mutable_type()->mutable_tensor_type();
  t->set_elem_type(1);
  t->mutable_shape();
  for (std::int64_t d : dims) t->mutable_shape()->add_dim()->set_dim_value(d);
  return v;
}

// x -> Relu -> y, opset 17.
inline onnx::ModelProto small_model() {
  onnx::ModelProto m;
  m.set_ir_version(8);
  m.add_opset_import()->set_version(17);
  auto* g = m.mutable_graph();
  g->set_name(std::string("small"));
  add_float(g->mutable_input(), "x", {2});
  add_float(g->mutable_output(), "y", {2});
  add_node(g, "Relu", {"x"}, {"y"});
  return m;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_file(const std::filesystem::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// A folder of its own for each test, gone afterwards.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "saturate_io_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  int files() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()));
  }

 private:
  std::filesystem::path path_;
};

}  // namespace saturate::testing
