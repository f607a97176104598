// Scaled dot product attention over heads, shared by the attention operators of both domains.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/core/registry.h"

namespace saturate {

// [batch, heads, sequence, size] by strides in elements; the last dim is adjacent.
template <typename C>
struct HeadsView {
  const C* data = nullptr;
  std::int64_t batch = 0, head = 0, row = 0;
  const C* at(std::int64_t b, std::int64_t h) const { return data + b * batch + h * head; }
};

// Added to the scores, broadcast by zero strides over [batch, heads, queries, keys].
template <typename C>
struct BiasView {
  const C* data = nullptr;
  std::int64_t batch = 0, head = 0, row = 0, column = 1;
};

template <typename C>
struct AttentionProblem {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, size = 0, v_size = 0;
  HeadsView<C> q, k, v;
  std::int64_t k_element = 1;  // stride along the size of K, where it isn't adjacent (and nothing is rounded)
  C* out = nullptr;            // strides below
  std::int64_t out_batch = 0, out_head = 0, out_row = 0;
  double scale = 1.0, softcap = 0.0;
  std::vector<BiasView<C>> biases;
  // Keys [first, second) that query i of batch entry b may see at all; empty function: all of them.
  std::function<std::pair<std::int64_t, std::int64_t>(std::int64_t b, std::int64_t i)> range;
  // A row that sees nothing (or only -inf) gives zeros; NaN otherwise.
  bool zero_masked_rows = true;
  // Extra logits that take part in the sum only: one a head (attention sinks); null: none.
  const C* sinks = nullptr;
  // Rounds intermediate results to the operator's own type, where its definition has it compute in that type; null: no rounding.
  C (*round)(C) = nullptr;
  C (*round_softmax)(C) = nullptr;  // within the softmax
  // Where not null: [batch, heads, queries, keys] of scores at the stage that `score_stage` says (0 raw, 1 after softcap, 2 with bias, 3
  // probabilities).
  C* scores = nullptr;
  int score_stage = 0;
};

// Blocks of queries at a time: the whole score matrix is never held (ONNX spec, Attention; onnxruntime docs/ContribOperators.md).
template <typename C>
void attend(const KernelContext& ctx, const AttentionProblem<C>& problem);

// The elements of a tensor of numbers as C: a view of the tensor itself where the types agree, a copy in `store` otherwise.
template <typename C>
absl::StatusOr<const C*> as_compute(const KernelContext& ctx, const Tensor& t, std::vector<C>& store);

// Rotates pairs of the first `rotary` elements of x (a head's vector of one position). cos and sin have rotary / 2 elements. y may be x.
template <typename C>
void rotate(const C* x, const C* cos, const C* sin, std::int64_t rotary, bool interleaved, C* y) {
  const std::int64_t half = rotary / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const std::int64_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + half;
    const C u = x[a], w = x[b];
    y[a] = u * cos[i] - w * sin[i];
    y[b] = u * sin[i] + w * cos[i];
  }
}

// Rows of all heads with the bias of the projection that made them: in `store`, heads side by side.
template <typename C>
HeadsView<C> with_bias(const HeadsView<C>& from, std::int64_t batch, std::int64_t rows, std::int64_t heads, std::int64_t size,
                       const C* bias, std::vector<C>& store) {
  std::vector<C> sums(static_cast<std::size_t>(batch * rows * heads * size));
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const C* x = from.at(b, h) + i * from.row;
        C* y = sums.data() + ((b * rows + i) * heads + h) * size;
        for (std::int64_t d = 0; d < size; ++d) y[d] = x[d] + bias[h * size + d];
      }
    }
  }
  store = std::move(sums);
  return {store.data(), rows * heads * size, size, heads * size};
}

// Of com.microsoft's operators, for heads of this size.
inline double score_scale(const KernelContext& ctx, std::int64_t size) {
  const float given = ctx.attr_f("scale", 0.0f);
  return given == 0.0f ? 1.0 / std::sqrt(static_cast<double>(size)) : static_cast<double>(given);
}

void register_attention_contrib(Registry& registry);
void register_attention_gqa(Registry& registry);
void register_attention_linear(Registry& registry);
void register_attention_packed(Registry& registry);

}  // namespace saturate
