#include "rules/evaluate/eval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "rules/evaluate/functions.h"
#include "rules/terms/rule.h"

namespace saturate {
namespace {

// Facts of a few named values: X float[B, S, 12, 64]; Y float[B, S, 768]; c a constant; shape an int64[4] of content [B, S, 12, 64].
class Source : public FactSource {
 public:
  const Facts& facts(Id id) const override { return facts_[id]; }
  std::optional<Tensor> value(Id id, std::size_t) const override { return facts_[id].value; }
  DimTable& dims() const override { return dims_; }

  Id tensor(DType dtype, std::vector<Dim> shape) {
    Facts f;
    f.kind = Facts::Kind::kTensor;
    f.dtype = dtype;
    f.shape = std::move(shape);
    facts_.push_back(f);
    return static_cast<Id>(facts_.size() - 1);
  }
  Id unknown() { return facts_.emplace_back(), static_cast<Id>(facts_.size() - 1); }
  Id constant(const Tensor& t) {
    std::vector<Dim> shape;
    for (std::int64_t d : t.dims()) shape.push_back(dims_.constant(d));
    const Id id = tensor(t.dtype(), shape);
    facts_[id].constant = true;
    facts_[id].value = t;
    return id;
  }
  mutable DimTable dims_;
  std::vector<Facts> facts_;
};

class Eval : public testing::Test {
 protected:
  void SetUp() override {
    const Dim b = source_.dims_.symbol("B"), s = source_.dims_.symbol("S");
    const auto n = [&](std::int64_t v) { return source_.dims_.constant(v); };
    bind("X", source_.tensor(DType::kFloat, {b, s, n(12), n(64)}));
    bind("Y", source_.tensor(DType::kFloat, {b, s, n(768)}));
    bind("H", source_.tensor(DType::kFloat16, {b, n(1)}));
    bind("U", source_.unknown());
    const float half[] = {0.5f};
    bind("c", source_.constant(Tensor::of<float>(DType::kFloat, {1}, half)));
    const float row[] = {1, 1, 1};
    bind("ones", source_.constant(Tensor::of<float>(DType::kFloat, {3}, row)));
    const std::int64_t axes[] = {-1, 2};
    bind("axes", source_.constant(Tensor::vector_int64(axes)));
    const Id shape = source_.tensor(DType::kInt64, {n(4)});
    source_.facts_[shape].content = std::vector<Dim>{b, s, n(12), n(64)};
    bind("shape", shape);
    environment_.set("p", Val::ints(std::vector<std::int64_t>{0, 2, 1, 3}));
    environment_.set("q", Val::ints(std::vector<std::int64_t>{1, 0, 2, 3}));
    environment_.set("t", Val(std::int64_t{1}));
    environment_.set("a", Val(-3));
  }
  void bind(std::string_view name, Id id) { environment_.set(name, Val(ClassRef{id})); }

  // "true", "false", the value, or "no: reason".
  std::string eval(const std::string& text) {
    const auto file = parse_rules(
        "rule r <p, q, t, a> (X, Y, H, U, c, ones, axes, shape) => (Z) { Z = test.f <p = @p, q = @q, t = @t, a = @a> (X, Y, H, U, c, "
        "ones, axes, shape) } where " +
            text + " => { Z = Identity (X) }",
        "t");
    if (!file.ok()) return std::string(file.status().message());
    EvalContext context(source_, environment_, true);
    const Result r = context.evaluate(*file->rules[0].where[0]);
    return r ? context.show(*r) : "no: " + context.reason();
  }
  Source source_;
  Environment environment_;
};

TEST_F(Eval, Arithmetic) {
  EXPECT_EQ(eval("7 // 2"), "3");
  EXPECT_EQ(eval("-7 // 2"), "-4");
  EXPECT_EQ(eval("-7 % 3"), "2");
  EXPECT_EQ(eval("7 / 2"), "3.5");
  EXPECT_EQ(eval("2 ** 10"), "1024");
  EXPECT_EQ(eval("64 ** -0.5"), "0.125");
  EXPECT_EQ(eval("1 // 0"), "no: 1 // 0 has no value");
  EXPECT_EQ(eval("9223372036854775807 + 1"), "no: 9223372036854775807 + 1 overflows");
  EXPECT_EQ(eval("(-9223372036854775807 - 1) // -1"), "no: -9223372036854775808 // -1 overflows");
  EXPECT_EQ(eval("rsqrt(dim(X, -1))"), "0.125");
  EXPECT_EQ(eval("[integer_min(int8), integer_max(int8), integer_min(uint4), integer_max(uint16)]"), "[-128, 127, 0, 65535]");
  EXPECT_EQ(eval("[1, 2] + [3]"), "[1, 2, 3]");
}

TEST_F(Eval, WhatNothingDecidesIsUnproven) {
  EXPECT_TRUE(eval("rank(U) == 4").starts_with("no: ")) << eval("rank(U) == 4");
  EXPECT_TRUE(eval("not rank(U) == 4").starts_with("no: "));
  EXPECT_EQ(eval("unproven(rank(U) == 4)"), "true");
  EXPECT_EQ(eval("unproven(rank(X) == 4)"), "false");
  EXPECT_EQ(eval("unproven(rank(X) == 3)"), "true");
}

TEST_F(Eval, DimsAreCompletelySymbolic) {
  EXPECT_EQ(eval("shape(X)"), "[B, S, 12, 64]");
  EXPECT_EQ(eval("shape(X)[1:-1]"), "[S, 12]");
  EXPECT_EQ(eval("dim(X, 0) * dim(X, 3)"), "64*B");
  EXPECT_EQ(eval("size(Y) / dim(Y, 2) == dim(X, 0) * dim(X, 1)"), "true");
  EXPECT_EQ(eval("dim(X, 0) == dim(Y, 0)"), "true");
  EXPECT_EQ(eval("dim(X, 0) + 1 == dim(Y, 0)"), "false");
  EXPECT_EQ(eval("dim(X, 0) == dim(X, 1)"), "no: nothing decides whether B equals S");
  EXPECT_EQ(eval("not dim(X, 0) == dim(X, 1)"), "no: nothing decides whether B equals S");
  EXPECT_EQ(eval("dim(X, 0) < dim(X, 0) + 1"), "true");
  EXPECT_EQ(eval("dim(X, 0) >= 0"), "true");
  EXPECT_EQ(eval("shape == shape(X)"), "true");
  EXPECT_EQ(eval("split_heads(Y, X)"), "true");
  EXPECT_EQ(eval("merge_heads(X, Y)"), "true");
  EXPECT_EQ(eval("split_heads(X, Y)"), "false");
  EXPECT_EQ(eval("reshaped(X, [0, 0, -1])"), "[B, S, 768]");
  EXPECT_EQ(eval("moves_only_ones([dim(X, 0), 1, 12, dim(X, 1)], p)"), "true");  // p = [0, 2, 1, 3]
  EXPECT_EQ(eval("moves_only_ones([dim(X, 0), 5, 12, 64], p)"), "false");
  EXPECT_EQ(eval("moves_only_ones(shape(X), p)"), "no: nothing decides whether dims of [B, S, 12, 64] are 1");
}

TEST_F(Eval, UnknownsDecideNothing) {
  EXPECT_EQ(eval("rank(U)"), "no: the rank of unknown is unknown");
  EXPECT_EQ(eval("rank(U) == 3 or true"), "true");
  EXPECT_EQ(eval("rank(U) == 3 and false"), "false");
  EXPECT_EQ(eval("rank(U) == 3 or false").substr(0, 3), "no:");
  EXPECT_EQ(eval("float(U)").substr(0, 3), "no:");
}

TEST_F(Eval, ConstantsAndDtypes) {
  EXPECT_EQ(eval("item(c)"), "0.5");
  EXPECT_EQ(eval("scale_ratio(c, c, c)"), "0.5");
  EXPECT_EQ(eval("scale_ratio(c, ones)"), "2");
  EXPECT_EQ(eval("scale_ratio(c, H) < 1e300"), "false");  // no constant, no float
  EXPECT_EQ(eval("is_product(c, c, ones)"), "true");
  EXPECT_EQ(eval("[whole_reciprocal(c), whole_reciprocal(scalar_like(0.3, X))]"), "[true, false]");
  EXPECT_EQ(eval("is_product(ones, c, c)"), "false");
  EXPECT_EQ(eval("all_equal(middle(4, [3, 3]), 8)"), "true");
  EXPECT_EQ(eval("all_equal(from_bytes(to_bytes(middle(4, [3, 5]), 0, [5, 2]), 4, [5, 3]), 8)"), "true");
  EXPECT_EQ(eval("all_equal(to_bytes(filled(-8, [3, 4], int4), 1, [3, 1, 2]), 0)"), "true");
  EXPECT_EQ(eval("from_bytes(filled(1, [3], uint8), 4, [3, 5])").substr(0, 3), "no:");
  EXPECT_EQ(eval("const(c, ones)"), "true");
  EXPECT_EQ(eval("const(X)"), "false");
  EXPECT_EQ(eval("all_ones(ones)"), "true");
  EXPECT_EQ(eval("all_ones(c)"), "false");
  EXPECT_EQ(eval("all_zeros(X)").substr(0, 3), "no:");
  EXPECT_EQ(eval("scalar(c)"), "true");
  EXPECT_EQ(eval("scalar(c, X)"), "true");
  EXPECT_EQ(eval("scalar(ones)"), "false");
  EXPECT_EQ(eval("dtype(X) == @t"), "true");
  EXPECT_EQ(eval("dtype(H) == float16"), "true");
  EXPECT_EQ(eval("lossless(H, float)"), "true");
  EXPECT_EQ(eval("lossless(X, H)"), "false");
  EXPECT_EQ(eval("lossless(bfloat16, float16)"), "false");
  EXPECT_EQ(eval("lossless(int32, float)"), "false");
  EXPECT_EQ(eval("lossless(int32, double)"), "true");
  EXPECT_EQ(eval("lossless(uint8, int8)"), "false");
  EXPECT_EQ(eval("lossless(int8, uint8)"), "false");
  EXPECT_EQ(eval("len(axes)"), "2");
  EXPECT_EQ(eval("axes_of(axes, X)"), "[2, 3]");
  EXPECT_EQ(eval("trailing(axes, X)"), "true");
  EXPECT_EQ(eval("trailing([-2], rank(X))"), "false");
  EXPECT_EQ(eval("axes_of([4], X)"), "no: [4] are no axes of rank 4");
}

TEST_F(Eval, Permutations) {
  EXPECT_EQ(eval("compose(p, q)"), "[2, 0, 1, 3]");
  EXPECT_EQ(eval("inverse(compose(p, q)) == compose(inverse(q), inverse(p))"), "true");
  EXPECT_EQ(eval("identity_perm(compose(p, inverse(p)))"), "true");
  EXPECT_EQ(eval("swaps_last_two(p)"), "false");
  EXPECT_EQ(eval("swap_last_two(3)"), "[0, 2, 1]");
  EXPECT_EQ(eval("compose(p, [0, 1])"), "no: [0, 2, 1, 3] and [0, 1] permute different numbers of axes");
  EXPECT_EQ(eval("inverse([0, 0])"), "no: [0, 0] is no permutation");
  EXPECT_EQ(eval("permute(shape(X), p)"), "[B, 12, S, 64]");
}

TEST_F(Eval, Broadcasting) {
  EXPECT_EQ(eval("broadcasts_to(c, X)"), "true");
  EXPECT_EQ(eval("broadcasts_to(X, c)"), "false");
  EXPECT_EQ(eval("broadcasts_to(ones, X)"), "false");
  EXPECT_EQ(eval("broadcasts_to(H, [dim(X, 0), 5])"), "true");
  EXPECT_EQ(eval("broadcasts_to([dim(X, 1)], X)").substr(0, 3), "no:");
  EXPECT_EQ(eval("broadcast([dim(X, 0), 1], [7, 1, 64])"), "[7, B, 64]");
  EXPECT_EQ(eval("broadcast([dim(X, 0), 1], [7, 64])"), "no: nothing says how B and 7 broadcast");
  EXPECT_EQ(eval("broadcast(X, [1, 1])"), "[B, S, 12, 64]");
}

TEST_F(Eval, IndexingAndSlicing) {
  EXPECT_EQ(eval("shape(X)[-1]"), "64");
  EXPECT_EQ(eval("shape(X)[4]"), "no: [B, S, 12, 64] has no element 4");
  EXPECT_EQ(eval("shape(X)[-9:99]"), "[B, S, 12, 64]");
  EXPECT_EQ(eval("shape(X)[3:1]"), "[]");
  EXPECT_EQ(eval("shape[2]"), "12");
  EXPECT_EQ(eval("rank(X)[0]"), "no: 4 is no list");
}

TEST(Functions, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const auto functions :
       {fact_functions(), list_functions(), shape_functions(), number_functions(), constant_functions(), range_functions()})
    for (const RuleFunction& f : functions) EXPECT_TRUE(names.insert(f.name).second) << f.name;
}

}  // namespace
}  // namespace saturate
