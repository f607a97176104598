#include "onnx_bridge/file/io.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <climits>

#include "everything_model.h"
#include "fmt/format.h"
#include "onnx_bridge/operators/op_table.h"
#include "proto_models.h"

namespace saturate {
namespace {

using testing::everything_model;
using testing::small_model;
using testing::TestFolder;

absl::StatusOr<Model> parse(const onnx::ModelProto& message) { return parse_model(message.SerializeAsString(), ""); }

onnx::ModelProto saved(const Model& model) {
  onnx::ModelProto out;
  auto bytes = serialize_model(model);
  EXPECT_TRUE(bytes.ok()) << message_of(bytes.status());
  EXPECT_TRUE(out.ParseFromString(*bytes));
  return out;
}

// The same message but for the order of the main graph's nodes.
bool same_but_for_order(onnx::ModelProto a, onnx::ModelProto b) {
  const auto nodes = [](const onnx::ModelProto& m) {
    std::vector<std::string> all;
    for (const auto& n : m.graph().node()) all.push_back(n.SerializeAsString());
    std::sort(all.begin(), all.end());
    return all;
  };
  if (nodes(a) != nodes(b)) return false;
  a.mutable_graph()->clear_node();
  b.mutable_graph()->clear_node();
  return a.SerializeAsString() == b.SerializeAsString();
}

std::string error(const onnx::ModelProto& message) {
  auto model = parse(message);
  EXPECT_FALSE(model.ok()) << message.DebugString();
  return model.ok() ? "" : message_of(model.status());
}

void expect_error(const onnx::ModelProto& message, const std::vector<std::string>& parts) {
  const std::string text = error(message);
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

TEST(RoundTrip, EverythingComesBackByteForByte) {
  const onnx::ModelProto original = everything_model();
  auto model = parse(original);
  ASSERT_TRUE(model.ok()) << message_of(model.status());
  auto bytes = serialize_model(*model);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, original.SerializeAsString());
}

TEST(RoundTrip, DataGivenApart) {
  const onnx::ModelProto original = everything_model();
  auto model = parse(original);
  ASSERT_TRUE(model.ok()) << message_of(model.status());
  std::vector<DetachedData> detached;
  auto bytes = serialize_model(*model, 1, detached);
  ASSERT_TRUE(bytes.ok());
  EXPECT_GT(detached.size(), 20u);
  onnx::ModelProto filled;
  ASSERT_TRUE(filled.ParseFromString(*bytes));
  for (const DetachedData& d : detached) {
    auto* t = filled.mutable_graph()->mutable_initializer(static_cast<int>(d.index));
    EXPECT_FALSE(t->has_raw_data());
    t->set_raw_data(d.bytes.data(), d.bytes.size());
  }
  EXPECT_EQ(filled.SerializeAsString(), original.SerializeAsString());

  auto again = parse_model(*bytes, "", detached);
  ASSERT_TRUE(again.ok()) << message_of(again.status());
  EXPECT_EQ(again->graph.initializers[detached[0].index].tensor.bytes().data(), detached[0].bytes.data()) << "copied";
  auto whole = serialize_model(*again);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(*whole, original.SerializeAsString());
  std::vector<DetachedData> once_more;
  EXPECT_EQ(*serialize_model(*again, 1, once_more), *bytes);
  EXPECT_EQ(once_more.size(), detached.size());

  const auto refused = [&](std::vector<DetachedData> wrong) { return message_of(parse_model(*bytes, "", std::move(wrong)).status()); };
  auto wrong = detached;
  wrong[0].bytes = wrong[0].bytes.first(wrong[0].bytes.size() - 1);
  EXPECT_NE(refused(wrong).find("the data given apart has"), std::string::npos);
  wrong = detached;
  wrong[0].index = 10000;
  EXPECT_NE(refused(wrong).find("initializer 10000"), std::string::npos);
  EXPECT_NE(refused({}).find("needs"), std::string::npos);
  EXPECT_NE(message_of(parse_model(original.SerializeAsString(), "", detached).status()).find("data of its own"), std::string::npos);
}

TEST(RoundTrip, EveryModelOfTheData) {
  const std::filesystem::path data = SATURATE_SOURCE_DIR "/../shared/data";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "no models at " << data;
  int seen = 0, refused = 0;
  const TestFolder folder;
  const std::string out = folder / "out.onnx";
  for (const char* part : {"zoo", "spellings", "ort_suite"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(data / part)) {
      if (entry.path().extension() != ".onnx") continue;
      auto model = load_model(entry.path().string());
      // Some cases of ORT's own suite define values twice or import no opset.
      if (!model.ok() && std::string(part) == "ort_suite") ++refused;
      if (!model.ok() && std::string(part) == "ort_suite") continue;
      ASSERT_TRUE(model.ok()) << message_of(model.status());
      if (!names_of_repeated_constants(*model).empty()) continue;  // mended on the way in
      const absl::Status status = save_model(*model, out);
      ASSERT_TRUE(status.ok()) << message_of(status);
      onnx::ModelProto before, after;
      ASSERT_TRUE(before.ParseFromString(testing::read_file(entry.path())));
      ASSERT_TRUE(after.ParseFromString(testing::read_file(out)));
      EXPECT_TRUE(same_but_for_order(before, after)) << entry.path();
      ++seen;
    }
  EXPECT_GT(seen, 100);
  EXPECT_LT(refused, 10);
}

TEST(RoundTrip, ValuesAreReadRight) {
  auto model = parse(everything_model());
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->opset(""), 21);
  EXPECT_EQ(model->opset_imports.size(), 4u);
  const Graph& g = model->graph;
  const auto tensor = [&](const std::string& name) -> const Tensor& {
    return std::find_if(g.initializers.begin(), g.initializers.end(), [&](const Initializer& i) { return i.name == name; })->tensor;
  };
  EXPECT_EQ(element_as_int(tensor("packed_22"), 1), 2);
  EXPECT_EQ(element_as_int(tensor("packed_22"), 2), 3);
  EXPECT_EQ(element_as_int(tensor("packed_25"), 2), 2);
  EXPECT_EQ(element_as_int(tensor("packed_26"), 2), -2);
  EXPECT_EQ(element_as_double(tensor("six_27"), 0), -7.5);
  EXPECT_EQ(element_as_double(tensor("six_27"), 1), 0.125);
  EXPECT_EQ(element_as_int(tensor("scalar"), 0), -5);
  EXPECT_EQ(element_as_int(tensor("uint32s"), 0), 4000000000);
  EXPECT_EQ(element_as_double(tensor("doubles"), 0), 0.1);
  EXPECT_TRUE(std::signbit(tensor("floats").span<float>()[0]));
  EXPECT_EQ(tensor("raw_8").string_data().size(), 15u);
  EXPECT_EQ(tensor("complex").bytes().size(), 8u);
  EXPECT_EQ(tensor("int32_10").bytes().size(), 4u);
  EXPECT_EQ(tensor("newer").bytes().size(), 3u);
  EXPECT_EQ(g.nodes[0].domain, "");
  EXPECT_EQ(g.nodes.back().overload, "v2");
  EXPECT_EQ(model->functions[1].overload, "v2");
  ASSERT_EQ(model->functions[0].attribute_defaults.size(), 1u);
  EXPECT_EQ(model->functions[0].attribute_defaults[0].f(), 0.25f);
  EXPECT_EQ(g.inputs[3].type.element->element->dtype, DType::kInt64);
  EXPECT_EQ(std::get<std::string>((*g.inputs[0].type.shape)[0]), "N");
  EXPECT_EQ(captured_names(find_attribute(g.nodes[1].attributes, "then_branch")->g()), std::vector<std::string>{"mid"});
  EXPECT_EQ(captured_names(find_attribute(g.nodes[2].attributes, "body")->g()), std::vector<std::string>{"floats"});
}

TEST(RoundTrip, RenamedValuesKeepAllElse) {
  auto model = parse(everything_model());
  ASSERT_TRUE(model.ok());
  Node& add = model->graph.nodes[0];
  add.inputs[1] = "raw_1";
  const onnx::ModelProto before = everything_model(), after = saved(*model);
  onnx::NodeProto expected = before.graph().node(0);
  expected.set_input(1, "raw_1");
  EXPECT_EQ(after.graph().node(0).SerializeAsString(), expected.SerializeAsString());
  onnx::ModelProto rest = after;
  *rest.mutable_graph()->mutable_node(0) = before.graph().node(0);
  EXPECT_EQ(rest.SerializeAsString(), before.SerializeAsString());
}

TEST(RoundTrip, RenamedInitializersAndValuesKeepAllElse) {
  onnx::ModelProto message = small_model();
  auto* t = testing::add_initializer(message.mutable_graph(), "w", 1, {1});
  t->set_raw_data("abcd");
  t->set_doc_string("doc");
  testing::add_metadata(t, 16, "k", "v");
  message.mutable_graph()->mutable_input(0)->set_doc_string("input");
  auto model = parse(message);
  ASSERT_TRUE(model.ok());
  model->graph.initializers[0].name = "other";
  model->graph.inputs[0].type.shape = std::vector<DimSpec>{std::string("N")};
  const onnx::ModelProto after = saved(*model);
  onnx::TensorProto expected = *t;
  expected.set_name("other");
  EXPECT_EQ(after.graph().initializer(0).SerializeAsString(), expected.SerializeAsString());
  EXPECT_EQ(after.graph().input(0).doc_string(), "input");
  EXPECT_EQ(after.graph().input(0).type().tensor_type().shape().dim(0).dim_param(), "N");
}

TEST(RoundTrip, AReplacedBranchLeavesTheRestOfTheNode) {
  auto model = parse(everything_model());
  ASSERT_TRUE(model.ok());
  Node& choose = model->graph.nodes[1];
  for (Attribute& a : choose.attributes)
    if (a.name == "then_branch") {
      Graph g = a.g();
      Node extra;
      extra.op_type = "Abs";
      extra.inputs = {"mid"};
      extra.outputs = {"absolute"};
      g.nodes.insert(g.nodes.begin(), extra);
      g.nodes[1].inputs[0] = "absolute";
      a.value = std::make_shared<const Graph>(std::move(g));
    }
  const onnx::NodeProto before = everything_model().graph().node(1), after = saved(*model).graph().node(1);
  ASSERT_EQ(after.attribute(0).g().node_size(), 2);
  onnx::NodeProto expected = before;
  auto* branch = expected.mutable_attribute(0)->mutable_g();
  const onnx::NodeProto relu = branch->node(0);
  branch->clear_node();
  auto* abs = branch->add_node();
  abs->set_op_type("Abs");
  abs->add_input("mid");
  abs->add_output("absolute");
  *branch->add_node() = relu;
  branch->mutable_node(1)->set_input(0, "absolute");
  EXPECT_EQ(after.SerializeAsString(), expected.SerializeAsString());
}

TEST(RoundTrip, NewNodesTensorsAndOpsets) {
  auto model = parse(small_model());
  ASSERT_TRUE(model.ok());
  Node node;
  node.name = "new";
  node.op_type = "Gelu";
  node.inputs = {"y", ""};
  node.outputs = {"z"};
  node.attributes = {Attribute::of("approximate", std::string("tanh")), Attribute::of("n", std::int64_t{3}),
                     Attribute::of("fs", std::vector<float>{1, 2}), Attribute::of("t", Tensor::scalar_int64(9))};
  model->graph.nodes.push_back(node);
  const float values[] = {1, 2, 3};
  model->graph.initializers.push_back({"made", Tensor::of<float>(DType::kFloat, {3}, values), nullptr, false});
  model->graph.initializers.push_back({"words", Tensor::strings({2}, {"a", "b"}), nullptr, false});
  model->opset_imports[""] = 23;
  model->opset_imports["com.microsoft"] = 1;
  const onnx::ModelProto after = saved(*model);
  EXPECT_EQ(after.ir_version(), 11);
  ASSERT_EQ(after.opset_import_size(), 2);
  EXPECT_EQ(after.opset_import(0).version(), 23);
  EXPECT_EQ(after.opset_import(1).domain(), "com.microsoft");
  const auto& made = after.graph().node(1);
  EXPECT_EQ(made.attribute(0).s(), "tanh");
  EXPECT_EQ(made.attribute(3).t().data_type(), 7);
  EXPECT_EQ(after.graph().initializer(0).raw_data().size(), 12u);
  EXPECT_EQ(after.graph().initializer(0).name(), "made");
  EXPECT_EQ(after.graph().initializer(1).string_data(1), "b");
  auto again = parse_model(after.SerializeAsString(), "");
  ASSERT_TRUE(again.ok()) << message_of(again.status());
  EXPECT_TRUE(identical(again->graph.initializers[0].tensor, model->graph.initializers[0].tensor));
}

TEST(RoundTrip, FunctionsOfOurOwn) {
  auto model = parse(everything_model());
  ASSERT_TRUE(model.ok());
  Function f = model->functions[1];
  f.origin = nullptr;
  f.overload = "v3";
  for (Node& n : f.nodes) n.origin = nullptr;
  model->functions.push_back(f);
  auto again = parse_model(*serialize_model(*model), "");
  ASSERT_TRUE(again.ok()) << message_of(again.status());
  const Function& back = again->functions[2];
  EXPECT_EQ(back.overload, "v3");
  EXPECT_EQ(back.attribute_defaults[0].f(), 0.25f);
  EXPECT_EQ(back.attributes, std::vector<std::string>{"plain"});
  EXPECT_EQ(back.nodes[0].attributes[0].ref, "alpha");
  EXPECT_EQ(back.opset_imports.at(""), 21);
}

TEST(Load, SortsNodesThatAreNotInOrder) {
  onnx::ModelProto m = small_model();
  auto* g = m.mutable_graph();
  g->clear_node();
  testing::add_node(g, "Abs", {"b"}, {"y"});
  testing::add_node(g, "Neg", {"x"}, {"first"});
  testing::add_node(g, "Neg", {"a"}, {"b"});
  testing::add_node(g, "Neg", {"x"}, {"a"});
  auto model = parse(m);
  ASSERT_TRUE(model.ok()) << message_of(model.status());
  std::vector<std::string> order;
  for (const Node& n : model->graph.nodes) order.push_back(n.outputs[0]);
  EXPECT_EQ(order, (std::vector<std::string>{"first", "a", "b", "y"}));
  EXPECT_TRUE(same_but_for_order(m, saved(*model)));
}

TEST(Load, SubgraphsOrderTheNodesAroundThem) {
  onnx::ModelProto m = everything_model();
  auto* nodes = m.mutable_graph()->mutable_node();
  nodes->SwapElements(0, 1);  // If before the Add whose sum its branch takes
  auto model = parse(m);
  ASSERT_TRUE(model.ok()) << message_of(model.status());
  EXPECT_EQ(model->graph.nodes[0].op_type, "Add");
}

TEST(Load, RefusesWhatIsNoModel) {
  const TestFolder folder;
  const auto error_of = [&](const std::string& bytes, const std::string& name = "bad.onnx") {
    testing::write_file(folder / name, bytes);
    auto model = load_model(folder / name);
    EXPECT_FALSE(model.ok());
    const std::string text = message_of(model.status());
    EXPECT_TRUE(text.starts_with((folder / name).string())) << text;
    return text;
  };
  EXPECT_NE(error_of("").find("empty"), std::string::npos);
  EXPECT_NE(error_of("<ir_version: 8> g () => () {}\n").find("text"), std::string::npos);
  EXPECT_NE(error_of("just words").find("text"), std::string::npos);
  EXPECT_NE(error_of(std::string("\x00\x01\x02\xff\xfe", 5)).find("no ONNX model"), std::string::npos);
  const std::string whole = everything_model().SerializeAsString();
  EXPECT_NE(error_of(whole.substr(0, whole.size() / 2)).find("truncated"), std::string::npos);
  onnx::ModelProto no_graph;
  no_graph.set_ir_version(8);
  EXPECT_NE(error_of(no_graph.SerializeAsString()).find("no graph"), std::string::npos);
  EXPECT_NE(message_of(load_model(folder / "missing.onnx").status()).find("No such file"), std::string::npos);
  EXPECT_EQ(load_model(folder / "missing.onnx").status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(message_of(load_model(folder.path().string()).status()).find("folder"), std::string::npos);
  EXPECT_FALSE(load_model("/dev/null").ok());
  std::filesystem::resize_file(folder / "bad.onnx", 3ull << 30);  // sparse
  EXPECT_NE(message_of(load_model(folder / "bad.onnx").status()).find("2 GB"), std::string::npos);
}

TEST(Load, RefusesBrokenGraphs) {
  onnx::ModelProto m = small_model();
  m.mutable_graph()->mutable_node(0)->set_input(0, "nope");
  m.mutable_graph()->mutable_node(0)->set_name("the relu");
  expect_error(m, {"graph 'small'", "node 0 (Relu 'the relu')", "input 0 'nope' is defined nowhere"});
  m = small_model();
  m.mutable_graph()->mutable_output(0)->set_name("nope");
  expect_error(m, {"output 'nope'"});
  m = small_model();
  auto* g = m.mutable_graph();
  g->mutable_node(0)->set_input(0, "b");
  testing::add_node(g, "Abs", {"y"}, {"a"})->set_name("n1");
  testing::add_node(g, "Neg", {"a"}, {"b"});
  expect_error(m, {"cycle", "node 0 (Relu)", "node 1 (Abs 'n1')", "node 2 (Neg)"});
  m = small_model();
  m.mutable_graph()->mutable_node(0)->set_input(0, "y");
  expect_error(m, {"cycle"});
  m = small_model();
  testing::add_node(m.mutable_graph(), "Abs", {"x"}, {"y"});
  expect_error(m, {"node 1 (Abs)", "'y' is already"});
  m = small_model();
  testing::add_node(m.mutable_graph(), "Abs", {"y"}, {"x"});
  expect_error(m, {"'x' is already"});
  m = small_model();
  testing::add_float(m.mutable_graph()->mutable_input(), "x", {1});
  expect_error(m, {"input 'x' is defined twice"});
  m = small_model();
  m.mutable_graph()->mutable_node(0)->clear_op_type();
  expect_error(m, {"node 0", "no op_type"});
  m = small_model();
  auto* n = m.mutable_graph()->mutable_node(0);
  testing::add_attribute(n, "a", onnx::AttributeProto::INT);
  testing::add_attribute(n, "a", onnx::AttributeProto::INT);
  expect_error(m, {"attribute 'a' is given twice"});
}

TEST(Load, RefusesBrokenSubgraphs) {
  onnx::ModelProto m = everything_model();
  m.mutable_graph()->mutable_node(1)->mutable_attribute(1)->mutable_g()->mutable_node(0)->set_input(0, "nope");
  expect_error(m, {"node 1 (If)", "attribute 'else_branch'", "graph 'else'", "node 0 (Neg)", "'nope'"});
  m = everything_model();
  testing::add_node(m.mutable_graph()->mutable_node(2)->mutable_attribute(0)->mutable_g(), "Neg", {"state"}, {"state"});
  expect_error(m, {"graph 'body'", "'state' is already"});
  // What a branch takes from outside can close a cycle too.
  m = everything_model();
  m.mutable_graph()->mutable_node(0)->set_input(0, "out");
  expect_error(m, {"cycle", "If"});
}

TEST(Load, RefusesBrokenTensors) {
  const auto with = [](int dtype, std::initializer_list<std::int64_t> dims, const std::string& raw) {
    onnx::ModelProto m = small_model();
    auto* t = testing::add_initializer(m.mutable_graph(), "w", dtype, dims);
    t->set_raw_data(raw);
    return m;
  };
  expect_error(with(1, {2}, "abc"), {"initializer 'w'", "float with dims [2] takes 8 bytes, the tensor has 3"});
  expect_error(with(1, {-1}, ""), {"initializer 'w'", "negative"});
  expect_error(with(1, {LLONG_MAX, LLONG_MAX}, ""), {"initializer 'w'", "2^63"});
  expect_error(with(1, {LLONG_MAX}, ""), {"63 bits"});
  expect_error(with(2, {LLONG_MAX / 16}, "a"), {"the tensor has 1"});
  expect_error(with(0, {1}, "a"), {"no data type"});
  expect_error(with(22, {3}, "a"), {"int4 with dims [3] takes 2 bytes"});
  onnx::ModelProto m = small_model();
  testing::add_initializer(m.mutable_graph(), "w", 1, {3})->add_float_data(1);
  expect_error(m, {"3 entries in float_data, the tensor has 1"});
  m = small_model();
  testing::add_initializer(m.mutable_graph(), "w", 8, {3})->add_string_data("a");
  expect_error(m, {"3 strings"});
  m = small_model();
  testing::add_initializer(m.mutable_graph(), "w", 1, {1})->add_float_data(1);
  testing::add_initializer(m.mutable_graph(), "w", 1, {1})->add_float_data(1);
  expect_error(m, {"initializer 'w' is defined twice"});
  m = small_model();
  testing::add_initializer(m.mutable_graph(), "w", 1, {0})->mutable_segment()->set_begin(1);
  expect_error(m, {"segments"});
  m = small_model();
  auto* t = testing::add_attribute(m.mutable_graph()->mutable_node(0), "value", onnx::AttributeProto::TENSOR)->mutable_t();
  t->set_data_type(1);
  t->add_dims(1LL << 40);
  expect_error(m, {"node 0 (Relu)", "attribute 'value'", "float_data"});
}

TEST(Load, AnOpsetOfTextIsNoMissingOne) {
  const auto model = parse_model_text(
      fmt::format("<ir_version: 10, opset_import: [\"\" : {}]>\ng (float[2] x) => (float[2] y) {{ y = Relu (x) }}", kNewestOpset), "text");
  ASSERT_TRUE(model.ok()) << message_of(model.status());
  EXPECT_FALSE(opset_was_assumed(*model));
  ASSERT_EQ(saved(*model).opset_import_size(), 1);
  EXPECT_EQ(saved(*model).opset_import(0).version(), kNewestOpset);
}

TEST(Load, TakesTheNewestOpsetForAMissingOneAndRefusesWrongOnes) {
  onnx::ModelProto m = small_model();
  m.clear_opset_import();
  auto missing = parse(m);
  ASSERT_TRUE(missing.ok()) << message_of(missing.status());
  EXPECT_EQ(missing->opset(""), kNewestOpset);
  EXPECT_TRUE(opset_was_assumed(*missing));
  EXPECT_EQ(saved(*missing).opset_import_size(), 0);
  missing->opset_imports[""] = 20;
  EXPECT_EQ(saved(*missing).opset_import(0).version(), 20);
  EXPECT_FALSE(opset_was_assumed(*parse(small_model())));
  m.set_ir_version(2);
  auto old = parse(m);
  ASSERT_TRUE(old.ok()) << message_of(old.status());
  EXPECT_EQ(old->opset(""), 1);
  EXPECT_FALSE(opset_was_assumed(*old));
  EXPECT_EQ(saved(*old).opset_import_size(), 0);
  m = small_model();
  m.mutable_opset_import(0)->set_version(0);
  expect_error(m, {"version 0"});
  m = small_model();
  auto* second = m.add_opset_import();
  second->set_domain("ai.onnx");
  second->set_version(18);
  expect_error(m, {"twice"});
  m = small_model();
  m.mutable_graph()->mutable_node(0)->set_domain("com.nobody");  // no import: tolerated outside the default domain
  EXPECT_TRUE(parse(m).ok());
}

TEST(Load, BoundsNesting) {
  const auto nested = [](int depth) {
    onnx::ModelProto m = small_model();
    onnx::GraphProto* g = m.mutable_graph();
    for (int i = 1; i < depth; ++i) {
      auto* n = testing::add_node(g, "If", {"x"}, {"o"});
      g = testing::add_attribute(n, "then_branch", onnx::AttributeProto::GRAPH)->mutable_g();
      g->set_name("g");
      g->add_output()->set_name("x");
    }
    return m;
  };
  auto deep = parse(nested(60));
  ASSERT_TRUE(deep.ok()) << message_of(deep.status());
  EXPECT_TRUE(serialize_model(*deep).ok());
  expect_error(nested(66), {"nested more than 64 deep"});
  expect_error(nested(2000), {"nested more than 64 deep"});
}

TEST(Load, RefusesRecursiveFunctions) {
  onnx::ModelProto m = everything_model();
  auto* inner = m.mutable_functions(0)->add_node();
  inner->set_op_type("F");
  inner->set_domain("local");
  proto::set_overload(inner, "v2");
  inner->add_input("a");
  inner->add_output("c");
  EXPECT_TRUE(parse(m).ok());  // one calls the other
  auto* back = m.mutable_functions(1)->add_node();
  back->set_op_type("F");
  back->set_domain("local");
  back->add_input("a");
  back->add_output("c");
  expect_error(m, {"'F'", "calls itself"});
  m = everything_model();
  *m.add_functions() = m.functions(0);
  expect_error(m, {"'F'", "defined twice"});
  m = everything_model();
  m.mutable_functions(0)->mutable_node(0)->set_input(0, "x");  // the graph's names are not seen in a function
  expect_error(m, {"function 'F'", "input 0 'x' is defined nowhere"});
  m = small_model();
  m.mutable_graph()->mutable_node(0)->set_domain("f");
  for (int i = 0; i < 100; ++i) {
    auto* f = m.add_functions();
    f->set_domain("f");
    f->set_name(testing::numbered("f", i));
    f->add_input(std::string("a"));
    f->add_output(std::string("b"));
    auto* n = f->add_node();
    n->set_domain("f");
    n->set_op_type(testing::numbered("f", i + 1));
    n->add_input(std::string("a"));
    n->add_output(std::string("b"));
  }
  expect_error(m, {"64 deep"});
}

// Each byte of a model changed, and cut off at each length: an error or a model, never a crash.
TEST(Load, SurvivesDamage) {
  const std::string whole = everything_model().SerializeAsString();
  std::uint64_t state = 42;
  int good = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    damaged[i] = static_cast<char>(state);
    auto model = parse_model(damaged, "");
    if (!model.ok()) continue;
    ++good;
    EXPECT_TRUE(serialize_model(*model).ok());
  }
  for (std::size_t i = 0; i < whole.size(); i += 7) EXPECT_FALSE(parse_model(whole.substr(0, i), "").ok() && i < whole.size() / 2);
  EXPECT_GT(good, 100);
}

TEST(Save, WritesLikeOtherPrograms) {
  const TestFolder folder;
  auto model = parse(small_model());
  ASSERT_TRUE(model.ok());
  const mode_t before = ::umask(027);
  ASSERT_TRUE(save_model(*model, folder / "out.onnx").ok());
  ::umask(before);
  struct stat info {};
  ASSERT_EQ(::stat((folder / "out.onnx").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  EXPECT_EQ(folder.files(), 1);
  EXPECT_EQ(testing::read_file(folder / "out.onnx"), small_model().SerializeAsString());
  ASSERT_TRUE(save_model(*model, folder / "out.onnx").ok());  // over itself
  EXPECT_EQ(folder.files(), 1);
}

TEST(Save, FailuresLeaveNothing) {
  const TestFolder folder;
  auto model = parse(small_model());
  ASSERT_TRUE(model.ok());
  absl::Status status = save_model(*model, folder / "no/such/out.onnx");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(message_of(status).find("out.onnx: cannot write: No such file or directory"), std::string::npos) << message_of(status);
  EXPECT_NE(message_of(save_model(*model, folder.path())).find("folder"), std::string::npos);
  EXPECT_FALSE(save_model(*model, "/dev/full").ok());
  EXPECT_EQ(folder.files(), 0);
  testing::write_file(folder / "file", "x");
  EXPECT_FALSE(save_model(*model, folder / "file/out.onnx").ok());
  EXPECT_EQ(folder.files(), 1);
}

TEST(Save, TextFilesByTheirName) {
  const TestFolder folder;
  auto model = parse(small_model());
  ASSERT_TRUE(model.ok());
  ASSERT_TRUE(save_model(*model, folder / "m.onnxtxt").ok());
  EXPECT_NE(testing::read_file(folder / "m.onnxtxt").find("y = Relu (x)"), std::string::npos);
  auto again = load_model(folder / "m.onnxtxt");
  ASSERT_TRUE(again.ok()) << message_of(again.status());
  EXPECT_EQ(saved(*again).graph().node(0).op_type(), "Relu");
}

}  // namespace
}  // namespace saturate
