#include <algorithm>

#include "kernels/attention/attention.h"
#include "kernels/core/registry.h"

namespace saturate {
namespace {

Node plain(std::string op, std::size_t inputs, std::vector<Attribute> attributes = {}) {
  Node node{"", std::move(op), "", "", {}, {"y"}, std::move(attributes), nullptr};
  for (std::size_t i = 0; i < inputs; ++i) node.inputs.push_back(std::string(1, static_cast<char>('a' + i)));
  return node;
}

// The operators one after another, as the model had them.
class OneByOne {
 public:
  explicit OneByOne(KernelContext& ctx) : ctx_(ctx) {}

  Outputs run() {
    const Value q = ordered(ctx_.inputs[0], "q", {0, 2, 1, 3}), v = ordered(ctx_.inputs[2], "v", {0, 2, 1, 3});
    Value k = ctx_.inputs[1];
    if (ctx_.attr_s("k", "") == "bshd") {
      k = ordered(k, "k", {0, 2, 3, 1});
    } else if (ctx_.attr_s("k", "") == "bhsd") {
      std::vector<std::int64_t> perm(k.tensor().dims().size());
      for (std::size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<std::int64_t>(i);
      if (perm.size() >= 2) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
      k = step(plain("Transpose", 1, {Attribute::of("perm", perm)}), {k});
    }
    Node product = plain("FusedMatMul", 2, {Attribute::of("alpha", ctx_.attr_f("scale", 1.0f))});
    product.domain = kMicrosoft;
    Value s = step(product, {q, k});
    if (ctx_.has_input(3)) s = step(plain("Add", 2), {s, ctx_.inputs[3]});
    s = step(plain("Softmax", 1, {Attribute::of("axis", ctx_.attr_i("axis", -1))}), {s});
    Value y = step(plain("MatMul", 2), {s, v});
    if (ctx_.attr_s("y", "") == "bshd")
      y = step(plain("Transpose", 1, {Attribute::of("perm", std::vector<std::int64_t>{0, 2, 1, 3})}), {y});
    if (!status_.ok()) return status_;
    return std::vector<Value>{y};
  }

 private:
  Value ordered(const Value& x, const char* name, std::vector<std::int64_t> perm) {
    return ctx_.attr_s(name, "") == "bshd" ? step(plain("Transpose", 1, {Attribute::of("perm", std::move(perm))}), {x}) : x;
  }
  Value step(const Node& node, const std::vector<Value>& inputs) {
    if (!status_.ok()) return {};
    Outputs out = ctx_.host.run_node(node, 18, inputs);
    if (!out.ok()) {
      status_ = out.status();
      return {};
    }
    return (*out)[0];
  }

  KernelContext& ctx_;
  absl::Status status_;
};

// [batch, heads, sequence, size] of a tensor of rank 3 or 4 whose dims are in this order.
struct HeadLayout {
  std::int64_t batch, heads, sequence, size;
  HeadsView<float> view;
  std::int64_t element = 1;
};

HeadLayout heads_of(const Tensor& t, const std::string& order) {
  Shape d = t.dims();
  if (d.size() == 3) d.insert(d.begin(), 1);
  if (order == "bshd") return {d[0], d[2], d[1], d[3], {t.data<float>(), d[1] * d[2] * d[3], d[3], d[2] * d[3]}};
  if (order == "bhds") return {d[0], d[1], d[3], d[2], {t.data<float>(), d[1] * d[2] * d[3], d[2] * d[3], 1}, d[3]};
  return {d[0], d[1], d[2], d[3], {t.data<float>(), d[1] * d[2] * d[3], d[2] * d[3], d[3]}};
}

bool is_plain(const KernelContext& ctx) {
  for (std::size_t i = 0; i < 3; ++i) {
    const Tensor& t = ctx.tensor(i);
    if (t.dtype() != DType::kFloat || t.rank() < 3 || t.rank() > 4 || t.rank() != ctx.tensor(0).rank() || t.size() == 0) return false;
  }
  for (const char* name : {"q", "k", "v", "y"})
    if (ctx.attr_s(name, "") == "bshd" && ctx.tensor(0).rank() != 4) return false;
  return normalize_axis(ctx.attr_i("axis", -1), ctx.tensor(0).rank()) == ctx.tensor(0).rank() - 1;
}

Outputs session_attention(KernelContext& ctx) {
  if (!is_plain(ctx)) return OneByOne(ctx).run();
  const HeadLayout q = heads_of(ctx.tensor(0), ctx.attr_s("q", "")), k = heads_of(ctx.tensor(1), ctx.attr_s("k", "")),
                   v = heads_of(ctx.tensor(2), ctx.attr_s("v", ""));
  const bool fit =
      q.batch == k.batch && q.batch == v.batch && q.heads == k.heads && q.heads == v.heads && q.size == k.size && k.sequence == v.sequence;
  if (!fit) return OneByOne(ctx).run();
  AttentionProblem<float> p;
  p.batch = q.batch;
  p.heads = p.kv_heads = q.heads;
  p.queries = q.sequence;
  p.keys = k.sequence;
  p.size = q.size;
  p.v_size = v.size;
  p.q = q.view;
  p.k = k.view;
  p.k_element = k.element;
  p.v = v.view;
  p.scale = static_cast<double>(ctx.attr_f("scale", 1.0f));
  p.zero_masked_rows = false;
  const bool rank3 = ctx.tensor(0).rank() == 3;
  if (ctx.has_input(3)) {
    const Tensor& mask = ctx.tensor(3);
    Shape scores{p.batch, p.heads, p.queries, p.keys};
    if (rank3) scores.erase(scores.begin());
    if (mask.dtype() != DType::kFloat || mask.rank() > static_cast<int>(scores.size()) || broadcast_shape(mask.dims(), scores) != scores)
      return OneByOne(ctx).run();
    Shape s = broadcast_strides(mask.dims(), scores);
    if (rank3) s.insert(s.begin(), 0);
    p.biases.push_back({mask.data<float>(), s[0], s[1], s[2], s[3]});
  }
  const bool swapped = ctx.attr_s("y", "") == "bshd";
  Shape dims = swapped ? Shape{p.batch, p.queries, p.heads, p.v_size} : Shape{p.batch, p.heads, p.queries, p.v_size};
  if (rank3) dims.erase(dims.begin());
  absl::StatusOr<Tensor> y = ctx.allocate(DType::kFloat, dims);
  if (!y.ok()) return y.status();
  p.out = write<float>(*y);
  p.out_batch = p.heads * p.queries * p.v_size;
  p.out_head = swapped ? p.v_size : p.queries * p.v_size;
  p.out_row = swapped ? p.heads * p.v_size : p.v_size;
  attend(ctx, p);
  return outputs_of(*std::move(y));
}

}  // namespace

// Operator "Attention" of kSessionDomain: Q, K, V, and the mask where there is one. Attributes: `scale`; `axis`, of the softmax; `q`, `k`,
// `v`, `y`: the orders of their dims, "bhsd" (batch, head, sequence, size; of rank 3: bsd), "bshd", or for k "bhds".
void register_session_attention(Registry& registry) { registry.add(kSessionDomain, "Attention", session_attention); }

}  // namespace saturate
