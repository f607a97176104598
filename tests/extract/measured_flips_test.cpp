// The shipped table of ONNX Runtime's times must tell which fusion pays at which size: ratios of whole chains of operators as they were
// timed end to end (six copies in a row, one thread, hidden size 768, 12 heads of 64), apart from the table.
#include "extract/op_times.h"
#include "gtest/gtest.h"

namespace saturate {
namespace {

using Shape = Sizes1D;

OpUse use(std::string op, std::vector<Shape> inputs, Shape output, std::vector<std::size_t> constants = {},
          std::vector<Attribute> attributes = {}) {
  OpUse u;
  u.op = std::move(op);
  u.constant.assign(inputs.size(), 0);
  for (const std::size_t i : constants) u.constant[i] = 1;
  u.inputs = std::move(inputs);
  u.outputs = {std::move(output)};
  u.attributes = std::move(attributes);
  return u;
}

OpUse unary(const std::string& op, const Shape& x) { return use(op, {x}, x); }
OpUse same(const std::string& op, const Shape& x) { return use(op, {x, x}, x); }
OpUse scalar(const std::string& op, const Shape& x) { return use(op, {x, {1}}, x, {1}); }
OpUse by_weight(const std::string& op, const Shape& x) { return use(op, {x, {x.back()}}, x, {1}); }
OpUse row_mean(const Shape& x) { return use("ReduceMean", {x, {1}}, {1, x[1], 1}, {1}, {Attribute::of("keepdims", std::int64_t{1})}); }
OpUse by_mean(const std::string& op, const Shape& x) { return use(op, {x, {1, x[1], 1}}, x); }

struct Flip {
  std::string name;
  double rows, measured;  // after / before
  std::vector<OpUse> before, after;
};

std::vector<OpUse> operator+(std::vector<OpUse> a, const std::vector<OpUse>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<Flip> flips_of_norms(double rows, bool decode) {
  const Shape x{1, rows, 768}, w{768}, mean{1, rows, 1};
  const std::vector<OpUse> add{same("Add", x)}, norm{use("LayerNormalization", {x, w, w}, x, {1, 2})};
  const std::vector<OpUse> rms{use("SimplifiedLayerNormalization", {x, w}, x, {1})};
  const std::vector<OpUse> standard_rms{use("RMSNormalization", {x, w}, x, {1})};
  const std::vector<OpUse> spelled{same("Mul", x),      row_mean(x),       use("Add", {mean, {1}}, mean, {1}),
                                   unary("Sqrt", mean), by_mean("Div", x), by_weight("Mul", x)};
  OpUse skip = use("com.microsoft::SkipLayerNormalization", {x, x, w, w, w}, x, {2, 3, 4});
  skip.outputs = {x, mean, mean, x};
  OpUse skip_rms = use("com.microsoft::SkipSimplifiedLayerNormalization", {x, x, w}, x, {2});
  const std::vector<OpUse> skip_plain{use("com.microsoft::SkipLayerNormalization", {x, x, w, w}, x, {2, 3})};
  return {{"SkipLayerNormalization", rows, decode ? 2.18 : 6.6, add + norm, skip_plain},
          {"SkipLayerNormalization with bias and sum", rows, decode ? 1.91 : 5.2, add + std::vector{by_weight("Add", x)} + norm, {skip}},
          {"SkipSimplifiedLayerNormalization", rows, decode ? 1.20 : 2.1, add + rms, {skip_rms}},
          {"SkipSimplifiedLayerNormalization of a spelled RMSNorm", rows, decode ? 0.63 : 1.20, add + spelled, {skip_rms}},
          {"SimplifiedLayerNormalization of a spelled one", rows, decode ? 0.37 : 0.32, spelled, rms},
          {"RMSNormalization of a spelled one", rows, decode ? 0.37 : 0.32, spelled, standard_rms}};
}

std::vector<Flip> flips_of_activations(double rows, bool decode) {
  const Shape x{1, rows, 3072}, narrow{1, rows, 768};
  const std::vector<OpUse> gelu{unary("com.microsoft::Gelu", x)};
  const OpUse silu = use("com.microsoft::QuickGelu", {x}, x, {}, {Attribute::of("alpha", 1.0F)});
  const OpUse tanh_gelu = use("Gelu", {x}, x, {}, {Attribute::of("approximate", std::string("tanh"))});
  const std::vector<OpUse> cube{scalar("Pow", x), scalar("Mul", x), same("Add", x), scalar("Mul", x),
                                unary("Tanh", x), scalar("Add", x), same("Mul", x), scalar("Mul", x)};
  return {{"Gelu of an erf chain",
           rows,
           decode ? 0.53 : 0.6,
           {scalar("Div", x), unary("Erf", x), scalar("Add", x), same("Mul", x), scalar("Mul", x)},
           gelu},
          {"BiasGelu", rows, decode ? 0.96 : 1.05, std::vector{by_weight("Add", x)} + gelu, {by_weight("com.microsoft::BiasGelu", x)}},
          {"FastGelu of a tanh chain", rows, decode ? 0.33 : 0.38, cube, {unary("com.microsoft::FastGelu", x)}},
          {"Gelu by tanh of a tanh chain", rows, decode ? 0.33 : 0.38, cube, {tanh_gelu}},
          {"SiLU", rows, decode ? 0.68 : 0.67, {unary("Sigmoid", x), same("Mul", x)}, {silu}},
          {"Div by a constant to Mul", rows, decode ? 0.79 : 0.45, {scalar("Div", narrow)}, {scalar("Mul", narrow)}},
          {"Pow 2 to Mul",
           rows,
           decode ? 0.81 : 0.70,
           {scalar("Pow", narrow), unary("Tanh", narrow)},
           {same("Mul", narrow), unary("Tanh", narrow)}}};
}

std::vector<Flip> flips_of_products(double rows, bool decode) {
  const Shape x{1, rows, 768}, w{768, 3072}, y{1, rows, 3072};
  const OpUse product = use("MatMul", {x, w}, y, {1});
  OpUse dequantize = use("DequantizeLinear", {w, {1}, {1}}, w, {0, 1, 2});
  dequantize.dtype = "int8", dequantize.element_bytes = 1;
  return {{"Gemm of MatMul and Add",
           rows,
           decode ? 0.91 : 0.99,
           {product, by_weight("Add", y)},
           {use("Gemm", {{rows, 768}, w, {3072}}, {rows, 3072}, {1, 2})}},
          {"DequantizeLinear of a weight", rows, decode ? 2.21 : 1.26, {product}, {dequantize, product}},
          {"FusedMatMul of constant weights",
           rows,
           1.0,
           {product},
           {use("com.microsoft::FusedMatMul", {x, w}, y, {1}, {Attribute::of("alpha", 0.125F)})}}};
}

std::vector<Flip> flips_of_attention(double rows, double measured_multi_head, double measured_standard) {
  const Shape flat{1, rows, 768}, split{1, rows, 12, 64}, q{1, 12, rows, 64}, k{1, 12, 64, rows}, p{1, 12, rows, rows};
  const std::vector<std::int64_t> heads_first{0, 2, 1, 3}, keys_last{0, 2, 3, 1};
  const auto moved = [&](const Shape& from, const Shape& to, const std::vector<std::int64_t>& perm) {
    return use("Transpose", {from}, to, {}, {Attribute::of("perm", perm)});
  };
  const std::vector<OpUse> core{use("com.microsoft::FusedMatMul", {q, k}, p, {}, {Attribute::of("alpha", 0.125F)}), unary("Softmax", p),
                                use("MatMul", {p, q}, q)};
  const std::vector<OpUse> spelled = std::vector{moved(split, q, heads_first), moved(split, k, keys_last), moved(split, q, heads_first)} +
                                     core + std::vector{moved(q, split, heads_first)};
  const OpUse multi_head =
      use("com.microsoft::MultiHeadAttention", {flat, flat, flat}, flat, {}, {Attribute::of("num_heads", std::int64_t{12})});
  const OpUse standard = use("Attention", {flat, flat, flat}, flat, {},
                             {Attribute::of("q_num_heads", std::int64_t{12}), Attribute::of("kv_num_heads", std::int64_t{12})});
  return {{"MultiHeadAttention", rows, measured_multi_head, spelled, {multi_head}},
          {"Attention", rows, measured_standard, spelled, {standard}}};
}

TEST(MeasuredFlips, FusionsPayAndLoseAsTimedEndToEnd) {
  const auto times = load_op_times("measured");
  ASSERT_TRUE(times.ok()) << times.status();
  const auto sum = [&](const std::vector<OpUse>& uses) {
    double s = 0;
    for (const OpUse& u : uses) s += (*times)->seconds(u);
    return s;
  };
  std::vector<Flip> flips = flips_of_attention(128, 1.08, 0.97);
  for (std::vector<Flip> more :
       {flips_of_norms(1, true), flips_of_norms(128, false), flips_of_activations(1, true), flips_of_activations(128, false),
        flips_of_products(1, true), flips_of_products(128, false), flips_of_attention(512, 1.00, 0.99)})
    flips.insert(flips.end(), more.begin(), more.end());
  for (const Flip& f : flips) {
    const double predicted = sum(f.after) / sum(f.before);
    RecordProperty(f.name + " " + std::to_string(static_cast<int>(f.rows)), std::to_string(predicted));
    if (f.measured > 1.25) {
      EXPECT_GT(predicted, 1.05) << f.name << " at " << f.rows << " rows, measured " << f.measured;
    } else if (f.measured < 0.85) {
      EXPECT_LT(predicted, 0.95) << f.name << " at " << f.rows << " rows, measured " << f.measured;
    } else {
      EXPECT_NEAR(predicted, f.measured, 0.25) << f.name << " at " << f.rows << " rows";
    }
  }
}

}  // namespace
}  // namespace saturate
