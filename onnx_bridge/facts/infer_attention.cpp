// Norms, attention and rotary embeddings of ai.onnx, com.microsoft and the internal domain.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "onnx_bridge/facts/infer_call.h"

namespace saturate::inference {

namespace {

// Shape of the statistics of a norm over the axes from `axis` on.
std::optional<DimVector> statistics_shape(Call& c) {
  if (!c.has_rank(0)) return std::nullopt;
  auto axis = c.normal_axis(c.int_attribute("axis", -1), c.rank(0));
  if (!axis) return std::nullopt;
  DimVector shape = c.shape(0);
  std::fill(shape.begin() + *axis, shape.end(), c.constant(1));
  return shape;
}

void layer_normalization(Call& c) {
  c.set_like(0, 0);
  const auto statistics = statistics_shape(c);
  const auto stash = static_cast<DType>(c.int_attribute("stash_type", 1));
  for (int o = 1; o < c.num_outputs(); ++o) c.set(o, stash, statistics);
}

void rms_normalization(Call& c) { c.set(0, c.in(1).dtype, c.has_rank(0) ? c.in(0).shape : std::nullopt); }

void simplified_layer_normalization(Call& c) {
  c.set(0, c.in(1).dtype != DType::kUndefined ? c.in(1).dtype : c.in(0).dtype, c.has_rank(0) ? c.in(0).shape : std::nullopt);
  c.set(1, DType::kFloat, statistics_shape(c));
}

// Outputs: normalized, mean, inverse deviation, sum of input, skip and bias.
void skip_layer_normalization(Call& c) {
  std::optional<DimVector> shape = c.has_rank(0) ? c.in(0).shape : std::nullopt;
  c.set(0, c.in(0).dtype, shape);
  c.set(3, c.in(0).dtype, shape);
  if (shape && !shape->empty()) shape->back() = c.constant(1);
  c.set(1, DType::kFloat, shape);
  c.set(2, DType::kFloat, shape);
}

void embed_layer_normalization(Call& c) {
  const DType dtype = c.in(2).dtype;
  std::optional<DimVector> shape;
  if (c.has_rank(0) && c.has_rank(2) && c.rank(0) == 2 && c.rank(2) == 2) shape = DimVector{c.dim(0, 0), c.dim(0, 1), c.dim(2, 1)};
  c.set(0, dtype, shape);
  c.set(1, DType::kInt32, c.has_rank(0) && c.rank(0) == 2 ? std::optional(DimVector{c.dim(0, 0)}) : std::nullopt);
  c.set(2, dtype, shape);
}

void skip_group_norm(Call& c) {
  c.set_like(0, 0);
  c.set_like(1, 0);
}

std::optional<Dim> divided(Call& c, Dim d, std::int64_t by) { return by > 0 ? c.dims.exact_div(d, c.constant(by)) : std::nullopt; }

struct Heads {
  std::optional<Dim> heads, length, size;
};
// Heads of [B, H, S, D], or of [B, S, H * D] with the number of heads given.
Heads heads_of(Call& c, std::size_t i, std::int64_t number) {
  if (!c.has_rank(i)) return {};
  if (c.rank(i) == 4) return {c.dim(i, 1), c.dim(i, 2), c.dim(i, 3)};
  if (c.rank(i) != 3) return {};
  return {number > 0 ? std::optional(c.constant(number)) : std::nullopt, c.dim(i, 1), divided(c, c.dim(i, 2), number)};
}

Dim known_or_fresh(Call& c, std::optional<Dim> d, int output, int axis) { return d ? *d : c.fresh(output, axis); }

// ai.onnx.Attention 23 to 25.
void attention(Call& c) {
  const std::int64_t q_heads = c.int_attribute("q_num_heads", 0), kv_heads = c.int_attribute("kv_num_heads", 0);
  const Heads q = heads_of(c, 0, q_heads), k = heads_of(c, 1, kv_heads), v = heads_of(c, 2, kv_heads);
  c.set_dtype(0, c.in(0).dtype);
  c.set_dtype(1, c.in(1).dtype);
  c.set_dtype(2, c.in(2).dtype);
  c.set_dtype(3, c.in(0).dtype);
  if (!c.has_rank(0)) return;
  if (c.rank(0) != 3 && c.rank(0) != 4) return c.fail(absl::StrCat("queries of rank ", c.rank(0), ", not 3 or 4"));
  const Dim batch = c.dim(0, 0);
  if (c.rank(0) == 4)
    c.set_shape(0, DimVector{batch, c.dim(0, 1), c.dim(0, 2), known_or_fresh(c, v.size, 0, 3)});
  else if (c.rank(0) == 3)
    c.set_shape(0, DimVector{batch, c.dim(0, 1), v.size && q_heads > 0 ? c.dims.mul(*v.size, c.constant(q_heads)) : c.fresh(0, 2)});
  std::optional<Dim> total = k.length;
  if (c.has(4)) total = k.length && c.has_rank(4) && c.rank(4) == 4 ? std::optional(c.dims.add(c.dim(4, 2), *k.length)) : std::nullopt;
  if (total && c.has(3) && c.has_rank(3) && c.rank(3) > 0) c.dims.join_named(c.dim(3, c.rank(3) - 1), *total);
  for (int o = 1; o < 3 && c.wants(o); ++o) {
    const Heads& h = o == 1 ? k : v;
    c.set_shape(o, DimVector{batch, known_or_fresh(c, h.heads, o, 1), known_or_fresh(c, total, o, 2), known_or_fresh(c, h.size, o, 3)});
  }
  if (c.wants(3))
    c.set_shape(3, DimVector{batch, known_or_fresh(c, q.heads, 3, 1), known_or_fresh(c, q.length, 3, 2), known_or_fresh(c, total, 3, 3)});
}

// com.microsoft.Attention: input, weights, bias, mask_index, past, attention_bias, past_sequence_length.
void packed_attention(Call& c) {
  const DType dtype = c.in(0).dtype;
  c.set_dtype(0, dtype);
  c.set_dtype(1, dtype);
  if (!c.has_rank(0) || c.rank(0) != 3) return;
  const std::int64_t heads = c.int_attribute("num_heads", 0);
  std::optional<Dim> width;
  auto sizes = c.ints_attribute("qkv_hidden_sizes");
  if (sizes && sizes->size() == 3)
    width = c.constant((*sizes)[2]);
  else if (c.has_rank(1) && c.rank(1) == 2)
    width = divided(c, c.dim(1, 1), 3);
  else if (c.has_rank(2) && c.rank(2) == 1)
    width = divided(c, c.dim(2, 0), 3);
  c.set_shape(0, DimVector{c.dim(0, 0), c.dim(0, 1), known_or_fresh(c, width, 0, 2)});
  if (!c.wants(1)) return;
  // The cache holds K and V in one tensor: their head sizes agree.
  const bool past = c.has(4), shared = c.int_attribute("past_present_share_buffer", 0) != 0;
  std::optional<Dim> total = past ? std::nullopt : std::optional(c.dim(0, 1));
  if (past && c.has_rank(4) && c.rank(4) == 5) total = shared ? c.dim(4, 3) : c.dims.add(c.dim(4, 3), c.dim(0, 1));
  const auto head = width ? divided(c, *width, heads) : std::nullopt;
  c.set_shape(1, DimVector{c.constant(2), c.dim(0, 0), heads > 0 ? c.constant(heads) : c.fresh(1, 2), known_or_fresh(c, total, 1, 3),
                           known_or_fresh(c, head, 1, 4)});
}

// com.microsoft.MultiHeadAttention: query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value, ...
void multi_head_attention(Call& c) {
  for (int o = 0; o < c.num_outputs(); ++o) c.set_dtype(o, c.in(0).dtype);
  const std::int64_t heads = c.int_attribute("num_heads", 0);
  if (!c.has_rank(0)) return;
  if (c.rank(0) == 5) return c.set_shape(0, DimVector{c.dim(0, 0), c.dim(0, 1), c.dims.mul(c.dim(0, 2), c.dim(0, 4))});  // [B, S, N, 3, H]
  if (c.rank(0) != 3) return;
  std::optional<Dim> width;
  if (!c.has(2)) {
    if (c.has_rank(1) && c.rank(1) == 5) width = c.dim(0, 2);  // K and V packed: [B, L, N, 2, H]
  } else if (c.has_rank(2)) {
    if (c.rank(2) == 3) width = c.dim(2, 2);
    if (c.rank(2) == 4) width = c.dims.mul(c.dim(2, 1), c.dim(2, 3));
  }
  c.set_shape(0, DimVector{c.dim(0, 0), c.dim(0, 1), known_or_fresh(c, width, 0, 2)});
  if (c.has(8) || c.has(9)) return;  // a shared buffer's length is its own
  for (int o = 1; o < 3 && c.wants(o); ++o) {
    const auto i = static_cast<std::size_t>(o);
    const Heads h = heads_of(c, i, heads);
    std::optional<Dim> total = h.length;
    if (c.has(i + 5))
      total = h.length && c.has_rank(1) && c.rank(1) == 3 && c.has_rank(i + 5) && c.rank(i + 5) == 4
                  ? std::optional(c.dims.add(c.dim(i + 5, 2), *h.length))
                  : std::nullopt;
    c.set_shape(o,
                DimVector{c.dim(0, 0), known_or_fresh(c, h.heads, o, 1), known_or_fresh(c, total, o, 2), known_or_fresh(c, h.size, o, 3)});
  }
}

// com.microsoft.PackedMultiHeadAttention: query (or Q, K, V packed: [tokens, heads, 3, size]), key, value, bias, token_offset, ...
void packed_multi_head_attention(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0)) return;
  if (c.rank(0) == 4) return c.set_shape(0, DimVector{c.dim(0, 0), c.dims.mul(c.dim(0, 1), c.dim(0, 3))});
  if (c.rank(0) != 2) return;
  c.set_shape(0, DimVector{c.dim(0, 0), c.has(2) && c.has_rank(2) && c.rank(2) == 2 ? c.dim(2, 1) : c.fresh(0, 1)});
}

// com.microsoft.GroupQueryAttention: query (or Q, K, V packed), key, value, past_key, past_value, ...
void group_query_attention(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  const DType cache = c.has(3) ? c.in(3).dtype : c.in(0).dtype;
  c.set_dtype(1, cache);
  c.set_dtype(2, cache);
  const std::int64_t heads = c.int_attribute("num_heads", 0), kv_heads = c.int_attribute("kv_num_heads", 0);
  if (!c.has_rank(0) || c.rank(0) != 3 || heads <= 0 || kv_heads <= 0) return;
  const std::optional<Dim> head = divided(c, c.dim(0, 2), c.has(1) ? heads : heads + 2 * kv_heads);
  c.set_shape(0, DimVector{c.dim(0, 0), c.dim(0, 1), c.has(1) ? c.dim(0, 2) : head ? c.dims.mul(*head, c.constant(heads)) : c.fresh(0, 2)});
  for (int o = 1; o < 3 && c.wants(o); ++o)
    c.set_shape(o, DimVector{c.dim(0, 0), c.constant(kv_heads), c.fresh(o, 2), head ? *head : c.fresh(o, 3)});
}

// Internal operators are defined in rules/library/operators.rules. Those that are asked most have their facts here, too; `saturate rules
// check` compares them with the bodies.
void sdpa(Call& c) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0)) return;
  if (c.rank(0) != 4) return c.fail("a query that is not of rank 4");
  DimVector shape = c.shape(0);
  shape.back() = c.has_rank(2) && c.rank(2) > 0 ? c.dim(2, -1) : c.fresh(0, 3);
  c.set_shape(0, std::move(shape));
}

// Of the last axis.
void with_last(Call& c, Dim (*size)(Call&)) {
  c.set_dtype(0, c.in(0).dtype);
  if (!c.has_rank(0)) return;
  if (c.rank(0) == 0) return c.fail("there is no last axis");
  DimVector shape = c.shape(0);
  shape.back() = size(c);
  c.set_shape(0, std::move(shape));
}

void part(Call& c) {
  with_last(c, [](Call& call) { return call.constant(call.int_attribute("count", 0)); });
}

void twice(Call& c) {
  with_last(c, [](Call& call) { return call.dims.mul(call.dim(0, -1), call.constant(2)); });
}

// Of com.microsoft's a query or key head may serve several value heads, so that its keys do not tell how large one is.
void linear_attention(Call& c) {
  const bool shares = c.node.domain == "com.microsoft";
  c.set_dtype(0, c.in(0).dtype);
  if (shares && c.wants(1)) c.set_dtype(1, c.in(3).kind == Facts::Kind::kTensor ? c.in(3).dtype : c.in(0).dtype);
  const std::int64_t q_heads = c.int_attribute("q_num_heads", 0), kv_heads = c.int_attribute("kv_num_heads", 0);
  if (!c.has_rank(0) || c.rank(0) != 3 || c.int_attribute("state_window", 0) != 0) return;
  const Heads k = shares ? heads_of(c, 0, q_heads) : heads_of(c, 1, kv_heads), v = heads_of(c, 2, kv_heads);
  const std::int64_t heads = shares ? std::max(q_heads, kv_heads) : q_heads;
  c.set_shape(0, DimVector{c.dim(0, 0), c.dim(0, 1), v.size && q_heads > 0 ? c.dims.mul(*v.size, c.constant(heads)) : c.fresh(0, 2)});
  if (c.wants(1))
    c.set_shape(1,
                DimVector{c.dim(0, 0), known_or_fresh(c, v.heads, 1, 1), known_or_fresh(c, k.size, 1, 2), known_or_fresh(c, v.size, 1, 3)});
}

void causal_conv(Call& c) {
  c.set_like(0, 0);
  c.set_dtype(1, c.in(0).dtype);
  if (!c.has_rank(0) || !c.has_rank(1) || c.rank(0) != 3 || c.rank(1) != 3) return;
  // Forms of com.microsoft's own.
  if (c.int_attribute("dilation", 1) != 1 || c.int_attribute("channels_last", 0) != 0 || c.int_attribute("state_window", 0) != 0) return;
  c.set_shape(1, DimVector{c.dim(0, 0), c.dim(0, 1), c.dims.sub(c.dim(1, 2), c.constant(1))});
}

}  // namespace

void add_attention_rules(Rules& rules) {
  rules[":LayerNormalization"] = rules["com.microsoft:LayerNormalization"] = layer_normalization;
  rules[":RMSNormalization"] = rms_normalization;
  rules[":SimplifiedLayerNormalization"] = rules["com.microsoft:SimplifiedLayerNormalization"] = simplified_layer_normalization;
  rules["com.microsoft:SkipLayerNormalization"] = rules["com.microsoft:SkipSimplifiedLayerNormalization"] = skip_layer_normalization;
  rules["com.microsoft:EmbedLayerNormalization"] = embed_layer_normalization;
  rules["com.microsoft:SkipGroupNorm"] = skip_group_norm;
  rules[":Attention"] = attention;
  rules["com.microsoft:Attention"] = packed_attention;
  rules["com.microsoft:MultiHeadAttention"] = multi_head_attention;
  rules["com.microsoft:PackedMultiHeadAttention"] = packed_multi_head_attention;
  rules["com.microsoft:GroupQueryAttention"] = group_query_attention;
  rules[":LinearAttention"] = rules["com.microsoft:LinearAttention"] = linear_attention;
  rules[":CausalConvWithState"] = rules["com.microsoft:CausalConvWithState"] = causal_conv;
  rules["com.microsoft:MoE"] = rules["com.microsoft:QMoE"] = same_as_first;
  rules["saturate:sdpa"] = sdpa;
  rules["saturate:part"] = part;
  rules["saturate:twice"] = rules["saturate:interleave"] = twice;
  rules["saturate:rotate_half"] = rules["saturate:rope"] = rules["saturate:activation"] = same_as_first;
}

}  // namespace saturate::inference
