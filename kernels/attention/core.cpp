#include <algorithm>
#include <cmath>

#include "kernels/attention/attention.h"
#include "kernels/conv/channels_last.h"
#include "kernels/gemm/gemm.h"
#include "kernels/reduce/softmax.h"

namespace saturate {
namespace {

constexpr std::int64_t kQueryBlock = 96;
constexpr std::int64_t kPackedQueries = 16;  // from so many on packing K and V pays

template <typename C>
void apply_rounding(C (*round)(C), C* x, std::int64_t n) {
  if (round == nullptr) return;
  for (std::int64_t i = 0; i < n; ++i) x[i] = round(x[i]);
}

template <typename C>
void add_biases(const AttentionProblem<C>& p, std::int64_t b, std::int64_t h, std::int64_t i, C* row) {
  constexpr C kMinusInf = -std::numeric_limits<C>::infinity();
  for (const BiasView<C>& bias : p.biases) {
    const C* from = bias.data + b * bias.batch + h * bias.head + i * bias.row;
    if (bias.column == 1) {
      if constexpr (std::is_same_v<C, float>) {
        add_channels(from, row, p.keys);
        continue;
      }
      for (std::int64_t j = 0; j < p.keys; ++j) row[j] += from[j];
    } else {
      for (std::int64_t j = 0; j < p.keys; ++j) row[j] += from[j * bias.column];
    }
  }
  if (p.range) {
    const auto [low, high] = p.range(b, i);
    std::fill_n(row, std::clamp<std::int64_t>(low, 0, p.keys), kMinusInf);
    const std::int64_t end = std::clamp<std::int64_t>(high, 0, p.keys);
    std::fill(row + end, row + p.keys, kMinusInf);
  }
}

template <typename C>
void softmax_in_place(const AttentionProblem<C>& p, std::int64_t h, C* row, bool reference) {
  constexpr C kMinusInf = -std::numeric_limits<C>::infinity();
  if constexpr (std::is_same_v<C, float>) {
    if (p.sinks == nullptr && p.round_softmax == nullptr && !reference) return softmax_row(row, p.keys, p.zero_masked_rows);
  }
  const C top_key = p.keys == 0 ? kMinusInf : *std::max_element(row, row + p.keys);
  const bool masked = std::all_of(row, row + p.keys, [](C x) { return x == kMinusInf; });  // not: the largest is, which no NaN is
  if (masked && p.zero_masked_rows) return std::fill_n(row, p.keys, C(0)), void();
  const C top = p.sinks == nullptr ? top_key : std::max(top_key, p.sinks[h]);
  const auto round = [&](C x) { return p.round_softmax == nullptr ? x : p.round_softmax(x); };
  double sum = p.sinks == nullptr ? 0.0 : std::exp(static_cast<double>(p.sinks[h]) - static_cast<double>(top));
  for (std::int64_t j = 0; j < p.keys; ++j) {
    row[j] = round(std::exp(round(row[j] - top)));
    sum += static_cast<double>(row[j]);
  }
  const C total = round(static_cast<C>(sum));
  for (std::int64_t j = 0; j < p.keys; ++j) row[j] = round(row[j] / total);
}

// Memory for one head after another: rows that a block works on, scaled where the definition scales before the product, and packed
// matrices.
template <typename C>
struct HeadWork {
  std::vector<C> q, k, scores;
  PackedMatrix keys, values;
};

// Queries [first, first + count) of a head.
struct QueryBlock {
  std::int64_t batch, head, first, count;
};

template <typename C>
void score_block(const KernelContext& ctx, const AttentionProblem<C>& p, const QueryBlock& block, const MatrixView<C>& keys,
                 const PackedMatrix* packed, HeadWork<C>& work) {
  const std::int64_t count = block.count;
  const C* q = p.q.at(block.batch, block.head) + block.first * p.q.row;
  std::int64_t row = p.q.row;
  if (p.round != nullptr) {
    const C factor = p.round(static_cast<C>(std::sqrt(p.scale)));
    work.q.resize(static_cast<std::size_t>(count * p.size));
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t d = 0; d < p.size; ++d) work.q[static_cast<std::size_t>(i * p.size + d)] = p.round(q[i * row + d] * factor);
    }
    q = work.q.data();
    row = p.size;
  }
  // Fewer numbers than the scores are; they are rounded once more, though, so the judge scales scores.
  const bool scale_q = std::is_same_v<C, float> && p.round == nullptr && p.scale != 1.0 && p.size < p.keys && !ctx.options.reference;
  if (scale_q) {
    const C factor = static_cast<C>(p.scale);
    work.q.resize(static_cast<std::size_t>(count * p.size));
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t d = 0; d < p.size; ++d) work.q[static_cast<std::size_t>(i * p.size + d)] = q[i * row + d] * factor;
    }
    q = work.q.data();
    row = p.size;
  }
  C* scores = work.scores.data();
  if constexpr (std::is_same_v<C, float>) {
    if (packed != nullptr)
      gemm_packed(ctx, count, {q, row, 1}, *packed, {scores, p.keys});
    else
      gemm_any<C>(ctx, {count, p.keys, p.size}, {q, row, 1}, keys, {scores, p.keys});
  } else {
    gemm_any<C>(ctx, {count, p.keys, p.size}, {q, row, 1}, keys, {scores, p.keys});
  }
  const std::int64_t n = count * p.keys;
  if constexpr (std::is_same_v<C, float>) {
    if (p.round == nullptr && p.scale != 1.0 && !scale_q) scale_channels(static_cast<float>(p.scale), scores, n);
  } else if (p.round == nullptr) {
    for (std::int64_t i = 0; i < n; ++i) scores[i] *= static_cast<C>(p.scale);
  }
  apply_rounding(p.round, scores, n);
}

template <typename C>
void keep(const AttentionProblem<C>& p, int stage, const QueryBlock& block, const C* scores) {
  if (p.scores == nullptr || p.score_stage != stage) return;
  std::copy_n(scores, block.count * p.keys, p.scores + ((block.batch * p.heads + block.head) * p.queries + block.first) * p.keys);
}

template <typename C>
void attend_head(const KernelContext& ctx, const AttentionProblem<C>& p, std::int64_t b, std::int64_t h, HeadWork<C>& work) {
  const std::int64_t kv = h / (p.heads / p.kv_heads);
  MatrixView<C> keys{p.k.at(b, kv), p.k_element, p.k.row};
  if (p.round != nullptr) {
    const C factor = p.round(static_cast<C>(std::sqrt(p.scale)));
    work.k.resize(static_cast<std::size_t>(p.keys * p.size));
    for (std::int64_t j = 0; j < p.keys; ++j) {
      for (std::int64_t d = 0; d < p.size; ++d)
        work.k[static_cast<std::size_t>(j * p.size + d)] = p.round(keys.data[j * p.k.row + d] * factor);
    }
    keys = {work.k.data(), 1, p.size};
  }
  const MatrixView<C> values{p.v.at(b, kv), p.v.row, 1};
  const PackedMatrix *packed = nullptr, *packed_values = nullptr;  // for all blocks
  if constexpr (std::is_same_v<C, float>) {
    if (!ctx.options.reference && p.queries >= kPackedQueries) {
      pack_matrix(p.size, p.keys, keys, work.keys);
      pack_matrix(p.keys, p.v_size, values, work.values);
      packed = &work.keys;
      packed_values = &work.values;
    }
  }
  work.scores.resize(static_cast<std::size_t>(std::min(p.queries, kQueryBlock) * p.keys));
  for (std::int64_t first = 0; first < p.queries; first += kQueryBlock) {
    const std::int64_t count = std::min(kQueryBlock, p.queries - first), n = count * p.keys;
    C* scores = work.scores.data();
    const QueryBlock block{b, h, first, count};
    score_block(ctx, p, block, keys, packed, work);
    keep(p, 0, block, scores);
    if (p.softcap > 0) {
      const C cap = static_cast<C>(p.softcap);
      const auto round = [&](C x) { return p.round == nullptr ? x : p.round(x); };
      for (std::int64_t i = 0; i < n; ++i) scores[i] = round(round(std::tanh(round(scores[i] / cap))) * cap);
    }
    keep(p, 1, block, scores);
    for (std::int64_t i = 0; i < count; ++i) add_biases(p, b, h, first + i, scores + i * p.keys);
    apply_rounding(p.round, scores, n);
    keep(p, 2, block, scores);
    for (std::int64_t i = 0; i < count; ++i) softmax_in_place(p, h, scores + i * p.keys, ctx.options.reference);
    apply_rounding(p.round, scores, n);
    keep(p, 3, block, scores);
    C* out = p.out + b * p.out_batch + h * p.out_head + first * p.out_row;
    if constexpr (std::is_same_v<C, float>) {
      if (packed_values != nullptr) {
        gemm_packed(ctx, count, {scores, p.keys, 1}, *packed_values, {out, p.out_row});
        continue;
      }
    }
    gemm_any<C>(ctx, {count, p.v_size, p.keys}, {scores, p.keys, 1}, values, {out, p.out_row});
  }
}

}  // namespace

template <typename C>
void attend(const KernelContext& ctx, const AttentionProblem<C>& p) {
  parallel_for(ctx, p.batch * p.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    HeadWork<C> work;
    for (std::int64_t i = begin; i < end; ++i) attend_head(ctx, p, i / p.heads, i % p.heads, work);
  });
}

template void attend(const KernelContext&, const AttentionProblem<float>&);
template void attend(const KernelContext&, const AttentionProblem<double>&);

template <typename C>
absl::StatusOr<const C*> as_compute(const KernelContext& ctx, const Tensor& t, std::vector<C>& store) {
  if (t.dtype() == dtype_of<C>()) return t.data<C>();
  store.resize(static_cast<std::size_t>(t.size()));
  Outputs done = dispatch(NumericTypes{}, ctx, t.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    for (std::size_t i = 0; i < store.size(); ++i) store[i] = static_cast<C>(t.data<T>()[i]);
    return std::vector<Value>();
  });
  if (!done.ok()) return done.status();
  return store.data();
}

template absl::StatusOr<const float*> as_compute(const KernelContext&, const Tensor&, std::vector<float>&);
template absl::StatusOr<const double*> as_compute(const KernelContext&, const Tensor&, std::vector<double>&);

}  // namespace saturate
