// com.microsoft's quantized forms of float operators (ONNX Runtime ContribOperators): dequantize, run the float operator, quantize.
#include <algorithm>

#include "kernels/quantized/util.h"

namespace saturate {
namespace {

Node node_of(std::string_view op, std::string_view domain, std::size_t inputs, std::size_t outputs, std::vector<Attribute> attributes) {
  Node node;
  node.op_type = op;
  node.domain = domain;
  node.inputs.assign(inputs, "in");
  for (std::size_t k = 0; k < outputs; ++k) node.outputs.push_back("out" + std::to_string(k));
  node.attributes = std::move(attributes);
  return node;
}

constexpr std::int64_t kOpset = 13;

// Input `x` with its scale and zero point as floats.
absl::StatusOr<Value> dequantized(KernelContext& ctx, std::size_t x, std::size_t scale, std::size_t zero, std::int64_t axis = 1) {
  if (!ctx.is_tensor(x) || !ctx.is_tensor(scale)) return ctx.invalid("a tensor or its scale is absent");
  std::vector<Value> inputs = {ctx.inputs[x], ctx.inputs[scale]};
  if (ctx.has_input(zero)) {
    const Tensor& z = ctx.tensor(zero);
    if (z.size() != ctx.tensor(scale).size()) return ctx.invalid("scale and zero point differ in size");
    inputs.emplace_back(z.reshaped(ctx.tensor(scale).dims()));
  }
  Outputs out = ctx.host.run_node(node_of("DequantizeLinear", "", inputs.size(), 1, {Attribute::of("axis", axis)}), kOpset, inputs);
  if (!out.ok()) return out.status();
  return std::move(out->front());
}

Outputs quantized(KernelContext& ctx, const Value& real, std::size_t scale, std::size_t zero, DType dtype) {
  if (!ctx.is_tensor(scale)) return ctx.invalid("the scale of the result is absent");
  const Value z = ctx.has_input(zero) ? ctx.inputs[zero] : Value(Tensor(dtype, ctx.tensor(scale).dims()));
  return ctx.host.run_node(node_of("QuantizeLinear", "", 3, 1, {}), kOpset, {real, ctx.inputs[scale], z});
}

std::vector<Attribute> without(const Node& node, std::initializer_list<std::string_view> names) {
  std::vector<Attribute> out;
  for (const Attribute& a : node.attributes) {
    if (std::find(names.begin(), names.end(), a.name) == names.end()) out.push_back(a);
  }
  return out;
}

// X, its scale and zero point, the result's scale and zero point.
Outputs unary(KernelContext& ctx, std::string_view op, std::int64_t opset, std::vector<Attribute> attributes) {
  const auto x = dequantized(ctx, 0, 1, 2);
  if (!x.ok()) return x.status();
  const Outputs y = ctx.host.run_node(node_of(op, "", 1, 1, std::move(attributes)), opset, {*x});
  if (!y.ok()) return y;
  return quantized(ctx, y->front(), 3, 4, ctx.tensor(0).dtype());
}

Outputs qlinear_sigmoid(KernelContext& ctx) { return unary(ctx, "Sigmoid", kOpset, {}); }
Outputs qlinear_leaky_relu(KernelContext& ctx) { return unary(ctx, "LeakyRelu", kOpset, ctx.node.attributes); }
Outputs qlinear_reduce_mean(KernelContext& ctx) { return unary(ctx, "ReduceMean", kOpset, ctx.node.attributes); }
Outputs qlinear_softmax(KernelContext& ctx) { return unary(ctx, "Softmax", ctx.attr_i("opset", kOpset), without(ctx.node, {"opset"})); }

// Moves the channels of [n, ..., c] to the second place, or back.
Outputs move_channels(KernelContext& ctx, const Value& x, bool to_second) {
  std::vector<std::int64_t> perm;
  if (!x.is_tensor()) return ctx.invalid("an image is expected");
  const std::int64_t rank = x.tensor().rank();
  if (rank < 3) return ctx.invalid("an image is expected");
  for (std::int64_t k = 0; k < rank; ++k) perm.push_back(k);
  if (to_second)
    std::rotate(perm.begin() + 1, perm.end() - 1, perm.end());
  else
    std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
  return ctx.host.run_node(node_of("Transpose", "", 1, 1, {Attribute::of("perm", perm)}), kOpset, {x});
}

Outputs pooled(KernelContext& ctx, std::string_view op) {
  const bool last = ctx.attr_i("channels_last", 0) != 0;
  const auto x = dequantized(ctx, 0, 1, 2);
  if (!x.ok()) return x.status();
  Outputs y = last ? move_channels(ctx, *x, true) : Outputs(std::vector<Value>{*x});
  if (!y.ok()) return y;
  y = ctx.host.run_node(node_of(op, "", 1, 1, without(ctx.node, {"channels_last"})), kOpset, *y);
  if (!y.ok()) return y;
  if (last) y = move_channels(ctx, y->front(), false);
  if (!y.ok()) return y;
  return quantized(ctx, y->front(), 3, 4, ctx.tensor(0).dtype());
}

Outputs qlinear_average_pool(KernelContext& ctx) { return pooled(ctx, "AveragePool"); }
Outputs qlinear_global_average_pool(KernelContext& ctx) { return pooled(ctx, "GlobalAveragePool"); }

Outputs binary(KernelContext& ctx, std::string_view op) {
  const auto a = dequantized(ctx, 0, 1, 2), b = dequantized(ctx, 3, 4, 5);
  if (!a.ok()) return a.status();
  if (!b.ok()) return b.status();
  const Outputs c = ctx.host.run_node(node_of(op, "", 2, 1, {}), kOpset, {*a, *b});
  if (!c.ok()) return c;
  return quantized(ctx, c->front(), 6, 7, ctx.tensor(0).dtype());
}

Outputs qlinear_add(KernelContext& ctx) { return binary(ctx, "Add"); }
Outputs qlinear_mul(KernelContext& ctx) { return binary(ctx, "Mul"); }

Outputs qlinear_where(KernelContext& ctx) {
  const auto x = dequantized(ctx, 1, 2, 3), y = dequantized(ctx, 4, 5, 6);
  if (!x.ok()) return x.status();
  if (!y.ok()) return y.status();
  const Outputs z = ctx.host.run_node(node_of("Where", "", 3, 1, {}), 16, {ctx.inputs[0], *x, *y});
  if (!z.ok()) return z;
  return quantized(ctx, z->front(), 7, 8, ctx.tensor(1).dtype());
}

Outputs qlinear_concat(KernelContext& ctx) {
  if (ctx.inputs.size() < 5 || (ctx.inputs.size() - 2) % 3 != 0) return ctx.invalid("triples of tensor, scale and zero point are expected");
  std::vector<Value> parts;
  for (std::size_t i = 2; i < ctx.inputs.size(); i += 3) {
    auto part = dequantized(ctx, i, i + 1, i + 2);
    if (!part.ok()) return part.status();
    parts.push_back(*std::move(part));
  }
  const Outputs joined = ctx.host.run_node(node_of("Concat", "", parts.size(), 1, ctx.node.attributes), kOpset, parts);
  if (!joined.ok()) return joined;
  return quantized(ctx, joined->front(), 0, 1, ctx.tensor(2).dtype());
}

// QLinearConv on [n, ..., c] too.
Outputs microsoft_qlinear_conv(KernelContext& ctx) {
  const bool last = ctx.attr_i("channels_last", 0) != 0;
  std::vector<Value> inputs = ctx.inputs;
  if (inputs.empty()) return ctx.invalid("there is no input");
  if (last) {
    Outputs x = move_channels(ctx, inputs.front(), true);
    if (!x.ok()) return x;
    inputs.front() = std::move(x->front());
  }
  Outputs y = ctx.host.run_node(node_of("QLinearConv", "", inputs.size(), 1, without(ctx.node, {"channels_last"})), kOpset, inputs);
  if (!y.ok() || !last) return y;
  return move_channels(ctx, y->front(), false);
}

Outputs qattention(KernelContext& ctx) {
  const auto x = dequantized(ctx, 0, 3, 6), w = dequantized(ctx, 1, 4, 7);
  if (!x.ok()) return x.status();
  if (!w.ok()) return w.status();
  std::vector<Value> inputs = {*x, *w, ctx.inputs[2], ctx.has_input(5) ? ctx.inputs[5] : Value(),
                               ctx.has_input(8) ? ctx.inputs[8] : Value()};
  Node node = node_of("Attention", kMicrosoft, inputs.size(), static_cast<std::size_t>(std::max(ctx.num_outputs, 1)), ctx.node.attributes);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].present()) node.inputs[i].clear();
  }
  return ctx.host.run_node(node, 1, inputs);
}

Outputs qembed_layer_normalization(KernelContext& ctx) {
  if (!ctx.is_tensor(0)) return ctx.invalid("the ids are absent");
  std::vector<Value> inputs = {ctx.inputs[0], ctx.has_input(1) ? ctx.inputs[1] : Value()};
  for (std::size_t k = 0; k < 5; ++k) {  // word, position and segment embeddings, gamma, beta
    if (k == 2 && !ctx.has_input(4)) {
      inputs.emplace_back();
      continue;
    }
    auto t = dequantized(ctx, 2 + k, 8 + k, 13 + k);
    if (!t.ok()) return t.status();
    inputs.push_back(*std::move(t));
  }
  inputs.push_back(ctx.has_input(7) ? ctx.inputs[7] : Value());
  Node node = node_of("EmbedLayerNormalization", kMicrosoft, inputs.size(), 2, ctx.node.attributes);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].present()) node.inputs[i].clear();
  }
  return ctx.host.run_node(node, 1, inputs);
}

}  // namespace

void register_quant_contrib(Registry& registry) {
  registry.add(kMicrosoft, "QLinearSigmoid", qlinear_sigmoid);
  registry.add(kMicrosoft, "QLinearLeakyRelu", qlinear_leaky_relu);
  registry.add(kMicrosoft, "QLinearReduceMean", qlinear_reduce_mean);
  registry.add(kMicrosoft, "QLinearSoftmax", qlinear_softmax);
  registry.add(kMicrosoft, "QLinearAveragePool", qlinear_average_pool);
  registry.add(kMicrosoft, "QLinearGlobalAveragePool", qlinear_global_average_pool);
  registry.add(kMicrosoft, "QLinearAdd", qlinear_add);
  registry.add(kMicrosoft, "QLinearMul", qlinear_mul);
  registry.add(kMicrosoft, "QLinearWhere", qlinear_where);
  registry.add(kMicrosoft, "QLinearConcat", qlinear_concat);
  registry.add(kMicrosoft, "QLinearConv", microsoft_qlinear_conv);
  registry.add(kMicrosoft, "QAttention", qattention);
  registry.add(kMicrosoft, "QEmbedLayerNormalization", qembed_layer_normalization);
}

}  // namespace saturate
