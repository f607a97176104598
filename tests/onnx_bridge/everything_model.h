// Test helper: one model with all that ONNX can say: every dtype, control flow, functions with overloads, sparse tensors,
// sequences, metadata on everything, fields from newer and from unknown versions of the format.
#pragma once

#include "proto_models.h"

namespace saturate::testing {

inline std::string numbered(std::string name, int number) { return name.append(std::to_string(number)); }

inline void add_tensors_of_every_type(onnx::GraphProto* g) {
  for (int dtype = 1; dtype <= 28; ++dtype) {
    auto* t = add_initializer(g, numbered("raw_", dtype), dtype, {3, 5});
    if (dtype == 8) {
      for (int i = 0; i < 15; ++i) t->add_string_data(std::string(static_cast<std::size_t>(i % 4), static_cast<char>(200 + i)));
      continue;
    }
    const std::size_t bits = static_cast<std::size_t>(bit_width(static_cast<DType>(dtype))) * 15;
    std::string raw((bits + 7) / 8, '\0');
    for (std::size_t i = 0; i < raw.size(); ++i)
      raw[i] = dtype == 9 ? static_cast<char>(i & 1) : static_cast<char>(i * 37 + static_cast<std::size_t>(dtype));
    t->set_raw_data(raw);
    t->set_doc_string("a tensor");
    add_metadata(t, 16, "tensor", "metadata");
  }
  for (int dtype : {2, 3, 4, 5, 6, 9, 10, 16, 17, 18, 19, 20, 24}) {
    auto* t = add_initializer(g, numbered("int32_", dtype), dtype, {2});
    t->add_int32_data(1);
    t->add_int32_data(0);
  }
  for (int dtype : {21, 22, 23}) {
    auto* t = add_initializer(g, numbered("packed_", dtype), dtype, {3});
    t->add_int32_data(0x21);
    t->add_int32_data(0x03);
  }
  for (int dtype : {25, 26}) add_initializer(g, numbered("packed_", dtype), dtype, {3})->add_int32_data(0b100100);
  for (int dtype : {27, 28}) {
    auto* t = add_initializer(g, numbered("six_", dtype), dtype, {2});
    t->add_int32_data(63);
    t->add_int32_data(1);
  }
  add_initializer(g, "floats", 1, {2})->mutable_float_data()->Add(-0.0f);
  g->mutable_initializer(g->initializer_size() - 1)->add_float_data(2.5f);
  add_initializer(g, "scalar", 7, {})->add_int64_data(-5);
  add_initializer(g, "doubles", 11, {1})->add_double_data(0.1);
  add_initializer(g, "uint32s", 12, {1})->add_uint64_data(4000000000u);
  add_initializer(g, "uint64s", 13, {1})->add_uint64_data(~0ull);
  auto* complex = add_initializer(g, "complex", 14, {1});
  complex->add_float_data(1);
  complex->add_float_data(2);
  add_initializer(g, "empty", 1, {0, 3});
  add_initializer(g, "newer", 99, {3})->set_raw_data("abc");
}

inline void add_sparse(onnx::GraphProto* g) {
  auto* s = g->add_sparse_initializer();
  s->mutable_values()->set_name("sparse");
  s->mutable_values()->set_data_type(1);
  s->mutable_values()->add_dims(1);
  s->mutable_values()->add_float_data(3);
  s->mutable_indices()->set_data_type(7);
  s->mutable_indices()->add_dims(1);
  s->mutable_indices()->add_int64_data(2);
  s->add_dims(4);
}

inline onnx::GraphProto branch(const std::string& name, const std::string& op, const std::string& captured) {
  onnx::GraphProto g;
  const std::string output = std::string(name).append("_out");
  g.set_name(name);
  g.set_doc_string("a branch");
  add_metadata(&g, 16, "graph", "metadata");
  auto* n = add_node(&g, op, {captured.c_str()}, {output.c_str()});
  add_metadata(n, 9, "inner", "metadata");
  add_float(g.mutable_output(), output, {2});
  return g;
}

inline void add_all_attributes(onnx::NodeProto* n) {
  using A = onnx::AttributeProto;
  add_attribute(n, "f", A::FLOAT)->set_f(1.5f);
  add_attribute(n, "i", A::INT)->set_i(-7);
  auto* s = add_attribute(n, "s", A::STRING);
  s->set_s(std::string("\xff\0z", 3));
  s->set_doc_string("bytes");
  auto* t = add_attribute(n, "t", A::TENSOR)->mutable_t();
  t->set_data_type(10);
  t->add_dims(1);
  t->set_raw_data("ab");
  t->set_name("named");
  *add_attribute(n, "g", A::GRAPH)->mutable_g() = branch("attribute_graph", "Relu", "x");
  auto* sparse = add_attribute(n, "sparse", A::SPARSE_TENSOR)->mutable_sparse_tensor();
  sparse->add_dims(4);
  add_attribute(n, "tp", A::TYPE_PROTO)
      ->mutable_tp()
      ->mutable_sequence_type()
      ->mutable_elem_type()
      ->mutable_tensor_type()
      ->set_elem_type(22);
  add_attribute(n, "floats", A::FLOATS)->add_floats(2);
  add_attribute(n, "ints", A::INTS);
  auto* strings = add_attribute(n, "strings", A::STRINGS);
  strings->add_strings("a");
  strings->add_strings("");
  auto* tensors = add_attribute(n, "tensors", A::TENSORS)->add_tensors();
  tensors->set_data_type(7);
  tensors->add_int64_data(4);
  *add_attribute(n, "graphs", A::GRAPHS)->add_graphs() = branch("listed", "Abs", "x");
  add_attribute(n, "sparse_list", A::SPARSE_TENSORS)->add_sparse_tensors()->add_dims(1);
  add_attribute(n, "types", A::TYPE_PROTOS)->add_type_protos()->mutable_tensor_type()->set_elem_type(1);
}

inline void add_values(onnx::GraphProto* g) {
  auto* x = add_float(g->mutable_input(), "x", {2});
  x->set_doc_string("the input");
  add_metadata(x, 4, "value", "metadata");
  x->mutable_type()->set_denotation("IMAGE");
  auto* dim = x->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0);
  dim->set_denotation("DATA_BATCH");
  dim->set_dim_param("N");
  auto* c = g->add_input();
  c->set_name("c");
  c->mutable_type()->mutable_tensor_type()->set_elem_type(9);
  c->mutable_type()->mutable_tensor_type()->mutable_shape();
  auto* sequence = g->add_input();
  sequence->set_name("sequence");
  sequence->mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(7);
  auto* optional = g->add_input();
  optional->set_name("optional");
  *optional->mutable_type()->mutable_optional_type()->mutable_elem_type() = sequence->type();
  auto* map = g->add_input();
  map->set_name("map");
  map->mutable_type()->mutable_map_type()->set_key_type(8);
  map->mutable_type()->mutable_map_type()->mutable_value_type()->mutable_tensor_type()->set_elem_type(1);
  auto* opaque = g->add_input();
  opaque->set_name("opaque");
  opaque->mutable_type()->mutable_opaque_type()->set_name("thing");
  opaque->mutable_type()->mutable_opaque_type()->set_domain("of.mine");
  add_float(g->mutable_input(), "floats", {2});  // an initializer that can be overridden
  for (const char* name : {"out", "loop_out", "at", "custom_out", "call1", "call2"}) g->add_output()->set_name(name);
  add_float(g->mutable_value_info(), "mid", {2})->set_doc_string("between");
  auto* q = g->add_quantization_annotation();
  q->set_tensor_name("mid");
  add_entry(q->mutable_quant_parameter_tensor_names(), "SCALE_TENSOR", "floats");
}

inline void add_nodes(onnx::GraphProto* g) {
  using A = onnx::AttributeProto;
  auto* add = add_node(g, "Add", {"x", "floats"}, {"mid"});
  add->set_name("the add");
  add->set_domain("ai.onnx");
  add->set_doc_string("adds");
  add_metadata(add, 9, "namespace", "a/b/c");
  proto::add_unknown_bytes(add, 10,
                           "\x0a\x06"
                           "device");  // device_configurations (IR 11): configuration_id
  proto::add_unknown_bytes(add, 500, "from the future");
  auto* choose = add_node(g, "If", {"c"}, {"out"});
  *add_attribute(choose, "then_branch", A::GRAPH)->mutable_g() = branch("then", "Relu", "mid");
  *add_attribute(choose, "else_branch", A::GRAPH)->mutable_g() = branch("else", "Neg", "x");
  add_metadata(choose, 9, "if", "metadata");
  auto* loop = add_node(g, "Loop", {"scalar", "", "mid"}, {"loop_out"});
  auto* body = add_attribute(loop, "body", A::GRAPH)->mutable_g();
  body->set_name("body");
  for (const char* name : {"i", "cond", "state"}) body->add_input()->set_name(name);
  add_node(body, "Identity", {"cond"}, {"cond_out"});
  add_node(body, "Mul", {"state", "floats"}, {"state_out"});
  for (const char* name : {"cond_out", "state_out"}) body->add_output()->set_name(name);
  add_node(g, "SequenceConstruct", {"x", "mid"}, {"made"});
  add_node(g, "SequenceAt", {"made", "scalar"}, {"at"});
  auto* custom = add_node(g, "Custom", {"x", "sparse", "map", "opaque", "raw_22", "newer", ""}, {"custom_out", "", "unused"});
  custom->set_domain("com.somebody");
  add_all_attributes(custom);
  auto* first = add_node(g, "F", {"x"}, {"call1"});
  first->set_domain("local");
  auto* second = add_node(g, "F", {"x"}, {"call2"});
  second->set_domain("local");
  proto::set_overload(second, "v2");
}

inline onnx::FunctionProto function(const std::string& overload, const std::string& op) {
  onnx::FunctionProto f;
  f.set_name("F");
  f.set_domain("local");
  f.set_doc_string("a function");
  proto::set_overload(&f, overload);
  f.add_input("a");
  f.add_output("b");
  f.add_attribute("plain");
  onnx::AttributeProto with_default;
  with_default.set_name("alpha");
  with_default.set_type(onnx::AttributeProto::FLOAT);
  with_default.set_f(0.25f);
  proto::add_attribute_proto(&f, with_default);
  add_metadata(&f, 14, "function", "metadata");
  auto* n = f.add_node();
  n->set_op_type(op);
  n->add_input("a");
  n->add_output("b");
  auto* a = add_attribute(n, "alpha", onnx::AttributeProto::FLOAT);
  a->set_ref_attr_name("alpha");
  auto* import = f.add_opset_import();
  import->set_domain("");
  import->set_version(21);
  return f;
}

inline onnx::ModelProto build_everything() {
  onnx::ModelProto m;
  m.set_ir_version(10);
  m.set_producer_name("a producer");
  m.set_producer_version("0.1");
  m.set_domain("org.example");
  m.set_model_version(42);
  m.set_doc_string("everything");
  // Not in order, in the long spelling, one of them unused: all of that stays.
  for (const auto& [domain, version] : {std::pair("unused", 2), {"ai.onnx", 21}, {"com.somebody", 3}, {"local", 1}}) {
    auto* import = m.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
  }
  add_entry(m.mutable_metadata_props(), "model", "metadata");
  m.add_training_info()->mutable_initialization()->set_name("init");
  *m.add_functions() = function("", "Elu");
  *m.add_functions() = function("v2", "LeakyRelu");
  proto::add_unknown_bytes(&m, 26, "");
  proto::add_unknown_bytes(&m, 1000, "from the future");
  auto* g = m.mutable_graph();
  g->set_name("everything graph");
  g->set_doc_string("a graph");
  add_metadata(g, 16, "graph", "metadata");
  proto::add_unknown_bytes(g, 77, "newer");
  add_values(g);
  add_tensors_of_every_type(g);
  add_sparse(g);
  add_nodes(g);
  return m;
}

// As any program would read it: fields that this ONNX knows are no longer among the unknown ones.
inline onnx::ModelProto everything_model() {
  onnx::ModelProto m;
  m.ParseFromString(build_everything().SerializeAsString());
  return m;
}

}  // namespace saturate::testing
