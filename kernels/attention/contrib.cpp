// com.microsoft Attention and MultiHeadAttention (onnxruntime docs/ContribOperators.md). Masks add mask_filter_value where they forbid.
// What `unidirectional` hides holds the lowest float instead, as in ONNX Runtime from 1.20 to 1.32: no -inf, so that it ties with a mask
// of the lowest float.
#include <algorithm>
#include <limits>

#include "kernels/attention/attention.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/linear/matmul.h"

namespace saturate {
namespace {

struct Sizes {
  std::int64_t batch = 0, queries = 0, past = 0, keys = 0, heads = 0, size = 0, v_size = 0;  // keys: past included
};

// Which keys a mask forbids, as numbers to add to [batch, queries, keys].
template <typename C>
absl::Status add_padding_mask(const KernelContext& ctx, const Tensor& mask, const Sizes& s, std::vector<C>& store, AttentionProblem<C>& p) {
  const C filter = static_cast<C>(ctx.attr_f("mask_filter_value", -10000.0f));
  absl::StatusOr<std::vector<std::int64_t>> m = int_values(ctx, mask);
  if (!m.ok()) return m.status();
  const auto at = [&](std::int64_t i) { return (*m)[static_cast<std::size_t>(i)]; };
  const Shape& d = mask.dims();
  const bool per_row = mask.rank() >= 3;
  store.assign(static_cast<std::size_t>(s.batch * (per_row ? s.queries : 1) * s.keys), C(0));
  const auto fill = [&](auto allowed) {
    const std::int64_t rows = per_row ? s.queries : 1;
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < s.keys; ++j) {
          if (!allowed(b, i, j)) store[static_cast<std::size_t>((b * rows + i) * s.keys + j)] = filter;
        }
      }
    }
  };
  if (mask.rank() == 1 && (d[0] == s.batch || d[0] == 2 * s.batch || d[0] == 3 * s.batch + 2)) {
    // Lengths of the keys; with 2 * batch elements, first positions follow.
    const bool starts = d[0] == 2 * s.batch && s.batch > 0;
    fill([&](std::int64_t b, std::int64_t, std::int64_t j) { return j < at(b) && (!starts || j >= at(s.batch + b)); });
  } else if (mask.rank() == 2 && d[0] == s.batch && (d[1] == s.keys || d[1] == s.keys - s.past)) {
    const std::int64_t skipped = s.keys - d[1];
    fill([&](std::int64_t b, std::int64_t, std::int64_t j) { return j < skipped || at(b * d[1] + j - skipped) > 0; });
  } else if (mask.rank() == 3 && d == Shape{s.batch, s.queries, s.keys}) {
    fill([&](std::int64_t b, std::int64_t i, std::int64_t j) { return at((b * s.queries + i) * s.keys + j) > 0; });
  } else if (mask.rank() == 4 && d[0] == s.batch && d[1] == 1 && d[2] == d[3] && d[2] >= s.keys) {
    fill([&](std::int64_t b, std::int64_t i, std::int64_t j) { return at((b * d[2] + s.past + i) * d[2] + j) > 0; });
  } else {
    return ctx.invalid("the mask has none of the allowed shapes");
  }
  p.biases.push_back({store.data(), (per_row ? s.queries : 1) * s.keys, 0, per_row ? s.keys : 0, 1});
  return absl::OkStatus();
}

// The first key that query i of a causal operator does not see. As ONNX Runtime has it, the last query sees every key; that differs from
// the plain frontier only where keys outnumber past and queries.
std::int64_t first_hidden(const Sizes& s, std::int64_t i) { return i == s.queries - 1 ? s.keys : std::min(s.keys, s.past + i + 1); }

// Hides the future in what the padding mask holds, before the attention bias is added.
template <typename C>
void hide_future(const KernelContext& ctx, const Sizes& s, std::vector<C>& store, AttentionProblem<C>& p) {
  if (ctx.attr_i("unidirectional", 0) == 0) return;
  if (p.biases.empty() && !ctx.has_input(5)) {  // nothing that the lowest float could tie with: left out
    p.range = [s](std::int64_t, std::int64_t i) { return std::pair<std::int64_t, std::int64_t>(0, first_hidden(s, i)); };
    return;
  }
  std::vector<C> all(static_cast<std::size_t>(s.batch * s.queries * s.keys), C(0));
  const std::int64_t mask_rows =
      p.biases.empty() ? 0 : static_cast<std::int64_t>(store.size()) / std::max<std::int64_t>(1, s.batch * s.keys);
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t i = 0; i < s.queries; ++i) {
      C* row = all.data() + (b * s.queries + i) * s.keys;
      if (mask_rows > 0) std::copy_n(store.data() + (b * mask_rows + (mask_rows == 1 ? 0 : i)) * s.keys, s.keys, row);
      std::fill(row + first_hidden(s, i), row + s.keys, static_cast<C>(std::numeric_limits<float>::lowest()));
    }
  }
  store = std::move(all);
  p.biases.assign(1, {store.data(), s.queries * s.keys, 0, s.keys, 1});
}

// A mask of Attention with one number a row, which ONNX Runtime ignores: Softmax does not see it.
bool is_one_column(const Tensor& mask, const Sizes& s) {
  return mask.rank() == 2 && mask.dims()[1] == 1 && s.keys != 1 && (mask.dims()[0] == s.batch || mask.dims()[0] == 1);
}

template <typename C>
absl::Status add_attention_bias(const KernelContext& ctx, std::size_t input, const Sizes& s, std::vector<C>& store,
                                AttentionProblem<C>& p) {
  if (!ctx.has_input(input)) return absl::OkStatus();
  const Tensor& t = ctx.tensor(input);
  const Shape& d = t.dims();
  if (t.rank() != 4 || (d[0] != 1 && d[0] != s.batch) || (d[1] != 1 && d[1] != s.heads) || d[2] != s.queries || d[3] != s.keys)
    return ctx.invalid("attention_bias does not fit the scores");
  absl::StatusOr<const C*> data = as_compute<C>(ctx, t, store);
  if (!data.ok()) return data.status();
  p.biases.push_back({*data, d[0] == 1 ? 0 : d[1] * d[2] * d[3], d[1] == 1 ? 0 : d[2] * d[3], d[3], 1});
  return absl::OkStatus();
}

// K or V with what came before: [batch, heads, past + rows, size] in C, from rows at [batch, rows, heads, size] strides.
template <typename C>
std::vector<C> joined(const HeadsView<C>& rows, const C* past, const Sizes& s, std::int64_t size) {
  std::vector<C> out(static_cast<std::size_t>(s.batch * s.heads * s.keys * size));
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      C* to = out.data() + (b * s.heads + h) * s.keys * size;
      if (past != nullptr) std::copy_n(past + (b * s.heads + h) * s.past * size, s.past * size, to);
      for (std::int64_t i = s.past; i < s.keys; ++i) std::copy_n(rows.at(b, h) + (i - s.past) * rows.row, size, to + i * size);
    }
  }
  return out;
}

// The attention itself, into [batch, queries, heads * v_size].
template <typename C>
absl::StatusOr<Tensor> run(const KernelContext& ctx, const Sizes& s, AttentionProblem<C>& p) {
  p.batch = s.batch, p.heads = p.kv_heads = s.heads, p.queries = s.queries, p.keys = s.keys, p.size = s.size, p.v_size = s.v_size;
  p.scale = score_scale(ctx, s.size);
  p.zero_masked_rows = false;
  std::vector<C> out(static_cast<std::size_t>(s.batch * s.queries * s.heads * s.v_size));
  p.out = out.data();
  p.out_batch = s.queries * s.heads * s.v_size;
  p.out_head = s.v_size;
  p.out_row = s.heads * s.v_size;
  attend(ctx, p);
  return narrowed(ctx, ctx.tensor(0).dtype(), {s.batch, s.queries, s.heads * s.v_size}, out);
}

// The columns of Q, K and V in the packed weights. Fills in the sizes that they and the input tell.
absl::StatusOr<std::vector<std::int64_t>> packed_columns(const KernelContext& ctx, Sizes& s) {
  const Tensor &x = ctx.tensor(0), &w = ctx.tensor(1);
  if (x.rank() != 3 || w.rank() != 2 || w.dims()[0] != x.dims()[2]) return ctx.invalid("the input or the weights have the wrong shape");
  s.batch = x.dims()[0], s.queries = x.dims()[1], s.heads = ctx.attr_i("num_heads", 0);
  std::vector<std::int64_t> hidden = ctx.attr_ints("qkv_hidden_sizes");
  const std::int64_t total = w.dims()[1];
  if (hidden.empty()) hidden.assign(3, total / 3);
  if (s.heads < 1 || hidden.size() != 3 || hidden[0] + hidden[1] + hidden[2] != total || hidden[0] != hidden[1] ||
      hidden[0] % s.heads != 0 || hidden[2] % s.heads != 0) {
    return ctx.invalid("num_heads or qkv_hidden_sizes do not fit the weights");
  }
  s.size = hidden[0] / s.heads, s.v_size = hidden[2] / s.heads;
  return hidden;
}

// Q, K and V beside each other: the input times the packed weights, and the bias.
template <typename C>
absl::StatusOr<std::vector<C>> packed_projection(const KernelContext& ctx) {
  const Tensor &x = ctx.tensor(0), &w = ctx.tensor(1);
  const std::int64_t in = x.dims()[2], rows = x.dims()[0] * x.dims()[1], total = w.dims()[1];
  std::vector<C> sx, sw, sb, qkv(static_cast<std::size_t>(rows * total));
  absl::StatusOr<const C*> cx = as_compute<C>(ctx, x, sx);
  if (!cx.ok()) return cx.status();
  std::shared_ptr<const PackedMatrix> packed;
  if constexpr (std::is_same_v<C, float>) {
    packed = x.dtype() == DType::kFloat && w.dtype() == DType::kFloat ? packed_constant(ctx, w, in, total, total, 1) : nullptr;
    if (packed != nullptr) gemm_packed(ctx, rows, {*cx, in, 1}, *packed, {qkv.data(), total});
  }
  if (packed == nullptr) {
    const Tensor weights = aligned(w);
    absl::StatusOr<const C*> cw = as_compute<C>(ctx, weights, sw);
    if (!cw.ok()) return cw.status();
    gemm_any<C>(ctx, {rows, total, in}, {*cx, in, 1}, {*cw, total, 1}, {qkv.data(), total});
  }
  if (ctx.has_input(2)) {
    if (ctx.tensor(2).size() != total) return ctx.invalid("the bias does not fit");
    absl::StatusOr<const C*> bias = as_compute<C>(ctx, ctx.tensor(2), sb);
    if (!bias.ok()) return bias.status();
    for (std::int64_t i = 0; i < rows * total; ++i) qkv[static_cast<std::size_t>(i)] += (*bias)[i % total];
  }
  return qkv;
}

template <typename C>
Outputs packed_attention_as(const KernelContext& ctx) {
  if (ctx.attr_i("past_present_share_buffer", 0) != 0 || ctx.attr_i("do_rotary", 0) != 0)
    return ctx.unsupported("do_rotary or past_present_share_buffer");
  Sizes s;
  const absl::StatusOr<std::vector<std::int64_t>> columns = packed_columns(ctx, s);
  if (!columns.ok()) return columns.status();
  const std::int64_t hidden = (*columns)[0], total = ctx.tensor(1).dims()[1];
  const absl::StatusOr<std::vector<C>> qkv = packed_projection<C>(ctx);
  if (!qkv.ok()) return qkv.status();
  std::vector<C> spast, smask, sbias;
  const C *past_k = nullptr, *past_v = nullptr;
  if (ctx.has_input(4)) {
    const Shape& d = ctx.tensor(4).dims();
    if (d.size() != 5 || d[0] != 2 || d[1] != s.batch || d[2] != s.heads || d[4] != s.size || s.size != s.v_size)
      return ctx.invalid("past has the wrong shape");
    s.past = d[3];
    absl::StatusOr<const C*> past = as_compute<C>(ctx, ctx.tensor(4), spast);
    if (!past.ok()) return past.status();
    past_k = *past;
    past_v = *past + s.batch * s.heads * s.past * s.size;
  }
  s.keys = s.past + s.queries;
  AttentionProblem<C> p;
  const std::int64_t per_batch = s.queries * total;
  p.q = {qkv->data(), per_batch, s.size, total};
  HeadsView<C> k{qkv->data() + hidden, per_batch, s.size, total}, v{qkv->data() + 2 * hidden, per_batch, s.v_size, total};
  std::vector<C> keys = joined(k, past_k, s, s.size), values = joined(v, past_v, s, s.v_size);
  p.k = {keys.data(), s.heads * s.keys * s.size, s.keys * s.size, s.size};
  p.v = {values.data(), s.heads * s.keys * s.v_size, s.keys * s.v_size, s.v_size};
  if (ctx.has_input(3) && !is_one_column(ctx.tensor(3), s)) {
    if (absl::Status status = add_padding_mask(ctx, ctx.tensor(3), s, smask, p); !status.ok()) return status;
  }
  hide_future(ctx, s, smask, p);
  if (absl::Status status = add_attention_bias(ctx, 5, s, sbias, p); !status.ok()) return status;
  absl::StatusOr<Tensor> y = run(ctx, s, p);
  if (!y.ok()) return y.status();
  if (!ctx.wants(1)) return outputs_of(*std::move(y));
  if (s.size != s.v_size) return ctx.invalid("present needs heads of one size");
  keys.insert(keys.end(), values.begin(), values.end());
  absl::StatusOr<Tensor> present = narrowed(ctx, ctx.tensor(0).dtype(), {2, s.batch, s.heads, s.keys, s.size}, keys);
  if (!present.ok()) return present.status();
  return outputs_of(*std::move(y), *std::move(present));
}

// Q, K and V of MultiHeadAttention in all the layouts that it takes.
template <typename C>
struct QkvInputs {
  std::array<std::vector<C>, 3> store;
  std::array<HeadsView<C>, 3> view;
  std::int64_t rows = 0;     // of keys and values, without the past
  bool heads_first = false;  // keys and values lie as a past does, and take no bias
};

template <typename C>
absl::Status add_projection_bias(const KernelContext& ctx, const Sizes& s, QkvInputs<C>& in) {
  if (!ctx.has_input(3)) return absl::OkStatus();
  std::vector<C> store;
  const std::int64_t hidden = s.heads * s.size;
  if (ctx.tensor(3).size() != 2 * hidden + s.heads * s.v_size) return ctx.invalid("the bias does not fit");
  absl::StatusOr<const C*> bias = as_compute<C>(ctx, ctx.tensor(3), store);
  if (!bias.ok()) return bias.status();
  for (std::size_t part = 0; part < (in.heads_first ? 1u : 3u); ++part) {
    const std::int64_t size = part == 2 ? s.v_size : s.size, rows = part == 0 ? s.queries : s.keys - s.past;
    in.view[part] =
        with_bias(in.view[part], s.batch, rows, s.heads, size, *bias + static_cast<std::int64_t>(part) * hidden, in.store[part]);
  }
  return absl::OkStatus();
}

// The views of keys and values that do not come with the query: packed, with heads first, or with rows first.
template <typename C>
absl::Status view_keys_and_values(const KernelContext& ctx, const C* k_data, const C* v_data, Sizes& s, QkvInputs<C>& in) {
  const Tensor &k = ctx.tensor(1), &v = ctx.tensor(2);
  if (k.rank() == 5) {  // packed [batch, rows, heads, 2, size]
    if (k.dims()[0] != s.batch || k.dims()[2] != s.heads || k.dims()[3] != 2 || k.dims()[4] != s.size)
      return ctx.invalid("packed KV has the wrong shape");
    in.rows = k.dims()[1];
    s.v_size = s.size;
    for (std::size_t i = 1; i < 3; ++i)
      in.view[i] = {k_data + static_cast<std::int64_t>(i - 1) * s.size, in.rows * s.heads * 2 * s.size, 2 * s.size, s.heads * 2 * s.size};
  } else if (k.rank() == 4) {  // [batch, heads, rows, size], as a past would be
    if (v.rank() != 4 || k.dims()[0] != s.batch || k.dims()[1] != s.heads || k.dims()[3] != s.size || v.dims()[2] != k.dims()[2] ||
        v.dims()[1] != s.heads || v.dims()[0] != s.batch)
      return ctx.invalid("key or value has the wrong shape");
    in.rows = k.dims()[2];
    s.v_size = v.dims()[3];
    in.heads_first = true;
    in.view[1] = {k_data, s.heads * in.rows * s.size, in.rows * s.size, s.size};
    in.view[2] = {v_data, s.heads * in.rows * s.v_size, in.rows * s.v_size, s.v_size};
  } else {
    if (k.rank() != 3 || v.rank() != 3 || k.dims()[0] != s.batch || k.dims()[2] != s.heads * s.size || v.dims()[0] != s.batch ||
        v.dims()[1] != k.dims()[1] || v.dims()[2] % s.heads != 0)
      return ctx.invalid("key or value has the wrong shape");
    in.rows = k.dims()[1];
    s.v_size = v.dims()[2] / s.heads;
    in.view[1] = {k_data, in.rows * s.heads * s.size, s.size, s.heads * s.size};
    in.view[2] = {v_data, in.rows * s.heads * s.v_size, s.v_size, s.heads * s.v_size};
  }
  return absl::OkStatus();
}

template <typename C>
absl::StatusOr<Sizes> multi_head_inputs(const KernelContext& ctx, QkvInputs<C>& in) {
  const Tensor& q = ctx.tensor(0);
  Sizes s;
  s.heads = ctx.attr_i("num_heads", 0);
  if (s.heads < 1 || q.rank() < 3) return ctx.invalid("num_heads or the query's rank is wrong");
  s.batch = q.dims()[0], s.queries = q.dims()[1];
  std::array<const C*, 3> data{};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!ctx.has_input(i)) continue;
    absl::StatusOr<const C*> c = as_compute<C>(ctx, ctx.tensor(i), in.store[i]);
    if (!c.ok()) return c.status();
    data[i] = *c;
  }
  if (q.rank() == 5) {  // packed [batch, rows, heads, 3, size]
    if (ctx.has_input(1) || q.dims()[2] != s.heads || q.dims()[3] != 3) return ctx.invalid("packed QKV has the wrong shape");
    s.size = s.v_size = q.dims()[4];
    in.rows = s.queries;
    for (std::size_t i = 0; i < 3; ++i)
      in.view[i] = {data[0] + static_cast<std::int64_t>(i) * s.size, in.rows * s.heads * 3 * s.size, 3 * s.size, s.heads * 3 * s.size};
  } else {
    if (q.rank() != 3 || q.dims()[2] % s.heads != 0 || !ctx.has_input(1)) return ctx.invalid("the query or the key has the wrong shape");
    s.size = q.dims()[2] / s.heads;
    in.view[0] = {data[0], s.queries * s.heads * s.size, s.size, s.heads * s.size};
    if (absl::Status status = view_keys_and_values(ctx, data[1], data[2], s, in); !status.ok()) return status;
  }
  if (ctx.has_input(6)) {
    const Tensor &pk = ctx.tensor(6), &pv = ctx.tensor(7);
    if (pk.rank() != 4 || pv.rank() != 4 || pk.dims() != Shape{s.batch, s.heads, pk.dims()[2], s.size} ||
        pv.dims() != Shape{s.batch, s.heads, pk.dims()[2], s.v_size})
      return ctx.invalid("past_key or past_value has the wrong shape");
    s.past = pk.dims()[2];
  }
  s.keys = s.past + in.rows;
  if (absl::Status status = add_projection_bias(ctx, s, in); !status.ok()) return status;
  return s;
}

template <typename C>
Outputs multi_head_as(const KernelContext& ctx) {
  if (ctx.has_input(8) || ctx.has_input(9) || ctx.wants(3)) return ctx.unsupported("buffer sharing, cache_indirection or the output of QK");
  QkvInputs<C> in;
  absl::StatusOr<Sizes> s = multi_head_inputs(ctx, in);
  if (!s.ok()) return s.status();
  std::vector<C> spk, spv, smask, sbias;
  const C *pk = nullptr, *pv = nullptr;
  if (ctx.has_input(6)) {
    absl::StatusOr<const C*> a = as_compute<C>(ctx, ctx.tensor(6), spk), b = as_compute<C>(ctx, ctx.tensor(7), spv);
    if (!a.ok()) return a.status();
    if (!b.ok()) return b.status();
    pk = *a;
    pv = *b;
  }
  AttentionProblem<C> p;
  p.q = in.view[0];
  const bool keep = pk != nullptr || ctx.wants(1) || ctx.wants(2);
  std::vector<C> keys, values;
  p.k = in.view[1];
  p.v = in.view[2];
  if (keep) {
    keys = joined(in.view[1], pk, *s, s->size);
    values = joined(in.view[2], pv, *s, s->v_size);
    p.k = {keys.data(), s->heads * s->keys * s->size, s->keys * s->size, s->size};
    p.v = {values.data(), s->heads * s->keys * s->v_size, s->keys * s->v_size, s->v_size};
  }
  if (ctx.has_input(4)) {
    if (absl::Status status = add_padding_mask(ctx, ctx.tensor(4), *s, smask, p); !status.ok()) return status;
  }
  hide_future(ctx, *s, smask, p);
  if (absl::Status status = add_attention_bias(ctx, 5, *s, sbias, p); !status.ok()) return status;
  absl::StatusOr<Tensor> y = run(ctx, *s, p);
  if (!y.ok()) return y.status();
  std::vector<Value> out = outputs_of(*std::move(y));
  for (auto [index, values_of, size] : {std::tuple(1, &keys, s->size), {2, &values, s->v_size}}) {
    out.emplace_back();
    if (!ctx.wants(index)) continue;
    absl::StatusOr<Tensor> t = narrowed(ctx, ctx.tensor(0).dtype(), {s->batch, s->heads, s->keys, size}, *values_of);
    if (!t.ok()) return t.status();
    out.back() = *std::move(t);
  }
  return out;
}

template <bool kProjects>
Outputs contrib_attention(KernelContext& ctx) {
  const DType dtype = ctx.tensor(0).dtype();
  if (!names(FloatTypes{}, dtype)) return ctx.unsupported_dtype(dtype);
  if (dtype == DType::kDouble || ctx.options.reference) return kProjects ? packed_attention_as<double>(ctx) : multi_head_as<double>(ctx);
  return kProjects ? packed_attention_as<float>(ctx) : multi_head_as<float>(ctx);
}

}  // namespace

void register_attention_contrib(Registry& registry) {
  registry.add(kMicrosoft, "Attention", contrib_attention<true>, 1u << 1);  // weights, packed once
  registry.add(kMicrosoft, "MultiHeadAttention", contrib_attention<false>);
}

}  // namespace saturate
