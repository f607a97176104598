#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "onnx_bridge/facts/facts.h"

namespace saturate {
namespace {

using Kind = Facts::Kind;

class Infer : public ::testing::Test {
 protected:
  Facts tensor(const std::string& shape, DType dtype = DType::kFloat) {  // "B,S,768"; "" rank 0; "*" unknown rank
    Facts f;
    f.kind = Kind::kTensor;
    f.dtype = dtype;
    if (shape == "*") return f;
    f.shape = list(shape);
    return f;
  }
  std::vector<Dim> list(const std::string& text) {
    std::vector<Dim> all;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t comma = std::min(text.find(',', at), text.size());
      const std::string word = text.substr(at, comma - at);
      all.push_back(std::isdigit(static_cast<unsigned char>(word[0])) || word[0] == '-' ? dims.constant(std::stoll(word))
                                                                                        : dims.symbol(word));
      at = comma + 1;
    }
    return all;
  }
  // An int64 tensor of rank 1 of this content.
  Facts shape(const std::string& content) {
    Facts f = tensor("", DType::kInt64);
    f.content = list(content);
    f.shape = std::vector<Dim>{dims.constant(static_cast<std::int64_t>(f.content->size()))};
    return f;
  }
  Facts ints(const std::vector<std::int64_t>& v) { return facts_of_tensor(Tensor::vector_int64(v), dims); }
  Facts scalar(std::int64_t v) { return facts_of_tensor(Tensor::scalar_int64(v), dims); }
  Facts absent() {
    Facts f;
    f.kind = Kind::kAbsent;
    return f;
  }
  std::vector<Facts> all(const std::string& op, std::vector<Facts> inputs, std::vector<Attribute> attributes = {}, int outputs = 1,
                         const std::string& domain = "") {
    Node node;
    node.op_type = op;
    node.domain = domain;
    node.attributes = std::move(attributes);
    std::vector<const Facts*> pointers;
    for (const Facts& f : inputs) pointers.push_back(&f);
    InferContext context{dims, [this](int o, int a) {
                           auto [it, added] = made.try_emplace({o, a});
                           if (added) it->second = dims.fresh("u");
                           return it->second;
                         }};
    auto out = infer(node, pointers, outputs, context);
    made.clear();
    error = out.ok() ? "" : std::string(out.status().message());
    return out.ok() ? *std::move(out) : std::vector<Facts>{};
  }
  Facts one(const std::string& op, std::vector<Facts> inputs, std::vector<Attribute> attributes = {}, const std::string& domain = "") {
    auto out = all(op, std::move(inputs), std::move(attributes), 1, domain);
    return out.empty() ? Facts{} : out[0];
  }
  std::string text(const Facts& f) { return to_string(f, dims); }
  DimTable dims;
  std::map<std::pair<int, int>, Dim> made;
  std::string error;
};

TEST_F(Infer, BroadcastingNeverGuesses) {
  EXPECT_EQ(text(one("Add", {tensor("B,S,768"), tensor("768")})), "float[B, S, 768]");
  EXPECT_EQ(text(one("Add", {tensor("B,1,S"), tensor("T,1")})), "float[B, T, S]");
  EXPECT_EQ(text(one("Mul", {tensor("S"), tensor("T")})), "float[broadcast(S, T)]");
  EXPECT_FALSE(dims.equal(dims.symbol("S"), dims.symbol("T")));
  EXPECT_EQ(text(one("Add", {tensor("S"), tensor("5")})), "float[5]");
  EXPECT_FALSE(dims.equal(dims.symbol("S"), dims.constant(5)));
  EXPECT_EQ(text(one("Add", {tensor("0"), tensor("1")})), "float[0]");
  EXPECT_EQ(text(one("Add", {tensor(""), tensor("")})), "float[]");
  EXPECT_EQ(text(one("Add", {tensor("*"), tensor("3")})), "float[...]");
  one("Add", {tensor("2"), tensor("3")});
  EXPECT_NE(error, "");
  one("Add", {tensor("2"), tensor("2", DType::kInt64)});
  EXPECT_NE(error, "");
}

TEST_F(Infer, ReshapeSolvesTheMinusOne) {
  EXPECT_EQ(text(one("Reshape", {tensor("B,S,768"), shape("B,S,-1,64")})), "float[B, S, 12, 64]");
  EXPECT_EQ(text(one("Reshape", {tensor("B,S,768"), shape("0,0,12,64")})), "float[B, S, 12, 64]");
  EXPECT_EQ(text(one("Reshape", {tensor("B,12,S,64"), shape("-1,S,64")})), "float[12*B, S, 64]");
  EXPECT_EQ(text(one("Reshape", {tensor("B,S"), shape("-1")})), "float[B*S]");
  EXPECT_EQ(text(one("Reshape", {tensor(""), shape("1,1")})), "float[1, 1]");
  EXPECT_EQ(text(one("Reshape", {tensor("0,3"), shape("0,-1,3")}, {Attribute::of("allowzero", std::int64_t{1})})).substr(0, 9),
            "float[0, ");
  EXPECT_EQ(text(one("Reshape", {tensor("3,4"), shape("0,7")}, {Attribute::of("allowzero", std::int64_t{1})})), "unknown");
  EXPECT_NE(error, "");
  one("Reshape", {tensor("3,4"), shape("5,-1")});
  EXPECT_NE(error, "");
  one("Reshape", {tensor("3,4"), shape("-1,-1")});
  EXPECT_NE(error, "");
  const Facts open = one("Reshape", {tensor("B,S"), tensor("3", DType::kInt64)});
  ASSERT_TRUE(open.has_rank());
  EXPECT_EQ(open.rank(), 3);
  EXPECT_FALSE(dims.equal((*open.shape)[0], (*open.shape)[1]));
}

TEST_F(Infer, BesideAMinusOneNoSizeIsZero) {
  one("Reshape", {tensor("N,S,768"), shape("N,12,-1,64")});
  EXPECT_TRUE(dims.positive(dims.symbol("N")));
  EXPECT_FALSE(dims.positive(dims.symbol("S")));
  one("Reshape", {tensor("N,T,768"), shape("0,0,12,64")});
  EXPECT_FALSE(dims.positive(dims.symbol("T")));
}

TEST_F(Infer, ReshapeTellsWhatAnUnknownDimIs) {
  one("Reshape", {tensor("U,768"), shape("B,S,768")});
  EXPECT_TRUE(dims.equal(dims.symbol("U"), dims.mul(dims.symbol("B"), dims.symbol("S"))));
}

TEST_F(Infer, ShapeComputationsAreFollowed) {
  const Facts x = tensor("B,S,768");
  const Facts s = one("Shape", {x});
  EXPECT_EQ(text(s), "int64[3] = {B, S, 768}");
  EXPECT_EQ(text(one("Shape", {x}, {Attribute::of("start", std::int64_t{-2}), Attribute::of("end", std::int64_t{-1})})), "int64[1] = {S}");
  const Facts b = one("Gather", {s, scalar(0)}), t = one("Gather", {s, scalar(-1)});
  EXPECT_EQ(text(b), "int64[] = {B}");
  EXPECT_EQ(text(t), "int64[] = {768}");
  const Facts b1 = one("Unsqueeze", {b, ints({0})}), half = one("Div", {t, scalar(12)});
  EXPECT_EQ(text(half), "int64[] = {64}");
  EXPECT_EQ(text(one("Concat", {b1, ints({-1, 12}), one("Unsqueeze", {half, ints({0})})}, {Attribute::of("axis", std::int64_t{0})})),
            "int64[4] = {B, -1, 12, 64}");
  EXPECT_EQ(text(one("Slice", {s, ints({1}), ints({INT64_MAX}), ints({0})})), "int64[2] = {S, 768}");
  EXPECT_EQ(text(one("Slice", {s, ints({-1}), ints({INT64_MIN}), ints({0}), ints({-1})})), "int64[3] = {768, S, B}");
  EXPECT_EQ(text(one("ReduceProd", {s}, {Attribute::of("keepdims", std::int64_t{0})})), "int64[] = {768*B*S}");
  EXPECT_EQ(text(one("Size", {x})), "int64[] = {768*B*S}");
  EXPECT_EQ(text(one("Cast", {s}, {Attribute::of("to", std::int64_t{6})})), "int32[3] = {B, S, 768}");
  EXPECT_EQ(text(one("Cast", {s}, {Attribute::of("to", std::int64_t{1})})), "float[3]");
  EXPECT_EQ(text(one("ConstantOfShape", {s})), "float[B, S, 768]");
  EXPECT_EQ(text(one("Expand", {tensor("S,1"), s})), "float[B, S, 768]");
  EXPECT_EQ(text(one("Tile", {tensor("B,4"), one("Slice", {s, ints({0}), ints({2})})})), "float[B*B, 4*S]");
  EXPECT_EQ(text(one("Range", {scalar(0), one("Gather", {s, scalar(1)}), scalar(1)})), "int64[S] counts from 0");
  EXPECT_EQ(text(one("Range", {scalar(5), scalar(-2), scalar(-3)})), "int64[3] = {5, 2, -1} constant");
  EXPECT_EQ(text(one("Range", {scalar(5), scalar(2), scalar(1)})), "int64[0] = {} constant");
}

TEST_F(Infer, TheExpandIdiomOfExporters) {  // Where(Equal(shape, -1), ones, shape)
  const Facts s = shape("B,1,S");
  const Facts equal = one("Equal", {s, ints({-1, -1, -1})});
  ASSERT_TRUE(equal.value.has_value());
  EXPECT_EQ(text(one("Where", {equal, ints({1, 1, 1}), s})), "int64[3] = {B, 1, S}");
  EXPECT_TRUE(equal.constant);
  EXPECT_FALSE(one("Equal", {s, ints({2, 1, 1})}).value.has_value());  // B may be 2
  EXPECT_FALSE(one("Where", {one("Equal", {s, ints({2, 1, 1})}), ints({1, 1, 1}), s}).content.has_value());
}

TEST_F(Infer, IntegersWrapAndAreNotFollowed) {
  EXPECT_FALSE(one("Mul", {scalar(INT64_MAX), scalar(2)}).content.has_value());
  EXPECT_FALSE(one("Div", {shape("S"), ints({0})}).content.has_value());
  EXPECT_EQ(text(one("Div", {ints({-7}), ints({2})})), "int64[1] = {-3} constant");
  EXPECT_EQ(text(one("Mod", {ints({-7}), ints({2})})), "int64[1] = {1} constant");
}

TEST_F(Infer, Slices) {
  const Facts x = tensor("B,S,64");
  EXPECT_EQ(text(one("Slice", {x, ints({0}), ints({32}), ints({2})})), "float[B, S, 32]");
  EXPECT_EQ(text(one("Slice", {x, ints({-32}), ints({INT32_MAX}), ints({-1})})), "float[B, S, 32]");
  EXPECT_EQ(text(one("Slice", {x, ints({0}), shape("S"), ints({1})})), "float[B, S, 64]");
  EXPECT_EQ(text(one("Slice", {x, one("Neg", {shape("S")}), ints({INT64_MAX}), ints({1})})), "float[B, S, 64]");
  EXPECT_EQ(text(one("Slice", {x, ints({1}), ints({INT64_MAX}), ints({1})})), "float[B, S - min(S, 1), 64]");
  EXPECT_EQ(text(one("Slice", {x, ints({0}), ints({-1}), ints({1})})), "float[B, max(0, S - 1), 64]");
  EXPECT_EQ(text(one("Slice", {x, ints({63}), ints({INT64_MIN}), ints({2}), ints({-2})})), "float[B, S, 32]");
  EXPECT_EQ(text(one("Slice", {tensor("10"), ints({4}), ints({2})})), "float[0]");
  EXPECT_EQ(one("Slice", {x, tensor("1", DType::kInt64), ints({4}), ints({1})}).rank(), 3);
  one("Slice", {x, ints({0}), ints({1}), ints({3})});
  EXPECT_NE(error, "");
}

TEST_F(Infer, SliceOfAConcatenationBySymbols) {
  const Facts total = one("Concat", {tensor("B,P,64"), tensor("B,S,64")}, {Attribute::of("axis", std::int64_t{1})});
  EXPECT_EQ(text(total), "float[B, P + S, 64]");
  EXPECT_EQ(text(one("Slice", {total, shape("P"), ints({INT64_MAX}), ints({1})})), "float[B, S, 64]");
}

TEST_F(Infer, ConcatMakesOtherDimsEqual) {
  one("Concat", {tensor("B,P,64"), tensor("C,S,64")}, {Attribute::of("axis", std::int64_t{-2})});
  EXPECT_TRUE(dims.equal(dims.symbol("B"), dims.symbol("C")));
  EXPECT_FALSE(dims.equal(dims.symbol("P"), dims.symbol("S")));
}

TEST_F(Infer, Products) {
  EXPECT_EQ(text(one("MatMul", {tensor("B,12,S,64"), tensor("B,12,64,T")})), "float[B, 12, S, T]");
  EXPECT_EQ(text(one("MatMul", {tensor("B,S,K"), tensor("K,N")})), "float[B, S, N]");
  EXPECT_EQ(text(one("MatMul", {tensor("3"), tensor("B,3,4")})), "float[B, 4]");
  EXPECT_EQ(text(one("MatMul", {tensor("3"), tensor("3")})), "float[]");
  one("MatMul", {tensor("2,3"), tensor("4,5")});
  EXPECT_NE(error, "");
  one("MatMul", {tensor("2,M"), tensor("7,5")});
  EXPECT_EQ(dims.value(dims.symbol("M")), 7);
  EXPECT_EQ(text(one("Gemm", {tensor("A,B"), tensor("N,B")}, {Attribute::of("transB", std::int64_t{1})})), "float[A, N]");
  EXPECT_EQ(text(one("Einsum", {tensor("B,I,D"), tensor("B,J,D")}, {Attribute::of("equation", std::string("bid,bjd->bij"))})),
            "float[B, I, J]");
  EXPECT_EQ(text(one("Einsum", {tensor("B,I,D"), tensor("D,J")}, {Attribute::of("equation", std::string("...d, dj"))})), "float[B, I, J]");
  EXPECT_EQ(text(one("Einsum", {tensor("3,3")}, {Attribute::of("equation", std::string("ii->"))})), "float[]");
}

TEST_F(Infer, ReductionsAndTheirAxes) {
  const auto keep = [](std::int64_t k) { return Attribute::of("keepdims", k); };
  EXPECT_EQ(text(one("ReduceMean", {tensor("B,S,64"), ints({-1})}, {keep(1)})), "float[B, S, 1]");
  EXPECT_EQ(text(one("ReduceMean", {tensor("B,S,64"), ints({-1, 0})}, {keep(0)})), "float[S]");
  EXPECT_EQ(text(one("ReduceSum", {tensor("B,S")}, {keep(0)})), "float[]");
  EXPECT_EQ(text(one("ReduceMin", {tensor("B,S"), ints({1})}, {keep(2)})), "float[B]");
  EXPECT_EQ(text(one("ReduceSum", {tensor("B,S"), ints({})}, {keep(1), Attribute::of("noop_with_empty_axes", std::int64_t{1})})),
            "float[B, S]");
  EXPECT_EQ(text(one("ReduceSum", {tensor("B,S"), ints({})}, {keep(1)})), "float[1, 1]");
  EXPECT_EQ(text(one("ArgMax", {tensor("B,S")}, {Attribute::of("axis", std::int64_t{-1}), keep(0)})), "int64[B]");
  EXPECT_EQ(text(one("Squeeze", {tensor("B,1,S")})), "float[...]");  // B or S may be 1
  EXPECT_EQ(text(one("Squeeze", {tensor("2,1,3")})), "float[2, 3]");
  EXPECT_EQ(text(one("Squeeze", {tensor("B,1,S"), ints({-2})})), "float[B, S]");
  one("Squeeze", {tensor("2,3"), ints({0})});
  EXPECT_NE(error, "");
}

TEST_F(Infer, WindowsSymbolically) {
  const Facts x = tensor("B,3,H,W"), w = tensor("8,3,16,16");
  const std::vector<Attribute> stride{Attribute::of("strides", std::vector<std::int64_t>{16, 16})};
  EXPECT_EQ(text(one("Conv", {x, w}, stride)), "float[B, 8, floor(H / 16), floor(W / 16)]");
  EXPECT_EQ(text(one("Conv", {tensor("B,4,5,5"), tensor("8,3,1,1")})), "unknown");
  EXPECT_NE(error, "");
  EXPECT_EQ(text(one("MaxPool", {tensor("1,2,5,5")},
                     {Attribute::of("kernel_shape", std::vector<std::int64_t>{2, 2}),
                      Attribute::of("strides", std::vector<std::int64_t>{2, 2}), Attribute::of("ceil_mode", std::int64_t{1})})),
            "float[1, 2, 3, 3]");
  EXPECT_EQ(text(one("ConvTranspose", {tensor("B,4,H"), tensor("4,6,3")}, {Attribute::of("strides", std::vector<std::int64_t>{2})})),
            "float[B, 6, 2*H + 1]");
}

TEST_F(Infer, ManyOutputs) {
  auto parts = all("Split", {tensor("B,S,7")}, {Attribute::of("axis", std::int64_t{-1}), Attribute::of("num_outputs", std::int64_t{3})}, 3);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(text(parts[0]), "float[B, S, 3]");
  EXPECT_EQ(text(parts[2]), "float[B, S, 1]");
  auto norm = all("LayerNormalization", {tensor("B,S,64", DType::kFloat16), tensor("64", DType::kFloat16)},
                  {Attribute::of("axis", std::int64_t{2})}, 3);
  EXPECT_EQ(text(norm[0]), "float16[B, S, 64]");
  EXPECT_EQ(text(norm[1]), "float[B, S, 1]");
  auto skip = all("SkipLayerNormalization", {tensor("B,S,64"), tensor("B,S,64"), tensor("64")}, {}, 4, "com.microsoft");
  EXPECT_EQ(text(skip[3]), "float[B, S, 64]");
  // Weights of com.microsoft's are the other way round; a bias and lengths are absent.
  for (const bool told : {true, false}) {
    std::vector<Attribute> attributes{Attribute::of("direction", std::string("bidirectional"))};
    if (told) attributes.push_back(Attribute::of("hidden_size", std::int64_t{256}));
    auto lstm = all("DynamicQuantizeLSTM", {tensor("T,B,128"), tensor("2,128,1024", DType::kInt8), tensor("2,256,1024", DType::kInt8)},
                    attributes, 3, "com.microsoft");
    EXPECT_EQ(text(lstm[0]), "float[T, 2, B, 256]");
    EXPECT_EQ(text(lstm[1]), "float[2, B, 256]");
    EXPECT_EQ(text(lstm[2]), "float[2, B, 256]");
  }
  auto top = all("TopK", {tensor("B,S"), ints({5})}, {Attribute::of("axis", std::int64_t{1})}, 2);
  EXPECT_EQ(text(top[1]), "int64[B, 5]");
}

TEST_F(Infer, Attention) {
  const Facts q = tensor("B,12,S,64"), k = tensor("B,12,T,64"), v = tensor("B,12,T,32");
  EXPECT_EQ(text(one("Attention", {q, k, v})), "float[B, 12, S, 32]");
  auto cached = all("Attention", {q, k, v, absent(), tensor("B,12,P,64"), tensor("B,12,P,32")}, {}, 3);
  EXPECT_EQ(text(cached[1]), "float[B, 12, T + P, 64]");
  EXPECT_EQ(text(one("Attention", {tensor("B,S,768"), tensor("B,T,384"), tensor("B,T,192")},
                     {Attribute::of("q_num_heads", std::int64_t{12}), Attribute::of("kv_num_heads", std::int64_t{6})})),
            "float[B, S, 384]");
  EXPECT_EQ(text(one("sdpa", {q, k, v}, {}, "saturate")), "float[B, 12, S, 32]");
  EXPECT_EQ(text(one("Attention", {tensor("B,S,64"), tensor("64,192"), tensor("192")}, {Attribute::of("num_heads", std::int64_t{4})},
                     "com.microsoft")),
            "float[B, S, 64]");
}

TEST_F(Infer, ConstantMeansCouldBeEvaluated) {
  EXPECT_TRUE(one("Neg", {ints({1})}).constant);
  EXPECT_FALSE(one("Add", {ints({1}), tensor("1", DType::kInt64)}).constant);
  EXPECT_FALSE(one("RandomNormalLike", {ints({1})}).constant);
  EXPECT_FALSE(one("NoSuchOperator", {ints({1})}).constant);
  EXPECT_FALSE(one("NoSuchOperator", {ints({1})}, {}, "org.example").constant);
  Facts yes = facts_of_tensor(Tensor::of<std::uint8_t>(DType::kBool, {}, std::vector<std::uint8_t>{1}), dims);
  EXPECT_FALSE(all("Dropout", {ints({1}), absent(), yes}, {}, 1)[0].constant);
  EXPECT_TRUE(all("Dropout", {ints({1})}, {}, 1)[0].constant);
}

TEST_F(Infer, Sequences) {
  Facts s = one("SplitToSequence", {tensor("B,6"), scalar(4)}, {Attribute::of("axis", std::int64_t{1})});
  EXPECT_EQ(s.kind, Kind::kSequence);
  EXPECT_EQ(text(one("SequenceAt", {s, scalar(1)})), "float[B, 2]");
  EXPECT_EQ(text(one("SequenceLength", {s})), "int64[] = {2}");
  const std::vector<Attribute> dropped = {Attribute::of("axis", std::int64_t{1}), Attribute::of("keepdims", std::int64_t{0})};
  EXPECT_EQ(text(one("SequenceAt", {one("SplitToSequence", {tensor("B,6"), scalar(1)}, dropped), scalar(1)})), "float[B]");
  EXPECT_EQ(text(one("SequenceAt", {one("SplitToSequence", {tensor("B,6"), scalar(4)}, dropped), scalar(1)})), "float[B, 2]");
  one("SequenceAt", {s, scalar(2)});
  EXPECT_NE(error, "");
}

TEST_F(Infer, UnknownStaysUnknown) {
  EXPECT_EQ(one("NoSuchOperator", {tensor("2")}, {}, "org.example").kind, Kind::kUnknown);
  const Facts nz = one("NonZero", {tensor("B,S")});
  EXPECT_EQ(dims.value((*nz.shape)[0]), 2);
  EXPECT_FALSE(dims.value((*nz.shape)[1]).has_value());
  EXPECT_EQ(text(one("Relu", {Facts{}})), "?[...]");
  EXPECT_EQ(text(one("Gather", {tensor("*"), ints({0})})), "float[...]");
}

TEST_F(Infer, JoiningFacts) {
  bool changed = false;
  std::string why;
  Facts a = tensor("B,S"), b = tensor("B,T");
  b.constant = true;
  EXPECT_TRUE(join_facts(a, b, dims, changed, why));
  EXPECT_TRUE(changed);
  EXPECT_TRUE(a.constant);
  EXPECT_TRUE(dims.equal(dims.symbol("S"), dims.symbol("T")));
  changed = false;
  EXPECT_TRUE(join_facts(a, b, dims, changed, why));
  EXPECT_FALSE(changed);
  Facts c = tensor("B,S", DType::kInt64);
  EXPECT_FALSE(join_facts(a, c, dims, changed, why));
  EXPECT_EQ(why, "dtype float and int64");
  Facts d = tensor("B");
  EXPECT_FALSE(join_facts(a, d, dims, changed, why));
  Facts e = tensor("2"), f = tensor("3");
  EXPECT_FALSE(join_facts(e, f, dims, changed, why));
  Facts g = shape("2,X"), h = shape("2,9");
  EXPECT_TRUE(join_facts(g, h, dims, changed, why));
  EXPECT_EQ(dims.value(dims.symbol("X")), 9);
}

TEST_F(Infer, CountsAlongTheLastAxis) {
  const auto from = [&](const Facts& f) { return f.counts_from ? dims.to_string(*f.counts_from) : "none"; };
  Facts length = scalar(0), past = scalar(0);
  length.value.reset();
  length.content = list("S");
  const Facts range = one("Range", {scalar(0), length, scalar(1)});
  EXPECT_EQ(from(range), "0");
  EXPECT_EQ(from(one("Range", {scalar(3), length, scalar(1)})), "3");
  EXPECT_EQ(from(one("Range", {scalar(0), length, scalar(2)})), "none");
  EXPECT_EQ(from(one("Add", {range, scalar(2)})), "2");
  EXPECT_EQ(from(one("Add", {scalar(2), range})), "2");
  EXPECT_EQ(from(one("Sub", {range, scalar(2)})), "-2");
  EXPECT_EQ(from(one("Sub", {scalar(2), range})), "none");
  past.value.reset();
  past.content = list("P");
  EXPECT_EQ(from(one("Add", {range, past})), "P");
  EXPECT_EQ(from(one("Expand", {range, shape("B,S")})), "0");
  EXPECT_EQ(from(one("Unsqueeze", {range, ints({0})})), "0");
  EXPECT_EQ(from(one("Unsqueeze", {range, ints({1})})), "none");
  EXPECT_EQ(from(one("Reshape", {range, shape("1,S")})), "0");
  EXPECT_EQ(from(one("Reshape", {one("Expand", {range, shape("B,S")}), shape("S,B")})), "none");
  EXPECT_EQ(from(one("Slice", {range, ints({1}), ints({1 << 30}), ints({0}), ints({1})})), "1");
  EXPECT_EQ(from(one("Slice", {range, ints({1}), ints({1 << 30}), ints({0}), ints({2})})), "none");
  EXPECT_EQ(from(one("Slice", {range, ints({-1}), ints({1 << 30}), ints({0}), ints({1})})), "none");
  EXPECT_EQ(from(ints({4, 5, 6})), "4");
  EXPECT_EQ(from(ints({4, 5, 5})), "none");
  const std::vector<std::int64_t> rows{1, 2, 1, 2}, odd{1, 2, 3, 4};
  EXPECT_EQ(from(facts_of_tensor(Tensor::of<std::int64_t>(DType::kInt64, {2, 2}, rows), dims)), "1");
  EXPECT_EQ(from(facts_of_tensor(Tensor::of<std::int64_t>(DType::kInt64, {2, 2}, odd), dims)), "none");
  // One counting element that broadcasting widens does not count any more.
  EXPECT_EQ(from(one("Expand", {ints({7}), ints({5})})), "none");
}

// Every operator with rules at small ranks of its inputs: whatever it says, it reads nothing that is not there.
TEST_F(Infer, OddRanksAreNoTrouble) {
  std::istringstream names(
      ":Abs :Acos :Acosh :Add :AffineGrid :And :ArgMax :ArgMin :Asin :Asinh :Atan :Atanh :Attention :AveragePool "
      ":BatchNormalization :Bernoulli :BitCast :BitShift :BitwiseAnd :BitwiseNot :BlackmanWindow :Cast :CastLike "
      ":CausalConvWithState :Ceil :Celu :CenterCropPad :Clip :Col2Im :Compress :Concat :ConcatFromSequence :Constant "
      ":ConstantOfShape :Conv :ConvInteger :ConvTranspose :Cos :Cosh :CumProd :CumSum :DFT :DeformConv :DepthToSpace "
      ":DequantizeLinear :Det :Div :Dropout :DynamicQuantizeLinear :Einsum :Elu :Equal :Erf :Exp :Expand :EyeLike :Flatten "
      ":Floor :GRU :Gather :GatherElements :GatherND :Gelu :Gemm :GlobalAveragePool :GlobalLpPool :GlobalMaxPool :Greater "
      ":GreaterOrEqual :GridSample :GroupNormalization :HammingWindow :HannWindow :HardSigmoid :HardSwish :Hardmax :Identity "
      ":InstanceNormalization :IsNaN :LRN :LSTM :LayerNormalization :LeakyRelu :Less :LessOrEqual :LinearAttention :Log "
      ":LogSoftmax :LpNormalization :LpPool :MatMul :MatMulInteger :Max :MaxPool :MaxRoiPool :MaxUnpool :Mean "
      ":MeanVarianceNormalization :MelWeightMatrix :Min :Mish :Mod :Mul :Multinomial :Neg :NegativeLogLikelihoodLoss "
      ":NonMaxSuppression :NonZero :Not :OneHot :OptionalGetElement :OptionalHasElement :Or :PRelu :Pad :Pow :QLinearConv "
      ":QLinearMatMul :QuantizeLinear :RMSNormalization :RNN :RandomNormal :RandomNormalLike :RandomUniform :RandomUniformLike "
      ":Range :Reciprocal :ReduceL1 :ReduceMax :ReduceMean :ReduceMin :ReduceProd :ReduceSum :RegexFullMatch :Relu :Reshape "
      ":Resize :ReverseSequence :RoiAlign :RotaryEmbedding :Round :STFT :Scatter :ScatterElements :ScatterND :Selu :SequenceAt "
      ":SequenceConstruct :SequenceEmpty :SequenceErase :SequenceInsert :SequenceLength :Shape :Shrink :Sigmoid :Sign "
      ":SimplifiedLayerNormalization :Sin :Sinh :Size :Slice :Softmax :SoftmaxCrossEntropyLoss :Softplus :Softsign "
      ":SpaceToDepth :Split :SplitToSequence :Sqrt :Squeeze :StringConcat :StringSplit :Sub :Sum :SwiGLU :Swish :Tan :Tanh "
      ":TensorScatter :ThresholdedRelu :Tile :TopK :Transpose :Trilu :Unique :Unsqueeze :Where :Xor com.microsoft:Attention "
      "com.microsoft:BiasAdd com.microsoft:BiasGelu com.microsoft:CausalConvWithState com.microsoft:DequantizeLinear "
      "com.microsoft:DynamicQuantizeLSTM com.microsoft:DynamicQuantizeMatMul com.microsoft:MoE com.microsoft:QMoE "
      "com.microsoft:EmbedLayerNormalization com.microsoft:FastGelu com.microsoft:FusedConv com.microsoft:FusedGemm "
      "com.microsoft:FusedMatMul com.microsoft:FusedMatMulActivation com.microsoft:Gelu com.microsoft:GroupNorm "
      "com.microsoft:GroupQueryAttention com.microsoft:Inverse com.microsoft:LayerNormalization "
      "com.microsoft:MatMulIntegerToFloat com.microsoft:MatMulNBits com.microsoft:MultiHeadAttention com.microsoft:QLinearAdd "
      "com.microsoft:QLinearLeakyRelu com.microsoft:QLinearMul com.microsoft:QLinearSigmoid com.microsoft:QLinearSoftmax "
      "com.microsoft:QuantizeLinear com.microsoft:QuickGelu com.microsoft:RotaryEmbedding "
      "com.microsoft:SimplifiedLayerNormalization com.microsoft:SkipGroupNorm com.microsoft:SkipLayerNormalization "
      "com.microsoft:SkipSimplifiedLayerNormalization com.microsoft:Trilu ");
  const std::vector<std::string> shapes{"", "3", "2,3", "2,3,4", "2,3,4,5", "2,3,4,5,6", "*"};
  for (std::string name; names >> name;) {
    const std::size_t colon = name.find(':');
    for (const std::size_t count : {0, 1, 2, 3, 5})
      for (const std::string& first : shapes)
        for (const std::string& others : shapes) {
          std::vector<Facts> inputs(count, tensor(others));
          if (count > 0) inputs[0] = tensor(first);
          for (const int outputs : {0, 1, 4}) all(name.substr(colon + 1), inputs, {}, outputs, name.substr(0, colon));
        }
  }
}

TEST_F(Infer, ElementsThatAreNotThere) {
  const Facts x = shape("A,B,C,D");
  const std::int64_t far = std::numeric_limits<std::int64_t>::max();
  one("Slice", {x, ints({1}), ints({3}), ints({0}), ints({far})});
  one("Slice", {x, ints({3}), ints({1}), ints({0}), ints({-far - 1})});
  one("Slice", {x, ints({1}), ints({}), ints({0}), ints({1})});
  one("Slice", {x, ints({1}), ints({3}), ints({0}), ints({})});
  one("Slice", {x, ints({1}), ints({3}), ints({}), ints({0})});
  one("GatherND", {tensor("2,3"), tensor("2,9223372036854775807")}, {Attribute::of("batch_dims", far)});
  one("Einsum", {tensor("2,3")}, {Attribute::of("equation", std::string("......->..."))});
  EXPECT_EQ(error, "Einsum: a term with two ellipses");
  one("ConvTranspose", {tensor("1,1,4,4"), tensor("1")});
  EXPECT_EQ(error, "ConvTranspose: input 1 has rank 1, not 4");
  one("STFT", {tensor(""), scalar(2)});
  EXPECT_EQ(error, "STFT: a signal of rank 0");
  EXPECT_EQ(all("Split", {tensor("4")}, {Attribute::of("num_outputs", far)}, 2).size(), 2u);
  one("MaxPool", {tensor("1,1,4")},
      {Attribute::of("kernel_shape", std::vector<std::int64_t>{2}), Attribute::of("strides", std::vector<std::int64_t>{2}),
       Attribute::of("pads", std::vector<std::int64_t>{-far - 1, 0}), Attribute::of("ceil_mode", std::int64_t{1})});
  one("SplitToSequence", {tensor("9223372036854775807"), scalar(std::int64_t{1} << 62)});
  one("Unsqueeze", {tensor("2"), ints(std::vector<std::int64_t>(600, 0))});
  EXPECT_NE(error, "");
}

}  // namespace
}  // namespace saturate
