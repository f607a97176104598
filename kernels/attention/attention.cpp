// Attention-23/24/25 (ONNX spec).
#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise/elementwise.h"

namespace saturate {
namespace {

// Q, K and V as [batch, heads, sequence, size], whether given so or as [batch, sequence, heads * size].
struct Heads {
  std::int64_t batch = 0, heads = 0, rows = 0, size = 0;
  bool packed = false;  // rank 3
};

absl::StatusOr<Heads> heads_of(const KernelContext& ctx, const Tensor& t, std::string_view attribute) {
  if (t.rank() == 4) return Heads{t.dims()[0], t.dims()[1], t.dims()[2], t.dims()[3], false};
  const std::int64_t heads = ctx.attr_i(attribute, 0);
  if (t.rank() != 3 || heads < 1 || t.dims()[2] % heads != 0)
    return ctx.invalid("Q, K and V must be of rank 4, or of rank 3 with head counts that divide them");
  return Heads{t.dims()[0], heads, t.dims()[1], t.dims()[2] / heads, true};
}

template <typename C>
HeadsView<C> view(const Heads& h, const C* data) {
  if (h.packed) return {data, h.rows * h.heads * h.size, h.size, h.heads * h.size};
  return {data, h.heads * h.rows * h.size, h.rows * h.size, h.size};
}

// past (rank 4) and the new rows, one after the other, as [batch, heads, past + rows, size].
absl::StatusOr<Tensor> present(const KernelContext& ctx, const Tensor& x, const Heads& h, const Tensor* past) {
  const std::int64_t before = past == nullptr ? 0 : past->dims()[2], total = before + h.rows;
  if (!h.packed && past == nullptr) return x;
  absl::StatusOr<Tensor> y = ctx.allocate(x.dtype(), {h.batch, h.heads, total, h.size});
  if (!y.ok()) return y;
  Outputs done = dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    T* out = write<T>(*y);
    const HeadsView<T> rows = view(h, x.data<T>());
    for (std::int64_t b = 0; b < h.batch; ++b) {
      for (std::int64_t n = 0; n < h.heads; ++n) {
        T* to = out + (b * h.heads + n) * total * h.size;
        if (past != nullptr) std::copy_n(past->data<T>() + (b * h.heads + n) * before * h.size, before * h.size, to);
        for (std::int64_t i = 0; i < h.rows; ++i) std::copy_n(rows.at(b, n) + i * rows.row, h.size, to + (before + i) * h.size);
      }
    }
    return std::vector<Value>();
  });
  if (!done.ok()) return done.status();
  return y;
}

// The mask as numbers to add, padded with -inf to `keys`, with the strides that broadcast it.
template <typename C>
absl::Status add_mask(const KernelContext& ctx, const Tensor& mask, std::vector<C>& store, AttentionProblem<C>& p) {
  if (mask.rank() > 4 || mask.rank() < 1) return ctx.invalid("attn_mask has the wrong rank");
  Shape dims(static_cast<std::size_t>(4 - mask.rank()), 1);
  dims.insert(dims.end(), mask.dims().begin(), mask.dims().end());
  const std::int64_t given = dims[3];
  if (given > p.keys || (dims[0] != 1 && dims[0] != p.batch) || (dims[1] != 1 && dims[1] != p.heads) ||
      (dims[2] != 1 && dims[2] != p.queries)) {
    return ctx.invalid("attn_mask does not broadcast to the scores");
  }
  const std::int64_t rows = dims[0] * dims[1] * dims[2];
  store.assign(static_cast<std::size_t>(rows * p.keys), -std::numeric_limits<C>::infinity());
  const auto fill = [&](auto value) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t j = 0; j < p.keys; ++j) {
        // A last dim of 1 is a short one and padded as the spec says, not broadcast.
        if (j < given) store[static_cast<std::size_t>(r * p.keys + j)] = value(r * given + j);
      }
    }
  };
  if (mask.dtype() == DType::kBool) {
    fill([&](std::int64_t i) { return mask.data<bool>()[i] ? C(0) : -std::numeric_limits<C>::infinity(); });
  } else {
    std::vector<C> converted;
    absl::StatusOr<const C*> numbers = as_compute<C>(ctx, mask, converted);
    if (!numbers.ok()) return numbers.status();
    fill([&](std::int64_t i) { return (*numbers)[i]; });
  }
  BiasView<C> bias{store.data(), dims[0] == 1 ? 0 : dims[1] * dims[2] * p.keys, dims[1] == 1 ? 0 : dims[2] * p.keys,
                   dims[2] == 1 ? 0 : p.keys, 1};
  p.biases.push_back(bias);
  return absl::OkStatus();
}

// Causal frontier, window and padding as a range of keys a query.
template <typename C>
absl::Status add_range(const KernelContext& ctx, std::int64_t past, AttentionProblem<C>& p) {
  const bool causal = ctx.attr_i("is_causal", 0) != 0;
  const std::int64_t left = ctx.attr_i("left_window_size", -1), right = ctx.attr_i("right_window_size", -1);
  if (left < -1 || right < -1) return ctx.invalid("a window size must be -1 or more");
  std::vector<std::int64_t> lengths;
  if (ctx.has_input(6)) {
    absl::StatusOr<std::vector<std::int64_t>> given = int_values(ctx, ctx.tensor(6));
    if (!given.ok()) return given.status();
    if (static_cast<std::int64_t>(given->size()) != p.batch) return ctx.invalid("nonpad_kv_seqlen needs one number a batch entry");
    lengths = *std::move(given);
  }
  if (!causal && left < 0 && right < 0 && lengths.empty()) return absl::OkStatus();
  const std::int64_t keys = p.keys, queries = p.queries;
  p.range = [=](std::int64_t b, std::int64_t i) {
    const std::int64_t length = lengths.empty() ? keys : lengths[static_cast<std::size_t>(b)];
    const std::int64_t position = i + (lengths.empty() ? past : length - queries);
    std::int64_t low = 0, high = length;
    if (causal) high = std::min(high, position + 1);
    if (left >= 0) low = std::max(low, position - left);
    if (right >= 0) high = std::min(high, position + right + 1);
    return std::pair(low, std::max(low, high));
  };
  return absl::OkStatus();
}

template <typename T, typename C>
C round_through(C x) {
  return static_cast<C>(static_cast<T>(x));
}

template <typename C>
C (*rounding_to(DType dtype))
(C) {
  switch (dtype) {
    case DType::kFloat16:
      return round_through<Half, C>;
    case DType::kBfloat16:
      return round_through<BFloat16, C>;
    case DType::kFloat:
      return std::is_same_v<C, float> ? nullptr : round_through<float, C>;
    default:
      return nullptr;
  }
}

struct Operands {
  Heads q, k, v;
  std::int64_t past = 0;
  Tensor key, value;  // past and new together, of rank 4; as given where there is no past and nobody asks
  bool as_given = false;
};

absl::Status check_past(const KernelContext& ctx, const Heads& h, std::size_t input) {
  const Tensor& past = ctx.tensor(input);
  const Shape wanted{h.batch, h.heads, ctx.tensor(4).rank() == 4 ? ctx.tensor(4).dims()[2] : 0, h.size};
  if (past.dims() != wanted || past.dtype() != ctx.tensor(input - 3).dtype()) return ctx.invalid("past_key or past_value does not fit");
  return absl::OkStatus();
}

absl::StatusOr<Operands> operands_of(const KernelContext& ctx) {
  absl::StatusOr<Heads> hq = heads_of(ctx, ctx.tensor(0), "q_num_heads"), hk = heads_of(ctx, ctx.tensor(1), "kv_num_heads"),
                        hv = heads_of(ctx, ctx.tensor(2), "kv_num_heads");
  for (const absl::StatusOr<Heads>* h : {&hq, &hk, &hv}) {
    if (!h->ok()) return h->status();
  }
  Operands o{*hq, *hk, *hv, 0, {}, {}, false};
  if (hk->heads < 1 || hq->heads % hk->heads != 0 || hk->heads != hv->heads || hk->rows != hv->rows || hq->size != hk->size ||
      hq->batch != hk->batch || hq->batch != hv->batch) {
    return ctx.invalid("Q, K and V do not fit");
  }
  const bool cached = ctx.has_input(4);
  if (cached != ctx.has_input(5)) return ctx.invalid("past_key and past_value belong together");
  if (cached) {
    for (absl::Status s : {check_past(ctx, o.k, 4), check_past(ctx, o.v, 5)}) {
      if (!s.ok()) return s;
    }
    o.past = ctx.tensor(4).dims()[2];
  }
  if (!cached && !ctx.wants(1) && !ctx.wants(2)) {
    o.key = ctx.tensor(1);
    o.value = ctx.tensor(2);
    o.as_given = true;
    return o;
  }
  absl::StatusOr<Tensor> key = present(ctx, ctx.tensor(1), o.k, cached ? &ctx.tensor(4) : nullptr);
  absl::StatusOr<Tensor> value = present(ctx, ctx.tensor(2), o.v, cached ? &ctx.tensor(5) : nullptr);
  if (!key.ok()) return key.status();
  if (!value.ok()) return value.status();
  o.key = *std::move(key);
  o.value = *std::move(value);
  return o;
}

template <typename C>
Outputs attention_as(const KernelContext& ctx) {
  const Tensor& q = ctx.tensor(0);
  absl::StatusOr<Operands> o = operands_of(ctx);
  if (!o.ok()) return o.status();
  AttentionProblem<C> p;
  p.batch = o->q.batch, p.heads = o->q.heads, p.kv_heads = o->k.heads, p.queries = o->q.rows, p.keys = o->past + o->k.rows;
  p.size = o->q.size, p.v_size = o->v.size;
  if (ctx.attr_f("scale", 1.0f) <= 0) return ctx.invalid("the scale is not above 0");  // its root goes to both factors
  p.scale = ctx.has_attr("scale") ? static_cast<double>(ctx.attr_f("scale", 1.0f)) : 1.0 / std::sqrt(static_cast<double>(p.size));
  p.softcap = ctx.attr_f("softcap", 0.0f);
  std::vector<C> sq, sk, sv, mask;
  absl::StatusOr<const C*> cq = as_compute<C>(ctx, q, sq), ck = as_compute<C>(ctx, o->key, sk), cv = as_compute<C>(ctx, o->value, sv);
  for (const absl::StatusOr<const C*>* c : {&cq, &ck, &cv}) {
    if (!c->ok()) return c->status();
  }
  p.q = view<C>(o->q, *cq);
  p.k = {*ck, p.kv_heads * p.keys * p.size, p.keys * p.size, p.size};
  p.v = {*cv, p.kv_heads * p.keys * p.v_size, p.keys * p.v_size, p.v_size};
  if (o->as_given) {
    p.k = view<C>(o->k, *ck);
    p.v = view<C>(o->v, *cv);
  }
  if (ctx.has_input(3)) {
    if (absl::Status s = add_mask(ctx, ctx.tensor(3), mask, p); !s.ok()) return s;
  }
  if (absl::Status s = add_range(ctx, o->past, p); !s.ok()) return s;
  if (q.dtype() == DType::kFloat16 || q.dtype() == DType::kBfloat16) p.round = rounding_to<C>(q.dtype());
  p.round_softmax = ctx.has_attr("softmax_precision") ? rounding_to<C>(static_cast<DType>(ctx.attr_i("softmax_precision", 1))) : p.round;
  const bool packed = o->q.packed;
  absl::StatusOr<Tensor> y =
      ctx.allocate(q.dtype(), packed ? Shape{p.batch, p.queries, p.heads * p.v_size} : Shape{p.batch, p.heads, p.queries, p.v_size});
  if (!y.ok()) return y.status();
  absl::StatusOr<Tensor> scores = Tensor();
  const bool direct = q.dtype() == dtype_of<C>();
  std::vector<C> result(direct ? 0 : static_cast<std::size_t>(y->size())), kept;
  p.out = direct ? write<C>(*y) : result.data();
  p.out_batch = p.queries * p.heads * p.v_size;
  p.out_head = packed ? p.v_size : p.queries * p.v_size;
  p.out_row = packed ? p.heads * p.v_size : p.v_size;
  if (ctx.wants(3)) {
    scores = ctx.allocate(q.dtype(), {p.batch, p.heads, p.queries, p.keys});
    if (!scores.ok()) return scores.status();
    kept.resize(static_cast<std::size_t>(scores->size()));
    p.scores = kept.data();
    p.score_stage = static_cast<int>(ctx.attr_i("qk_matmul_output_mode", 0));
  }
  attend(ctx, p);
  if (!direct) store_computed<C>(result, *y);
  if (ctx.wants(3)) store_computed<C>(kept, *scores);
  std::vector<Value> out = outputs_of(*std::move(y));
  if (o->as_given && !ctx.wants(3)) return out;
  out.emplace_back(o->as_given ? Value() : Value(std::move(o->key)));
  out.emplace_back(o->as_given ? Value() : Value(std::move(o->value)));
  if (ctx.wants(3)) out.emplace_back(*std::move(scores));
  return out;
}

Outputs attention(KernelContext& ctx) {
  const DType dtype = ctx.tensor(0).dtype();
  if (!names(FloatTypes{}, dtype)) return ctx.unsupported_dtype(dtype);
  const bool wide = dtype == DType::kDouble || (dtype == DType::kFloat && ctx.options.reference);
  return wide ? attention_as<double>(ctx) : attention_as<float>(ctx);
}

}  // namespace

void register_attention(Registry& registry) {
  registry.add("", "Attention", attention);
  register_attention_contrib(registry);
  register_attention_gqa(registry);
  register_attention_packed(registry);
  register_attention_linear(registry);
}

}  // namespace saturate
