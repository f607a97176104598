// com.microsoft GroupQueryAttention (onnxruntime docs/ContribOperators.md): rotary embedding, a key/value cache of fixed or growing
// length, causal or local attention with lengths per batch entry.
#include <algorithm>

#include "kernels/attention/attention.h"
#include "kernels/elementwise/elementwise.h"

namespace saturate {
namespace {

struct GroupSizes {
  std::int64_t batch = 0, rows = 0, heads = 0, kv_heads = 0, size = 0, past_buffer = 0, buffer = 0, total = 0;
  std::vector<std::int64_t> lengths;  // of the keys, per batch entry, the new ones included
  bool first_prompt = false;          // every row is new
  std::int64_t past(std::int64_t b) const { return first_prompt ? 0 : lengths[static_cast<std::size_t>(b)] - rows; }
};

absl::StatusOr<GroupSizes> sizes_of(const KernelContext& ctx) {
  GroupSizes s;
  const Tensor& q = ctx.tensor(0);
  s.heads = ctx.attr_i("num_heads", 0);
  s.kv_heads = ctx.attr_i("kv_num_heads", 0);
  if (q.rank() != 3 || s.heads < 1 || s.kv_heads < 1 || s.heads % s.kv_heads != 0)
    return ctx.invalid("the query or the head counts are wrong");
  s.batch = q.dims()[0], s.rows = q.dims()[1];
  const bool packed = !ctx.has_input(1);
  const std::int64_t parts = packed ? s.heads + 2 * s.kv_heads : s.heads;
  if (q.dims()[2] % parts != 0) return ctx.invalid("the query does not fit num_heads");
  s.size = q.dims()[2] / parts;
  for (std::size_t i : {1u, 2u}) {
    if (!packed && ctx.tensor(i).dims() != Shape{s.batch, s.rows, s.kv_heads * s.size})
      return ctx.invalid("key or value has the wrong shape");
  }
  absl::StatusOr<std::vector<std::int64_t>> lengths = int_values(ctx, ctx.tensor(5)), total = int_values(ctx, ctx.tensor(6));
  if (!lengths.ok()) return lengths.status();
  if (!total.ok()) return total.status();
  if (static_cast<std::int64_t>(lengths->size()) != s.batch || total->size() != 1)
    return ctx.invalid("seqlens_k or total_sequence_length has the wrong shape");
  s.total = (*total)[0];
  s.lengths = *std::move(lengths);
  s.first_prompt = s.rows == s.total;
  if (ctx.has_input(3)) {
    const Shape& d = ctx.tensor(3).dims();
    if (d.size() != 4 || d[0] != s.batch || d[1] != s.kv_heads || d[3] != s.size || ctx.tensor(4).dims() != d)
      return ctx.invalid("past_key or past_value has the wrong shape");
    s.past_buffer = d[2];
  }
  s.buffer = std::max(s.total, s.past_buffer);
  for (std::int64_t& n : s.lengths) {
    ++n;
    if (n < 1 || n > s.total || (!s.first_prompt && n < s.rows)) return ctx.invalid("seqlens_k is out of range");
    if (!s.first_prompt && n - s.rows > s.past_buffer) return ctx.invalid("seqlens_k asks for more past than there is");
  }
  return s;
}

// Heads of all rows, `step` from one row to the next.
template <typename C>
struct HeadRows {
  C* data;
  std::int64_t heads, step;
};

// Turns the rows of a [batch, rows, heads, size] part by their positions. Of a prompt ONNX Runtime reads the first id alone: rows count on
// from it (1.22 to 1.32).
template <typename C>
absl::Status apply_rotary(const KernelContext& ctx, const GroupSizes& s, const C* cos, const C* sin, const HeadRows<C>& x) {
  const std::int64_t half = ctx.tensor(7).dims()[1], longest = ctx.tensor(7).dims()[0];
  const bool interleaved = ctx.attr_i("rotary_interleaved", 0) != 0;
  std::vector<std::int64_t> given;
  if (ctx.has_input(9)) {
    absl::StatusOr<std::vector<std::int64_t>> ids = int_values(ctx, ctx.tensor(9));
    if (!ids.ok()) return ids.status();
    if (static_cast<std::int64_t>(ids->size()) == s.batch * s.rows) given = *std::move(ids);
  }
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t i = 0; i < s.rows; ++i) {
      const std::int64_t position = given.empty()    ? s.past(b) + i
                                    : s.first_prompt ? given[0] + i
                                                     : given[static_cast<std::size_t>(b * s.rows + i)];
      if (position < 0 || position >= longest) return ctx.invalid("a position is outside the cos and sin caches");
      for (std::int64_t h = 0; h < x.heads; ++h) {
        C* v = x.data + (b * s.rows + i) * x.step + h * s.size;
        rotate(v, cos + position * half, sin + position * half, 2 * half, interleaved, v);
      }
    }
  }
  return absl::OkStatus();
}

// The cache with the new rows written at each batch entry's own end: [batch, kv_heads, buffer, size], zeros elsewhere.
template <typename C>
std::vector<C> updated_cache(const GroupSizes& s, const C* past, const C* rows, std::int64_t stride) {
  std::vector<C> cache(static_cast<std::size_t>(s.batch * s.kv_heads * s.buffer * s.size), C(0));
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.kv_heads; ++h) {
      C* to = cache.data() + (b * s.kv_heads + h) * s.buffer * s.size;
      if (past != nullptr) std::copy_n(past + (b * s.kv_heads + h) * s.past_buffer * s.size, s.past(b) * s.size, to);
      for (std::int64_t i = 0; i < s.rows; ++i)
        std::copy_n(rows + (b * s.rows + i) * stride + h * s.size, s.size, to + (s.past(b) + i) * s.size);
    }
  }
  return cache;
}

template <typename C>
absl::Status add_score_inputs(const KernelContext& ctx, const GroupSizes& s, std::array<std::vector<C>, 2>& stores,
                              AttentionProblem<C>& p) {
  if (ctx.has_input(10)) {
    const Shape& d = ctx.tensor(10).dims();
    if (d.size() != 4 || (d[0] != 1 && d[0] != s.batch) || (d[1] != 1 && d[1] != s.heads) || d[2] != s.rows || d[3] < s.total)
      return ctx.invalid("attention_bias does not fit the scores");
    absl::StatusOr<const C*> bias = as_compute<C>(ctx, ctx.tensor(10), stores[0]);
    if (!bias.ok()) return bias.status();
    p.biases.push_back({*bias, d[0] == 1 ? 0 : d[1] * d[2] * d[3], d[1] == 1 ? 0 : d[2] * d[3], d[3], 1});
  }
  if (ctx.has_input(11)) {
    if (ctx.tensor(11).size() != s.heads) return ctx.invalid("head_sink needs one number a head");
    absl::StatusOr<const C*> sinks = as_compute<C>(ctx, ctx.tensor(11), stores[1]);
    if (!sinks.ok()) return sinks.status();
    p.sinks = *sinks;
  } else if (ctx.attr_i("smooth_softmax", 0) > 0) {
    stores[1].assign(static_cast<std::size_t>(s.heads), C(0));
    p.sinks = stores[1].data();
  }
  const std::int64_t window = ctx.attr_i("local_window_size", -1);
  const bool causal = ctx.attr_i("causal", 1) != 0;
  p.range = [&s, window, causal](std::int64_t b, std::int64_t i) {
    const std::int64_t position = s.past(b) + i, length = s.first_prompt ? s.total : s.lengths[static_cast<std::size_t>(b)];
    const std::int64_t low = window > 0 ? std::max<std::int64_t>(0, position - window + 1) : 0;  // the window counts the query itself
    return std::pair(low, causal ? std::min(position + 1, length) : s.lengths[static_cast<std::size_t>(b)]);
  };
  return absl::OkStatus();
}

// Turns the heads of Q and K in place, where the node asks for it.
template <typename C>
absl::Status rotate_queries_and_keys(const KernelContext& ctx, const GroupSizes& s, const HeadRows<C>& q, const HeadRows<C>& k) {
  if (ctx.attr_i("do_rotary", 0) == 0) return absl::OkStatus();
  const Tensor &cos = ctx.tensor(7), &sin = ctx.tensor(8);
  if (cos.rank() != 2 || sin.dims() != cos.dims() || 2 * cos.dims()[1] > s.size)
    return ctx.invalid("cos_cache or sin_cache has the wrong shape");
  std::array<std::vector<C>, 2> stores;
  absl::StatusOr<const C*> pc = as_compute<C>(ctx, cos, stores[0]), ps = as_compute<C>(ctx, sin, stores[1]);
  if (!pc.ok()) return pc.status();
  if (!ps.ok()) return ps.status();
  if (absl::Status status = apply_rotary(ctx, s, *pc, *ps, q); !status.ok()) return status;
  return apply_rotary(ctx, s, *pc, *ps, k);
}

template <typename C>
Outputs group_query_as(const KernelContext& ctx) {
  if (ctx.has_input(12) || ctx.has_input(13) || ctx.has_input(14) || ctx.wants(3) || ctx.attr_s("k_quant_type", "NONE") != "NONE" ||
      ctx.attr_i("sliding_window_cache", 0) != 0) {
    return ctx.unsupported("a quantized or sliding cache, per-head norms or the output of QK");
  }
  absl::StatusOr<GroupSizes> s = sizes_of(ctx);
  if (!s.ok()) return s.status();
  const bool packed = !ctx.has_input(1);
  std::array<std::vector<C>, 3> rows;
  for (std::size_t i = 0; i < (packed ? 1u : 3u); ++i) {
    std::vector<C> store;
    absl::StatusOr<const C*> data = as_compute<C>(ctx, ctx.tensor(i), store);
    if (!data.ok()) return data.status();
    rows[i].assign(*data, *data + ctx.tensor(i).size());
  }
  const std::int64_t q_stride = ctx.tensor(0).dims()[2], kv_stride = packed ? q_stride : s->kv_heads * s->size;
  C *q = rows[0].data(), *k = packed ? q + s->heads * s->size : rows[1].data(),
    *v = packed ? q + (s->heads + s->kv_heads) * s->size : rows[2].data();
  if (absl::Status status = rotate_queries_and_keys<C>(ctx, *s, {q, s->heads, q_stride}, {k, s->kv_heads, kv_stride}); !status.ok())
    return status;
  std::array<std::vector<C>, 2> stores;
  const C *past_k = nullptr, *past_v = nullptr;
  if (ctx.has_input(3)) {
    absl::StatusOr<const C*> a = as_compute<C>(ctx, ctx.tensor(3), stores[0]), b = as_compute<C>(ctx, ctx.tensor(4), stores[1]);
    if (!a.ok()) return a.status();
    if (!b.ok()) return b.status();
    past_k = *a;
    past_v = *b;
  }
  const std::vector<C> keys = updated_cache<C>(*s, past_k, k, kv_stride), values = updated_cache<C>(*s, past_v, v, kv_stride);
  AttentionProblem<C> p;
  p.batch = s->batch, p.heads = s->heads, p.kv_heads = s->kv_heads, p.queries = s->rows, p.keys = s->total, p.size = p.v_size = s->size;
  p.q = {q, s->rows * q_stride, s->size, q_stride};
  p.k = {keys.data(), s->kv_heads * s->buffer * s->size, s->buffer * s->size, s->size};
  p.v = {values.data(), p.k.batch, p.k.head, p.k.row};
  p.scale = score_scale(ctx, s->size);
  p.softcap = ctx.attr_f("softcap", 0.0f);
  std::array<std::vector<C>, 2> score_stores;
  if (absl::Status status = add_score_inputs(ctx, *s, score_stores, p); !status.ok()) return status;
  std::vector<C> out(static_cast<std::size_t>(s->batch * s->rows * s->heads * s->size));
  p.out = out.data();
  p.out_batch = s->rows * s->heads * s->size, p.out_head = s->size, p.out_row = s->heads * s->size;
  attend(ctx, p);
  const DType dtype = ctx.tensor(0).dtype();
  absl::StatusOr<Tensor> y = narrowed(ctx, dtype, {s->batch, s->rows, s->heads * s->size}, out);
  if (!y.ok()) return y.status();
  const Shape cache_dims{s->batch, s->kv_heads, s->buffer, s->size};
  absl::StatusOr<Tensor> pk = narrowed(ctx, dtype, cache_dims, keys), pv = narrowed(ctx, dtype, cache_dims, values);
  if (!pk.ok()) return pk.status();
  if (!pv.ok()) return pv.status();
  return outputs_of(*std::move(y), *std::move(pk), *std::move(pv));
}

Outputs group_query_attention(KernelContext& ctx) {
  const DType dtype = ctx.tensor(0).dtype();
  if (!names(FloatTypes{}, dtype)) return ctx.unsupported_dtype(dtype);
  return dtype == DType::kDouble || ctx.options.reference ? group_query_as<double>(ctx) : group_query_as<float>(ctx);
}

}  // namespace

void register_attention_gqa(Registry& registry) { registry.add(kMicrosoft, "GroupQueryAttention", group_query_attention); }

}  // namespace saturate
