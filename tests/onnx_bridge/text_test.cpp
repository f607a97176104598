#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>

#include "everything_model.h"
#include "onnx_bridge/file/io.h"
#include "onnx_bridge/file/text/parser.h"

namespace saturate {
namespace {

std::string error_of(const absl::Status& status) { return std::string(status.message()); }

Tensor tensor(std::string_view text) {
  auto t = parse_text_tensor(text, "t");
  EXPECT_TRUE(t.ok()) << text << ": " << error_of(t.status());
  return t.ok() ? *t : Tensor();
}

std::string tensor_error(std::string_view text) {
  auto t = parse_text_tensor(text, "t");
  EXPECT_FALSE(t.ok()) << text;
  return t.ok() ? "" : error_of(t.status());
}

TEST(Text, TypesReadAndPrint) {
  for (const char* text :
       {"float", "float[]", "float[N,3,?]", "int4[2]", "seq(float[N])", "optional(seq(int64[1]))", "map(int64, float[2])",
        "sparse_tensor(float[3,4])", "float[\"batch size\"]", "opaque", "type_77[2]", "undefined[]"}) {
    auto type = parse_text_type(text, "t");
    ASSERT_TRUE(type.ok()) << text << error_of(type.status());
    EXPECT_EQ(print_text(*type), text);
  }
  EXPECT_TRUE(parse_text_type("float", "t")->shape.has_value());
  EXPECT_FALSE(parse_text_type("float[]", "t")->shape.has_value());
  EXPECT_FALSE(parse_text_type("float[-1]", "t").ok());
  EXPECT_FALSE(parse_text_type("floot", "t").ok());
  EXPECT_FALSE(parse_text_type("float[1", "t").ok());
}

TEST(Text, LiteralsOfEveryType) {
  EXPECT_EQ(tensor("float[3] {1, 2.5, -3e2}").span<float>()[2], -300.0f);
  EXPECT_EQ(tensor("float {0.1}").span<float>()[0], 0.1f);
  EXPECT_EQ(tensor("double[1] {0.1}").span<double>()[0], 0.1);
  EXPECT_EQ(tensor("int64[2] {-9223372036854775808, 9223372036854775807}").span<std::int64_t>()[0], INT64_MIN);
  EXPECT_EQ(tensor("uint64[1] {18446744073709551615}").span<std::uint64_t>()[0], UINT64_MAX);
  EXPECT_EQ(element_as_int(tensor("bool[3] {true, 0, false}"), 0), 1);
  EXPECT_EQ(element_as_int(tensor("int4[3] {-8, 7, -1}"), 2), -1);
  EXPECT_EQ(tensor("string[2] {\"a\", \"b\\\"c\"}").string_data()[1], "b\"c");
  EXPECT_TRUE(std::isinf(tensor("float[2] {inf, -inf}").span<float>()[1]));
  EXPECT_TRUE(std::isnan(tensor("float {nan}").span<float>()[0]));
  EXPECT_TRUE(std::signbit(tensor("float {-0.0}").span<float>()[0]));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(tensor("float {0x7fa00001}").span<float>()[0]), 0x7fa00001u);
  EXPECT_EQ(tensor("complex64[1] {1.0, 2.0}").bytes().size(), 8u);
  EXPECT_EQ(tensor("float[0] {}").size(), 0);
  EXPECT_EQ(tensor("float[2,0] {}").dims(), (Shape{2, 0}));
  // Small floats: a value with a point, bits without.
  EXPECT_EQ(element_as_double(tensor("float16[2] {1.5, 15360}"), 0), 1.5);
  EXPECT_EQ(element_as_double(tensor("float16[2] {1.5, 15360}"), 1), 1.0);
  EXPECT_EQ(element_as_double(tensor("float8e4m3fn {448.0}"), 0), 448.0);
}

TEST(Text, BadLiterals) {
  EXPECT_NE(tensor_error("float[3] {1, 2}").find("t:1:15: the dims ask for 3 elements"), std::string::npos)
      << tensor_error("float[3] {1, 2}");
  EXPECT_NE(tensor_error("float[1] {1, 2}").find("here are more"), std::string::npos);
  tensor_error("int8[1] {128}");
  tensor_error("int64[1] {9223372036854775808}");
  tensor_error("int64[1] {1.5}");
  tensor_error("uint8[1] {-1}");
  tensor_error("float[1] {1e39}");
  tensor_error("float8e4m3fn[1] {1000.0}");
  tensor_error("float[N] {1}");
  tensor_error("float[] {1}");
  tensor_error("float[1] {\"a\"}");
  tensor_error("string[1] {1}");
  tensor_error("string[2] {\"a\"}");
  tensor_error("float[4611686018427387904] {}");  // no memory is asked for
  tensor_error("float[1000000000000] {1}");
  tensor_error("float[4000000000,4000000000,4000000000] {1}");
  tensor_error("float[1] [\"location\": \"/etc/passwd\"]");
}

TEST(Text, TensorsPrintAndReadBackBitForBit) {
  for (int i = 1; i <= 28; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::kString) continue;
    Tensor t(dtype, {2, 5});
    std::uint64_t state = 88172645463325252u + static_cast<std::uint64_t>(i);
    for (std::size_t b = 0; b < t.bytes().size(); ++b) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      t.mutable_data()[b] =
          dtype == DType::kBool ? std::byte{static_cast<unsigned char>(state & 1)} : std::byte{static_cast<unsigned char>(state)};
    }
    // The bits after the last element are no part of the tensor.
    Tensor clean(dtype, {2, 5});
    if (bit_width(dtype) <= 64)
      for (std::int64_t e = 0; e < 10; ++e) store_bits(clean, e, element_bits(t, e));
    else
      clean = t;
    const std::string text = print_text(clean);
    EXPECT_TRUE(identical(tensor(text), clean)) << text;
  }
  const Tensor strings = Tensor::strings({3}, {"", "a\"\\\n\t", std::string("\0\xff", 2)});
  EXPECT_TRUE(identical(tensor(print_text(strings)), strings));
}

TEST(Text, Attributes) {
  auto parsed =
      parse_text_attributes(R"(<i = 1, f = 1.0, g: float = 2, s = "x", l = [1, 2], m = [1, 2.5], n: floats = [1], e: ints = [], o = [],
      es: strings = [], ss = ["a", "b"], t = float[2] {1, 2}, r: int = @outer, u = @other, p: type_proto = float[N], q = g (float[1] a) => (b) { b = Abs (a) },
      w = inf, z = [int64 {1}, float {2}], "odd name" = 3>)",
                            "a");
  ASSERT_TRUE(parsed.ok()) << error_of(parsed.status());
  const auto get = [&](const char* name) -> const Attribute& { return *find_attribute(*parsed, name); };
  EXPECT_EQ(get("i").i(), 1);
  EXPECT_EQ(get("f").f(), 1.0f);
  EXPECT_EQ(get("g").f(), 2.0f);
  EXPECT_EQ(get("s").s(), "x");
  EXPECT_EQ(get("l").ints(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(get("m").floats(), (std::vector<float>{1, 2.5}));
  EXPECT_EQ(get("n").floats(), (std::vector<float>{1}));
  EXPECT_TRUE(get("e").ints().empty());
  EXPECT_EQ(get("o").type, AttributeType::kInts);
  EXPECT_TRUE(get("es").strings().empty());
  EXPECT_EQ(get("t").t().size(), 2);
  EXPECT_EQ(get("r").ref, "outer");
  EXPECT_EQ(get("r").type, AttributeType::kInt);
  EXPECT_EQ(get("u").type, AttributeType::kUndefined);
  EXPECT_EQ(get("p").type, AttributeType::kTypeProto);
  EXPECT_EQ(get("q").g().nodes.size(), 1u);
  EXPECT_TRUE(std::isinf(get("w").f()));
  EXPECT_EQ(std::get<std::vector<Tensor>>(get("z").value).size(), 2u);
  EXPECT_EQ(get("odd name").i(), 3);
  for (const Attribute& a : *parsed) {
    auto again = parse_text_attributes(print_text(a), "b");
    ASSERT_TRUE(again.ok()) << print_text(a) << ": " << error_of(again.status());
    EXPECT_EQ(print_text((*again)[0]), print_text(a));
  }
  EXPECT_FALSE(parse_text_attributes("a = 1, a = 2", "t").ok());
  EXPECT_FALSE(parse_text_attributes("a: int = \"x\"", "t").ok());
  EXPECT_FALSE(parse_text_attributes("a = [1, \"x\"]", "t").ok());
  EXPECT_FALSE(parse_text_attributes("a: number = 1", "t").ok());
  EXPECT_FALSE(parse_text_attributes("a = 99999999999999999999", "t").ok());
}

TEST(Text, Nodes) {
  auto nodes = parse_text_nodes(R"({
    [n1] Z = Add (X, Y)   # a comment
    ["odd name"] "x.1", , S = com.microsoft.Foo:v2 <k = 1> (X, , "M.2", "")
    = Sink <> (X)
    Q = "my-domain"."Op-1" () <k = 2>
    R = ai.onnx.Abs (X,,)
  })",
                                "rules");
  ASSERT_TRUE(nodes.ok()) << error_of(nodes.status());
  ASSERT_EQ(nodes->size(), 5u);
  EXPECT_EQ((*nodes)[0].name, "n1");
  const Node& foo = (*nodes)[1];
  EXPECT_EQ(foo.name, "odd name");
  EXPECT_EQ(foo.outputs, (std::vector<std::string>{"x.1", "", "S"}));
  EXPECT_EQ(foo.inputs, (std::vector<std::string>{"X", "", "M.2", ""}));
  EXPECT_EQ(foo.domain, "com.microsoft");
  EXPECT_EQ(foo.op_type, "Foo");
  EXPECT_EQ(foo.overload, "v2");
  EXPECT_TRUE((*nodes)[2].outputs.empty());
  EXPECT_EQ((*nodes)[3].domain, "my-domain");
  EXPECT_EQ((*nodes)[3].op_type, "Op-1");
  EXPECT_TRUE((*nodes)[3].inputs.empty());
  EXPECT_EQ((*nodes)[3].attributes.size(), 1u);
  EXPECT_EQ((*nodes)[4].domain, "");
  EXPECT_EQ((*nodes)[4].inputs.size(), 3u);
  for (const Node& n : *nodes) {
    auto again = parse_text_nodes(print_text(n), "again");
    ASSERT_TRUE(again.ok()) << print_text(n) << error_of(again.status());
    EXPECT_EQ(print_text((*again)[0]), print_text(n));
  }
}

TEST(Text, ErrorsHaveAPlace) {
  const auto place = [](const char* text) { return error_of(parse_text_nodes(text, "f.txt").status()); };
  EXPECT_EQ(place("{\n  Y = Add (X, Y\n}"), "f.txt:3:1: expected ',' or ')'");
  EXPECT_EQ(place("Y = (X)").substr(0, 10), "f.txt:1:5:");
  EXPECT_EQ(place("Y = Add (X) $").substr(0, 37), "f.txt:1:13: unexpected character '$'");
  EXPECT_EQ(place("Y = Add <a = \"x> (X)").substr(0, 12), "f.txt:1:14: ");
  EXPECT_FALSE(place("{ Y = Add (X)").empty());
}

TEST(Text, NestingIsBounded) {
  std::string deep, types;
  for (int i = 0; i < 100000; ++i) deep += "Y = If <b = g () => (Y) {";
  EXPECT_NE(error_of(parse_text_nodes(deep, "deep").status()).find("nested more than"), std::string::npos);
  for (int i = 0; i < 100000; ++i) types += "seq(";
  EXPECT_NE(error_of(parse_text_type(types, "deep").status()).find("nested more than"), std::string::npos);
  EXPECT_FALSE(parse_text_attributes("a = " + std::string(100000, '['), "deep").ok());
}

TEST(Text, ModelsReadPrintAndRead) {
  const char* text = R"(<
  ir_version: 10,
  opset_import: ["" : 21, "com.microsoft" : 1, "local" : 1, "my-domain" : 2],
  producer_name: "someone", producer_version: "1.0", domain: "d", model_version: 7,
  doc_string: "says \"hi\" with \\ and
two lines",
  metadata_props: ["k": "v", "k2": ""]
>
"main graph" (float[N,3] x, float["batch size",?] "y.1", bool c, seq(float[N]) s, float[2] given = {1.0, 2.0}) => (float[N,3] out, z)
<float[2] w = {1.5, -0.0}, int4[3] q = {1, 2, -3}, float[N,3] t>
{
  t = local.f:v2 <a: float = 2.0> (x)
  ["the if"] out = If (c) <then_branch = yes () => (float[N,3] o) { o = Add (t, x) }, else_branch = no () => (o) <float[1] k = {nan}> { o = Mul (t, k) }>
  z = "my-domain".Op (x, , "y.1", w, q, given)
}
<domain: "local", overload: "v2", opset_import: ["" : 21]>
f <b, a: float = 1.0> (X) => (Y) { T = Relu (X)  Y = Elu <alpha: float = @a> (T) }
)";
  auto model = parse_model_text(text, "m.onnxtxt");
  ASSERT_TRUE(model.ok()) << error_of(model.status());
  EXPECT_EQ(model->opset(""), 21);
  EXPECT_EQ(model->graph.name, "main graph");
  ASSERT_EQ(model->graph.nodes.size(), 3u);
  EXPECT_EQ(model->graph.initializers.size(), 3u);
  EXPECT_EQ(model->graph.inputs.size(), 5u);
  EXPECT_EQ(model->graph.value_info.size(), 1u);
  ASSERT_EQ(model->functions.size(), 1u);
  EXPECT_EQ(model->functions[0].attributes, (std::vector<std::string>{"b"}));
  EXPECT_EQ(model->functions[0].attribute_defaults[0].f(), 1.0f);
  const std::string printed = print_model_text(*model);
  auto again = parse_model_text(printed, "again");
  ASSERT_TRUE(again.ok()) << error_of(again.status()) << printed;
  EXPECT_EQ(print_model_text(*again), printed);
  // By way of the binary form nothing changes either.
  auto bytes = serialize_model(*model);
  ASSERT_TRUE(bytes.ok());
  auto binary = parse_model(*bytes, "");
  ASSERT_TRUE(binary.ok()) << error_of(binary.status());
  EXPECT_EQ(print_model_text(*binary), printed);
}

TEST(Text, ModelErrors) {
  const auto error = [](std::string_view text) {
    auto m = parse_model_text(text, "m");
    EXPECT_FALSE(m.ok()) << text;
    return m.ok() ? "" : error_of(m.status());
  };
  EXPECT_EQ(error("<ir_version: 8>\ng (float x) =>\n (y\"z) { }").substr(0, 6), "m:3:4:");  // a stray quote
  EXPECT_NE(
      error("<ir_version: 8, opset_import: [\"\": 17]> g (float x) => (float y) { y = Add (x, nope) }").find("'nope' is defined nowhere"),
      std::string::npos);
  EXPECT_NE(error("<ir_version: 8, opset_import: [\"\": 17]> g (float x) => (float y) { y = Add (x, z) z = Abs (y) }").find("cycle"),
            std::string::npos);
  EXPECT_NE(error("<ir_vers: 8> g () => () { }").find("'ir_vers' is no key of a model"), std::string::npos);
  EXPECT_NE(error("<opset_import: [\"\": 0]> g () => () { }").find("below 1"), std::string::npos);
  EXPECT_FALSE(error("").empty());
  EXPECT_FALSE(error("g").empty());
}

// Prefixes of a model and models with one character changed: an error or a model, never a crash.
TEST(Text, DamagedTextIsSurvived) {
  const std::string text =
      R"(<ir_version: 8, opset_import: ["" : 17, "l":1]> g (float[N] x, seq(int4[2]) s) => (y) <float[2] w = {1.5, nan}> {
    [n] y = l.f <a: float = 1.5, b = [1, 2], t = int8[1] {3}, g = h () => (z) { z = Abs (x) }> (x, w) } <domain: "l", opset_import: ["":17]> f <a> (x, w) => (y) { y = Elu <alpha: float = @a> (x) })";
  int good = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) good += parse_model_text(text.substr(0, i), "p").ok();
  for (std::size_t i = 0; i < text.size(); ++i)
    for (char c : {'\0', '"', '(', '}', '9', 'x', '-'}) {
      std::string damaged = text;
      damaged[i] = c;
      good += parse_model_text(damaged, "p").ok();
    }
  EXPECT_GT(good, 1);
}

TEST(Text, EverythingReadsBack) {
  auto model = parse_model(testing::everything_model().SerializeAsString(), "");
  ASSERT_TRUE(model.ok()) << error_of(model.status());
  const std::string text = print_model_text(*model);
  auto again = parse_model_text(text, "everything");
  ASSERT_TRUE(again.ok()) << error_of(again.status());
  EXPECT_EQ(print_model_text(*again), text);
  ASSERT_EQ(again->graph.initializers.size(), model->graph.initializers.size());
  for (const Initializer& i : model->graph.initializers)
    for (const Initializer& j : again->graph.initializers)
      if (i.name == j.name) {
        EXPECT_TRUE(identical(i.tensor, j.tensor)) << i.name;
        EXPECT_EQ(i.sparse, j.sparse);
      }
  auto bytes = serialize_model(*again);
  ASSERT_TRUE(bytes.ok());
  auto binary = parse_model(*bytes, "");
  ASSERT_TRUE(binary.ok()) << error_of(binary.status());
  EXPECT_EQ(print_model_text(*binary), text);
}

TEST(Text, EveryModelOfTheZooReadsBack) {
  const std::filesystem::path data = SATURATE_SOURCE_DIR "/../shared/data";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "no models at " << data;
  int seen = 0;
  for (const char* part : {"spellings", "ort_suite"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(data / part)) {
      if (entry.path().extension() != ".onnx" || entry.file_size() > 200'000) continue;
      auto model = load_model(entry.path().string());
      if (!model.ok()) continue;
      ++seen;
      const std::string text = print_model_text(*model);
      auto again = parse_model_text(text, entry.path().filename().string());
      ASSERT_TRUE(again.ok()) << error_of(again.status());
      EXPECT_EQ(print_model_text(*again), text) << entry.path();
    }
  EXPECT_GT(seen, 50);
}

}  // namespace
}  // namespace saturate
