// com.microsoft PackedMultiHeadAttention (onnxruntime docs/ContribOperators.md): attention within each of several sequences that lie one
// after another, without padding.
#include <algorithm>

#include "kernels/attention/attention.h"
#include "kernels/elementwise/elementwise.h"

namespace saturate {
namespace {

struct PackedSizes {
  std::int64_t tokens = 0, heads = 0, size = 0, v_size = 0;
  std::vector<std::int64_t> bounds;  // sequence i has the rows [bounds[i], bounds[i + 1])
};

absl::StatusOr<PackedSizes> packed_sizes(const KernelContext& ctx) {
  PackedSizes s;
  const Tensor& q = ctx.tensor(0);
  s.heads = ctx.attr_i("num_heads", 0);
  if (s.heads < 1 || q.rank() < 2) return ctx.invalid("num_heads or the query's rank is wrong");
  s.tokens = q.dims()[0];
  if (!ctx.has_input(1)) {  // packed [tokens, heads, 3, size]
    if (q.rank() != 4 || q.dims()[1] != s.heads || q.dims()[2] != 3) return ctx.invalid("packed QKV has the wrong shape");
    s.size = s.v_size = q.dims()[3];
  } else {
    if (!ctx.has_input(2)) return ctx.invalid("the value is missing");
    const Shape &k = ctx.tensor(1).dims(), &v = ctx.tensor(2).dims();
    if (q.rank() != 2 || k != q.dims() || v.size() != 2 || v[0] != s.tokens || q.dims()[1] % s.heads != 0 || v[1] % s.heads != 0)
      return ctx.invalid("query, key or value has the wrong shape");
    s.size = q.dims()[1] / s.heads, s.v_size = v[1] / s.heads;
  }
  absl::StatusOr<std::vector<std::int64_t>> bounds = int_values(ctx, ctx.tensor(5));
  if (!bounds.ok()) return bounds.status();
  s.bounds = *std::move(bounds);
  if (s.bounds.empty() || s.bounds.front() != 0 || s.bounds.back() != s.tokens || !std::is_sorted(s.bounds.begin(), s.bounds.end()))
    return ctx.invalid("cumulative_sequence_length does not rise from 0 to the number of tokens");
  return s;
}

// Q, K and V: views of what is read, or of its sums with the bias.
template <typename C>
struct PackedInputs {
  std::array<std::vector<C>, 3> store;
  std::array<HeadsView<C>, 3> view;
};

template <typename C>
absl::Status add_packed_bias(const KernelContext& ctx, const PackedSizes& s, PackedInputs<C>& in) {
  if (!ctx.has_input(3)) return absl::OkStatus();
  std::vector<C> store;
  if (ctx.tensor(3).size() != s.heads * (2 * s.size + s.v_size)) return ctx.invalid("the bias does not fit");
  const absl::StatusOr<const C*> bias = as_compute<C>(ctx, ctx.tensor(3), store);
  if (!bias.ok()) return bias.status();
  const C* from = *bias;
  for (std::size_t part = 0; part < 3; ++part) {
    const std::int64_t size = part == 2 ? s.v_size : s.size;
    in.view[part] = with_bias(in.view[part], 1, s.tokens, s.heads, size, from, in.store[part]);
    from += s.heads * size;
  }
  return absl::OkStatus();
}

template <typename C>
absl::Status read_packed(const KernelContext& ctx, const PackedSizes& s, PackedInputs<C>& in) {
  const std::size_t given = ctx.has_input(1) ? 3 : 1;
  std::array<const C*, 3> data{};
  for (std::size_t i = 0; i < given; ++i) {
    const absl::StatusOr<const C*> c = as_compute<C>(ctx, ctx.tensor(i), in.store[i]);
    if (!c.ok()) return c.status();
    data[i] = *c;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t size = i == 2 ? s.v_size : s.size;
    in.view[i] = given == 3 ? HeadsView<C>{data[i], 0, size, s.heads * size}
                            : HeadsView<C>{data[0] + static_cast<std::int64_t>(i) * s.size, 0, 3 * s.size, s.heads * 3 * s.size};
  }
  return add_packed_bias(ctx, s, in);
}

// What is added to the scores: [1 or sequences, 1 or heads, longest, longest].
template <typename C>
absl::StatusOr<std::optional<BiasView<C>>> score_bias(const KernelContext& ctx, const PackedSizes& s, std::vector<C>& store) {
  if (!ctx.has_input(6)) return std::nullopt;
  const Shape& d = ctx.tensor(6).dims();
  const auto sequences = static_cast<std::int64_t>(s.bounds.size()) - 1;
  std::int64_t longest = 0;
  for (std::size_t i = 1; i < s.bounds.size(); ++i) longest = std::max(longest, s.bounds[i] - s.bounds[i - 1]);
  if (d.size() != 4 || (d[0] != 1 && d[0] != sequences) || (d[1] != 1 && d[1] != s.heads) || d[2] != d[3] || d[2] < longest)
    return ctx.invalid("attention_bias does not fit the scores");
  const absl::StatusOr<const C*> data = as_compute<C>(ctx, ctx.tensor(6), store);
  if (!data.ok()) return data.status();
  return BiasView<C>{*data, d[0] == 1 ? 0 : d[1] * d[2] * d[3], d[1] == 1 ? 0 : d[2] * d[3], d[3], 1};
}

template <typename C>
Outputs packed_as(const KernelContext& ctx) {
  const absl::StatusOr<PackedSizes> s = packed_sizes(ctx);
  if (!s.ok()) return s.status();
  PackedInputs<C> in;
  if (absl::Status status = read_packed(ctx, *s, in); !status.ok()) return status;
  std::vector<C> bias_store, out(static_cast<std::size_t>(s->tokens * s->heads * s->v_size));
  const absl::StatusOr<std::optional<BiasView<C>>> bias = score_bias<C>(ctx, *s, bias_store);
  if (!bias.ok()) return bias.status();
  for (std::size_t i = 0; i + 1 < s->bounds.size(); ++i) {
    const std::int64_t first = s->bounds[i], rows = s->bounds[i + 1] - first;
    if (rows == 0) continue;
    AttentionProblem<C> p;
    p.batch = 1, p.heads = p.kv_heads = s->heads, p.queries = p.keys = rows, p.size = s->size, p.v_size = s->v_size;
    p.scale = score_scale(ctx, s->size);
    p.zero_masked_rows = false;
    const auto from_first = [&](HeadsView<C> view) { return view.data += first * view.row, view; };
    p.q = from_first(in.view[0]), p.k = from_first(in.view[1]), p.v = from_first(in.view[2]);
    if (bias->has_value()) {
      p.biases.push_back(**bias);
      p.biases.back().data += static_cast<std::int64_t>(i) * p.biases.back().batch;
    }
    p.out_head = s->v_size, p.out_row = s->heads * s->v_size, p.out_batch = rows * p.out_row;
    p.out = out.data() + first * p.out_row;
    attend(ctx, p);
  }
  absl::StatusOr<Tensor> y = narrowed(ctx, ctx.tensor(0).dtype(), {s->tokens, s->heads * s->v_size}, out);
  if (!y.ok()) return y.status();
  return outputs_of(*std::move(y));
}

Outputs packed_multi_head_attention(KernelContext& ctx) {
  const DType dtype = ctx.tensor(0).dtype();
  if (!names(FloatTypes{}, dtype)) return ctx.unsupported_dtype(dtype);
  return dtype == DType::kDouble || ctx.options.reference ? packed_as<double>(ctx) : packed_as<float>(ctx);
}

}  // namespace

void register_attention_packed(Registry& registry) { registry.add(kMicrosoft, "PackedMultiHeadAttention", packed_multi_head_attention); }

}  // namespace saturate
