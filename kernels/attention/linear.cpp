// LinearAttention-27 (ONNX spec: the recurrent form), com.microsoft's with fewer query or key heads than value heads, and ai.onnx.preview
// FlexAttention-1.
#include <cmath>

#include "kernels/attention/attention.h"
#include "kernels/linear/matmul.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

struct Recurrence {
  std::int64_t batch = 0, length = 0, q_heads = 0, k_heads = 0, kv_heads = 0, dk = 0, dv = 0, decay_size = 0, beta_size = 0;
  bool delta = false;
  double scale = 1;
  const double *q = nullptr, *k = nullptr, *v = nullptr, *decay = nullptr, *beta = nullptr;
};

// One key/value head of one batch entry: the state S [dk, dv] through time, read by the query heads that share it.
void run_head(const Recurrence& r, std::int64_t b, std::int64_t h, double* state, double* out) {
  std::vector<double> correction(static_cast<std::size_t>(r.dv));
  const std::int64_t group = std::max<std::int64_t>(1, r.q_heads / r.kv_heads), out_heads = std::max(r.q_heads, r.kv_heads);
  for (std::int64_t t = 0; t < r.length; ++t) {
    const std::int64_t bt = b * r.length + t;
    const double* k = r.k + (bt * r.k_heads + h * r.k_heads / r.kv_heads) * r.dk;
    const double* v = r.v + (bt * r.kv_heads + h) * r.dv;
    if (r.decay != nullptr) {
      for (std::int64_t i = 0; i < r.dk; ++i) {
        const double g = std::exp(r.decay_size == r.kv_heads ? r.decay[bt * r.kv_heads + h] : r.decay[(bt * r.kv_heads + h) * r.dk + i]);
        for (std::int64_t j = 0; j < r.dv; ++j) state[i * r.dv + j] *= g;
      }
    }
    const double beta = r.beta == nullptr ? 1.0 : r.beta[bt * r.beta_size + (r.beta_size == 1 ? 0 : h)];
    for (std::int64_t j = 0; j < r.dv; ++j) {
      double seen = 0;
      if (r.delta) {
        for (std::int64_t i = 0; i < r.dk; ++i) seen += state[i * r.dv + j] * k[i];
      }
      correction[static_cast<std::size_t>(j)] = beta * (v[j] - seen);
    }
    for (std::int64_t i = 0; i < r.dk; ++i) {
      for (std::int64_t j = 0; j < r.dv; ++j) state[i * r.dv + j] += k[i] * correction[static_cast<std::size_t>(j)];
    }
    for (std::int64_t n = h * group; n < (h + 1) * group; ++n) {
      const double* q = r.q + (bt * r.q_heads + n * r.q_heads / out_heads) * r.dk;
      double* o = out + (bt * out_heads + n) * r.dv;
      for (std::int64_t j = 0; j < r.dv; ++j) {
        double sum = 0;
        for (std::int64_t i = 0; i < r.dk; ++i) sum += q[i] * state[i * r.dv + j];
        o[j] = sum * r.scale;
      }
    }
  }
}

absl::StatusOr<Recurrence> recurrence_of(const KernelContext& ctx) {
  Recurrence r;
  const Tensor &q = ctx.tensor(0), &k = ctx.tensor(1), &v = ctx.tensor(2);
  r.q_heads = ctx.attr_i("q_num_heads", 0);
  r.kv_heads = ctx.attr_i("kv_num_heads", 0);
  if (q.rank() != 3 || k.rank() != 3 || v.rank() != 3) return ctx.invalid("query, key and value must be of rank 3");
  const bool shares = ctx.node.domain == kMicrosoft;  // a query or key head may serve several value heads
  if (ctx.attr_i("state_window", 0) != 0) return absl::UnimplementedError("LinearAttention with a window of states");
  if (r.kv_heads < 1 || r.q_heads < 1 || q.dims()[2] % r.q_heads != 0 || v.dims()[2] % r.kv_heads != 0 ||
      (r.q_heads % r.kv_heads != 0 && !(shares && r.kv_heads % r.q_heads == 0)))
    return ctx.invalid("the head counts do not fit");
  r.batch = q.dims()[0], r.length = q.dims()[1], r.dk = q.dims()[2] / r.q_heads, r.dv = v.dims()[2] / r.kv_heads;
  r.k_heads = shares && r.dk > 0 ? k.dims()[2] / r.dk : r.kv_heads;
  if (r.k_heads < 1 || r.kv_heads % r.k_heads != 0) return ctx.invalid("the head counts do not fit");
  if (k.dims() != Shape{r.batch, r.length, r.k_heads * r.dk} || v.dims()[0] != r.batch || v.dims()[1] != r.length)
    return ctx.invalid("query, key and value do not fit");
  const std::string rule = ctx.attr_s("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta";
  r.delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !r.delta && rule != "linear") return ctx.invalid("unknown update_rule");
  if (gated != ctx.has_input(4) || r.delta != ctx.has_input(5)) return ctx.invalid("decay or beta does not belong to the update_rule");
  if (gated) r.decay_size = ctx.tensor(4).rank() == 3 ? ctx.tensor(4).dims()[2] : 0;
  if (r.delta) r.beta_size = ctx.tensor(5).rank() == 3 ? ctx.tensor(5).dims()[2] : 0;
  if (gated && (r.decay_size != r.kv_heads && r.decay_size != r.kv_heads * r.dk)) return ctx.invalid("decay has the wrong shape");
  if (r.delta && (r.beta_size != 1 && r.beta_size != r.kv_heads)) return ctx.invalid("beta has the wrong shape");
  if (gated && ctx.tensor(4).size() != r.batch * r.length * r.decay_size) return ctx.invalid("decay has the wrong shape");
  if (r.delta && ctx.tensor(5).size() != r.batch * r.length * r.beta_size) return ctx.invalid("beta has the wrong shape");
  r.scale = ctx.attr_f("scale", 0.0f) == 0.0f ? 1.0 / std::sqrt(static_cast<double>(r.dk)) : static_cast<double>(ctx.attr_f("scale", 0.0f));
  return r;
}

Outputs linear_attention(KernelContext& ctx) {
  absl::StatusOr<Recurrence> r = recurrence_of(ctx);
  if (!r.ok()) return r.status();
  std::array<std::vector<double>, 5> stores;
  std::size_t next = 0;
  for (auto [input, pointer] : {std::pair<std::size_t, const double**>(0, &r->q), {1, &r->k}, {2, &r->v}, {4, &r->decay}, {5, &r->beta}}) {
    std::vector<double>& store = stores[next++];
    if (!ctx.has_input(input)) continue;
    absl::StatusOr<const double*> data = as_compute<double>(ctx, ctx.tensor(input), store);
    if (!data.ok()) return data.status();
    *pointer = *data;
  }
  const Shape state_dims{r->batch, r->kv_heads, r->dk, r->dv};
  std::vector<double> state(static_cast<std::size_t>(product(state_dims)), 0.0);
  if (ctx.has_input(3)) {
    if (ctx.tensor(3).dims() != state_dims) return ctx.invalid("past_state has the wrong shape");
    std::vector<double> store;
    absl::StatusOr<const double*> data = as_compute<double>(ctx, ctx.tensor(3), store);
    if (!data.ok()) return data.status();
    std::copy_n(*data, state.size(), state.data());
  }
  const std::int64_t out_heads = std::max(r->q_heads, r->kv_heads);
  std::vector<double> out(static_cast<std::size_t>(r->batch * r->length * out_heads * r->dv));
  parallel_for(ctx, r->batch * r->kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) run_head(*r, i / r->kv_heads, i % r->kv_heads, state.data() + i * r->dk * r->dv, out.data());
  });
  absl::StatusOr<Tensor> y = from_doubles(ctx, ctx.tensor(0).dtype(), {r->batch, r->length, out_heads * r->dv}, out);
  if (!y.ok()) return y.status();
  absl::StatusOr<Tensor> s = from_doubles(ctx, ctx.has_input(3) ? ctx.tensor(3).dtype() : ctx.tensor(0).dtype(), state_dims, state);
  if (!s.ok()) return s.status();
  return outputs_of(*std::move(y), *std::move(s));
}

absl::StatusOr<Tensor> converted(KernelContext& ctx, const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  std::vector<double> store;
  absl::StatusOr<const double*> data = as_compute<double>(ctx, x, store);
  if (!data.ok()) return data.status();
  if (x.dtype() == DType::kDouble) store.assign(*data, *data + x.size());
  return from_doubles(ctx, dtype, x.dims(), store);
}

absl::StatusOr<Tensor> modified(KernelContext& ctx, std::string_view attribute, Tensor scores) {
  const Graph* graph = ctx.attr_g(attribute);
  if (graph == nullptr) return scores;
  Outputs out = ctx.host.run_graph(*graph, {Value(scores)});
  if (!out.ok()) return out.status();
  if (out->size() != 1 || !(*out)[0].is_tensor() || (*out)[0].tensor().dims() != scores.dims() ||
      (*out)[0].tensor().dtype() != scores.dtype()) {
    return ctx.invalid(std::string(attribute) + " must give one tensor of its input's shape and type");
  }
  return (*out)[0].tensor();
}

// Each key/value head repeated for the query heads that share it.
absl::StatusOr<Tensor> repeated_heads(KernelContext& ctx, const Tensor& x, std::int64_t heads) {
  if (x.dims()[1] == heads) return x;
  Shape dims = x.dims();
  dims[1] = heads;
  absl::StatusOr<Tensor> y = ctx.allocate(x.dtype(), dims);
  if (!y.ok()) return y;
  const std::size_t plane = x.size() == 0 ? 0 : x.bytes().size() / static_cast<std::size_t>(x.dims()[0] * x.dims()[1]);
  const std::int64_t group = heads / x.dims()[1];
  for (std::int64_t i = 0; i < dims[0] * heads; ++i) {
    const std::int64_t from = i / heads * x.dims()[1] + i % heads / group;
    std::copy_n(x.bytes().data() + static_cast<std::size_t>(from) * plane, plane,
                write<std::byte>(*y) + static_cast<std::size_t>(i) * plane);
  }
  return y;
}

Outputs flex_attention(KernelContext& ctx) {
  const Tensor &q = ctx.tensor(0), &k = ctx.tensor(1), &v = ctx.tensor(2);
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) return ctx.invalid("Q, K and V must be of rank 4");
  if (k.dims()[1] < 1 || q.dims()[1] % k.dims()[1] != 0 || k.dims()[1] != v.dims()[1]) return ctx.invalid("the head counts do not fit");
  const DType precision = ctx.has_attr("softmax_precision") ? static_cast<DType>(ctx.attr_i("softmax_precision", 1))
                          : q.dtype() == DType::kDouble     ? DType::kDouble
                                                            : DType::kFloat;
  const double scale =
      ctx.has_attr("scale") ? static_cast<double>(ctx.attr_f("scale", 1)) : 1.0 / std::sqrt(static_cast<double>(q.dims()[3]));
  absl::StatusOr<Tensor> keys = repeated_heads(ctx, k, q.dims()[1]), values = repeated_heads(ctx, v, q.dims()[1]);
  if (!keys.ok()) return keys.status();
  if (!values.ok()) return values.status();
  absl::StatusOr<Tensor> cq = converted(ctx, q, precision), ck = converted(ctx, *keys, precision);
  if (!cq.ok()) return cq.status();
  if (!ck.ok()) return ck.status();
  absl::StatusOr<Tensor> scores = matmul(ctx, *cq, *ck, {false, true, static_cast<float>(scale)});
  if (!scores.ok()) return scores.status();
  scores = modified(ctx, "score_mod", *scores);
  if (!scores.ok()) return scores.status();
  const Node softmax{"", "Softmax", "", "", {"x"}, {"y"}, {Attribute::of("axis", std::int64_t{-1})}, nullptr};
  Outputs probabilities = ctx.host.run_node(softmax, 13, {Value(*scores)});
  if (!probabilities.ok()) return probabilities;
  absl::StatusOr<Tensor> p = modified(ctx, "prob_mod", (*probabilities)[0].tensor());
  if (!p.ok()) return p.status();
  absl::StatusOr<Tensor> cp = converted(ctx, *p, q.dtype());
  if (!cp.ok()) return cp.status();
  absl::StatusOr<Tensor> y = matmul(ctx, *cp, *values);
  if (!y.ok()) return y.status();
  return outputs_of(*std::move(y));
}

}  // namespace

void register_attention_linear(Registry& registry) {
  registry.add("", "LinearAttention", linear_attention);
  registry.add(kMicrosoft, "LinearAttention", linear_attention);
  registry.add(kPreviewDomain, "FlexAttention", flex_attention);
}

}  // namespace saturate
