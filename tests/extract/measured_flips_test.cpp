// The shipped table of ONNX Runtime's times must tell which fusion pays at which size: ratios of whole chains of operators as they were
// timed end to end (six copies in a row, one thread, hidden size 768, 12 heads of 64), apart from the table.
#include "flips.h"

namespace saturate::flips {
namespace {

std::vector<Flip> flips_of_norms(double rows, bool decode) {
  const Shape x{1, rows, 768}, w{768}, mean{1, rows, 1};
  const std::vector<OpUse> add{same("Add", x)}, norm{use("LayerNormalization", {x, w, w}, x, {1, 2})};
  const std::vector<OpUse> rms{use("SimplifiedLayerNormalization", {x, w}, x, {1})};
  const std::vector<OpUse> standard_rms{use("RMSNormalization", {x, w}, x, {1})};
  const std::vector<OpUse> spelled{same("Mul", x),      reduce("ReduceMean", x), use("Add", {mean, {1}}, mean, {1}),
                                   unary("Sqrt", mean), by_row("Div", x),        by_weight("Mul", x)};
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
  const OpUse quick_gelu = use("com.microsoft::QuickGelu", {narrow}, narrow, {}, {Attribute::of("alpha", 1.702F)});
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
          {"QuickGelu of its parts",
           rows,
           decode ? 0.80 : 1.02,
           {scalar("Mul", narrow), unary("Sigmoid", narrow), same("Mul", narrow)},
           {quick_gelu}},
          {"SiLU", rows, decode ? 0.68 : 0.67, {unary("Sigmoid", x), same("Mul", x)}, {silu}},
          {"Div by a constant to Mul", rows, decode ? 0.79 : 0.45, {scalar("Div", narrow)}, {scalar("Mul", narrow)}},
          {"Pow 2 to Mul",
           rows,
           decode ? 0.81 : 0.70,
           {scalar("Pow", narrow), unary("Tanh", narrow)},
           {same("Mul", narrow), unary("Tanh", narrow)}}};
}

OpUse split(const Shape& x, std::size_t parts) {
  Shape y = x;
  y.back() /= static_cast<double>(parts);
  OpUse u = use("Split", {x, {static_cast<double>(parts)}}, y, {1}, {Attribute::of("axis", std::int64_t{2})});
  u.outputs.assign(parts, y);
  return u;
}

std::vector<Flip> flips_of_softmax(double rows, double measured) {
  const Shape x{1, 12, rows, rows};
  return {{"Softmax of its parts",
           rows,
           measured,
           {reduce("ReduceMax", x), by_row("Sub", x), unary("Exp", x), reduce("ReduceSum", x), by_row("Div", x)},
           {unary("Softmax", x)}}};
}

std::vector<Flip> flips_of_rotation(double rows, double measured) {
  const Shape x{1, 12, rows, 64}, half{1, 12, rows, 32}, table{1, 1, rows, 64}, narrow{1, rows, 32};
  const OpUse cut = use("Slice", {x, {1}, {1}, {1}, {1}}, half, {1, 2, 3, 4}), by_table = use("Mul", {x, table}, x);
  const OpUse joined = use("Concat", {half, half}, x, {}, {Attribute::of("axis", std::int64_t{3})});
  const std::vector<OpUse> spelled{cut, cut, unary("Neg", half), joined, by_table, by_table, same("Add", x)};
  return {{"RotaryEmbedding of its parts", rows, measured, spelled, {use("RotaryEmbedding", {x, narrow, narrow}, x)}}};
}

std::vector<Flip> flips_of_products(double rows, bool decode) {
  const Shape x{1, rows, 768}, w{768, 3072}, y{1, rows, 3072};
  const OpUse expand = use("MatMul", {x, w}, y, {1});
  OpUse dequantize = use("DequantizeLinear", {w, {1}, {1}}, w, {0, 1, 2});
  dequantize.dtype = "int8", dequantize.element_bytes = 1;
  const std::vector<OpUse> biased{expand, by_weight("Add", y)};
  const OpUse gemm = use("Gemm", {{rows, 768}, w, {3072}}, {rows, 3072}, {1, 2});
  const OpUse transposed =
      use("Gemm", {{rows, 768}, {3072, 768}, {3072}}, {rows, 3072}, {1, 2}, {Attribute::of("transB", std::int64_t{1})});
  const OpUse flattened = use("Reshape", {x, {2}}, {rows, 768}, {1}), back = use("Reshape", {{rows, 3072}, {3}}, y, {1});
  const OpUse query = product(x, 768), packed = product(x, 2304), half = product(x, 2048), gate = product(x, 4096);
  const std::vector<OpUse> queries{query, query, query};
  const std::vector<OpUse> gated{unary("com.microsoft::QuickGelu", {1, rows, 2048}), same("Mul", {1, rows, 2048})};
  return {{"Gemm of MatMul and Add", rows, decode ? 0.91 : 0.99, biased, {gemm}},
          {"Gemm with transposed weights", rows, decode ? 0.94 : 0.99, biased, {transposed}},
          {"Gemm between Reshapes", rows, decode ? 0.93 : 0.995, biased, {flattened, gemm, back}},
          {"one product for Q, K and V", rows, decode ? 0.97 : 1.005, queries, {packed, split(packed.outputs[0], 3)}},
          {"one product for gate and up", rows, decode ? 0.99 : 1.01, std::vector{half, half} + gated,
           std::vector{gate, split(gate.outputs[0], 2)} + gated},
          {"DequantizeLinear of a weight", rows, decode ? 2.21 : 1.26, {expand}, {dequantize, expand}},
          {"FusedMatMul of constant weights",
           rows,
           1.0,
           {expand},
           {use("com.microsoft::FusedMatMul", {x, w}, y, {1}, {Attribute::of("alpha", 0.125F)})}}};
}

// Both forms do the same product: what decides is how the bias is added, a few percent, timed in turns (one thread, weights of 16 to 40
// layers).
TEST(MeasuredFlips, BiasWithinAProductIsNearlyAsDearAsBeside) {
  struct Timed {
    double rows, inner, columns, gemm;  // Reshape, Gemm and Reshape / MatMul and Add
  };
  const auto times = load_op_times("measured");
  ASSERT_TRUE(times.ok()) << times.status();
  for (const Timed& t : {Timed{1, 768, 768, 1.02}, Timed{16, 768, 768, 1.0}, Timed{128, 64, 256, 0.94}, Timed{128, 768, 768, 0.998},
                         Timed{128, 3072, 768, 0.974}, Timed{784, 192, 768, 0.978}, Timed{1500, 512, 512, 0.948},
                         Timed{3136, 96, 384, 0.964}, Timed{3136, 384, 96, 0.971}, Timed{4096, 96, 96, 0.930}}) {
    const Shape x{1, t.rows, t.inner}, flat{t.rows, t.inner}, y{1, t.rows, t.columns}, bias{t.columns};
    const auto seconds = [&](const OpUse& u) { return (*times)->seconds(u); };
    const double beside = seconds(product(x, t.columns)) + seconds(by_weight("Add", y));
    const double views = 2 * seconds(use("Reshape", {x, {2}}, flat, {1}));
    const double within = seconds(use("Gemm", {flat, {t.inner, t.columns}, bias}, {t.rows, t.columns}, {1, 2}));
    const OpUse turned =
        use("Gemm", {flat, {t.columns, t.inner}, bias}, {t.rows, t.columns}, {1, 2}, {Attribute::of("transB", std::int64_t{1})});
    EXPECT_NEAR((views + within) / beside, t.gemm, 0.045) << t.rows << " x " << t.inner << " x " << t.columns;
    EXPECT_EQ(seconds(turned), within);  // weights are packed at load
  }
}

TEST(MeasuredFlips, FusionsPayAndLoseAsTimedEndToEnd) {
  std::vector<Flip> flips;
  for (const std::vector<Flip>& more :
       {flips_of_norms(1, true), flips_of_norms(128, false), flips_of_activations(1, true), flips_of_activations(128, false),
        flips_of_products(1, true), flips_of_products(128, false), flips_of_softmax(128, 0.54), flips_of_softmax(512, 0.45),
        flips_of_rotation(1, 0.35), flips_of_rotation(128, 0.32)})
    flips.insert(flips.end(), more.begin(), more.end());
  expect_as_timed(flips);
}

}  // namespace
}  // namespace saturate::flips
