// com.microsoft BiasGelu, FastGelu, BiasSplitGelu, EmbedLayerNormalization (onnxruntime docs/ContribOperators.md). RotaryEmbedding of both
// domains (ONNX spec, RotaryEmbedding-23).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/attention/attention.h"
#include "kernels/elementwise/activation.h"
#include "kernels/reduce/norm.h"

namespace saturate {
namespace {

// x + bias with bias along the last dim; x itself where there is no bias.
absl::StatusOr<Tensor> biased(const KernelContext& ctx, bool required) {
  const Tensor &x = ctx.tensor(0), &bias = ctx.tensor(1);
  if (!ctx.has_input(1)) return required ? absl::StatusOr<Tensor>(ctx.invalid("needs a bias")) : absl::StatusOr<Tensor>(x);
  if (x.rank() < 1 || bias.dims() != Shape{x.dims().back()} || bias.dtype() != x.dtype())
    return ctx.invalid("the bias does not fit the last dim");
  Outputs sum = dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    using C = Compute<T>;
    return zip_elements<T, T, T>(ctx, x, bias, [](T a, T b) { return static_cast<T>(static_cast<C>(a) + static_cast<C>(b)); });
  });
  if (!sum.ok()) return sum.status();
  return (*sum)[0].tensor();
}

Outputs bias_gelu(KernelContext& ctx) {
  absl::StatusOr<Tensor> x = biased(ctx, true);
  if (!x.ok()) return x.status();
  return map_activation(ctx, *x, gelu_floats, [](auto v) { return gelu(v); });
}

Outputs fast_gelu(KernelContext& ctx) {
  absl::StatusOr<Tensor> x = biased(ctx, false);
  if (!x.ok()) return x.status();
  return map_activation(ctx, *x, gelu_tanh_floats, [](auto v) { return gelu_tanh(v); });
}

// Left half of the last dim times gelu of the right half.
Outputs bias_split_gelu(KernelContext& ctx) {
  absl::StatusOr<Tensor> x = biased(ctx, true);
  if (!x.ok()) return x.status();
  if (x->dims().back() % 2 != 0) return ctx.invalid("the last dim is odd");
  Shape dims = x->dims();
  const std::int64_t half = dims.back() /= 2;
  absl::StatusOr<Tensor> y = ctx.allocate(x->dtype(), dims);
  if (!y.ok()) return y.status();
  return dispatch(FloatTypes{}, ctx, x->dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    const T* in = x->data<T>();
    for (std::int64_t i = 0; i < y->size(); ++i) {
      const T* row = in + i / half * 2 * half;
      write<T>(*y)[i] = static_cast<T>(static_cast<double>(row[i % half]) * gelu(static_cast<double>(row[half + i % half])));
    }
    return outputs_of(*std::move(y));
  });
}

// The row of each id of a [batch, rows] tensor, checked against the table.
absl::StatusOr<std::vector<std::int64_t>> ids_of(const KernelContext& ctx, const Tensor& ids, const Tensor& table, std::int64_t hidden) {
  if (table.rank() != 2 || table.dims()[1] != hidden) return ctx.invalid("an embedding has the wrong shape");
  absl::StatusOr<std::vector<std::int64_t>> out = int_values(ctx, ids);
  if (!out.ok()) return out;
  for (std::int64_t id : *out) {
    if (id < 0 || id >= table.dims()[0]) return ctx.invalid("an id is outside its embedding");
  }
  return out;
}

template <typename T>
Outputs embed_as(const KernelContext& ctx) {
  const Tensor &ids = ctx.tensor(0), &word = ctx.tensor(2), &position = ctx.tensor(3), &segment = ctx.tensor(4);
  if (ids.rank() != 2 || word.rank() != 2) return ctx.invalid("input_ids or word_embedding has the wrong rank");
  const std::int64_t batch = ids.dims()[0], rows = ids.dims()[1], hidden = word.dims()[1];
  for (std::size_t i : {2u, 3u, 4u, 5u, 6u}) {
    if (ctx.has_input(i) && ctx.tensor(i).dtype() != dtype_of<T>()) return ctx.invalid("the embeddings differ in element type");
  }
  if (ctx.tensor(5).size() != hidden || ctx.tensor(6).size() != hidden) return ctx.invalid("gamma or beta does not fit");
  absl::StatusOr<std::vector<std::int64_t>> words = ids_of(ctx, ids, word, hidden), segments = std::vector<std::int64_t>(),
                                            positions = std::vector<std::int64_t>();
  if (!words.ok()) return words.status();
  const bool with_segments = ctx.has_input(1) && ctx.has_input(4);
  if (with_segments) segments = ids_of(ctx, ctx.tensor(1), segment, hidden);
  if (!segments.ok()) return segments.status();
  if (with_segments && segments->size() != words->size()) return ctx.invalid("segment_ids do not fit input_ids");
  if (ctx.has_input(8)) positions = ids_of(ctx, ctx.tensor(8), position, hidden);
  if (!positions.ok()) return positions.status();
  if (!positions->empty() && static_cast<std::int64_t>(positions->size()) % std::max<std::int64_t>(1, rows) != 0)
    return ctx.invalid("position_ids do not fit input_ids");
  if (position.rank() != 2 || position.dims()[1] != hidden || (!ctx.has_input(8) && position.dims()[0] < rows))
    return ctx.invalid("position_embedding is too short");
  absl::StatusOr<Tensor> sum = ctx.allocate(dtype_of<T>(), {batch, rows, hidden}), y = ctx.allocate(dtype_of<T>(), {batch, rows, hidden});
  if (!sum.ok()) return sum.status();
  if (!y.ok()) return y.status();
  const auto element = [](const Tensor& table, std::int64_t i) {
    T value;
    std::memcpy(&value, table.data<T>() + i, sizeof value);
    return static_cast<double>(value);
  };
  for (std::int64_t i = 0; i < batch * rows; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const std::int64_t at = positions->empty() ? i % rows : (*positions)[k % positions->size()];
    for (std::int64_t j = 0; j < hidden; ++j) {
      double v = element(word, (*words)[k] * hidden + j) + element(position, at * hidden + j);
      if (with_segments) v += element(segment, (*segments)[k] * hidden + j);
      write<T>(*sum)[i * hidden + j] = static_cast<T>(v);
    }
  }
  const NormOptions o{ctx.attr_f("epsilon", 1e-12f), false, batch * rows, hidden};
  normalize_rows<T, T>(ctx, o, sum->template data<T>(), {ctx.tensor(5).data<T>(), ctx.tensor(6).data<T>()}, write<T>(*y));
  absl::StatusOr<Tensor> mask_index = ctx.allocate_zeroed(DType::kInt32, {batch});
  if (!mask_index.ok()) return mask_index.status();
  if (ctx.has_input(7)) {
    absl::StatusOr<std::vector<std::int64_t>> mask = int_values(ctx, ctx.tensor(7));
    if (!mask.ok()) return mask.status();
    if (mask->size() != words->size()) return ctx.invalid("mask does not fit input_ids");
    for (std::size_t i = 0; i < mask->size(); ++i)
      write<std::int32_t>(*mask_index)[static_cast<std::int64_t>(i) / rows] += (*mask)[i] == 1 ? 1 : 0;
  }
  return outputs_of(*std::move(y), *std::move(mask_index), *std::move(sum));
}

Outputs embed_layer_normalization(KernelContext& ctx) {
  return dispatch(FloatTypes{}, ctx, ctx.tensor(2).dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs { return embed_as<T>(ctx); });
}

struct Rotary {
  std::int64_t batch = 0, rows = 0, heads = 0, size = 0, dim = 0;
  bool heads_first = false;
};

// Positions: an id per (batch, row); for com.microsoft also one offset for all. Empty: the caches are per (batch, row) already.
template <typename T>
Outputs rotary_as(const KernelContext& ctx, const Rotary& r, const Tensor& cos, const Tensor& sin,
                  const std::vector<std::int64_t>& positions) {
  const Tensor& x = ctx.tensor(0);
  const std::int64_t half = r.dim / 2;
  absl::StatusOr<Tensor> y = ctx.allocate(x.dtype(), x.dims());
  if (!y.ok()) return y.status();
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::vector<C> sc, ss;
  absl::StatusOr<const C*> pc = as_compute<C>(ctx, cos, sc), ps = as_compute<C>(ctx, sin, ss);
  if (!pc.ok()) return pc.status();
  if (!ps.ok()) return ps.status();
  const bool interleaved = ctx.attr_i("interleaved", 0) != 0;
  parallel_for(ctx, r.batch * r.rows, std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, r.heads * r.size)),
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<C> in(static_cast<std::size_t>(r.size));
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t b = i / r.rows, s = i % r.rows;
                   const std::int64_t row = positions.empty()       ? i
                                            : positions.size() == 1 ? positions[0] + s
                                                                    : positions[static_cast<std::size_t>(i)];
                   for (std::int64_t h = 0; h < r.heads; ++h) {
                     const std::int64_t at = r.heads_first ? ((b * r.heads + h) * r.rows + s) * r.size : (i * r.heads + h) * r.size;
                     for (std::int64_t d = 0; d < r.size; ++d) in[static_cast<std::size_t>(d)] = static_cast<C>(x.data<T>()[at + d]);
                     rotate(in.data(), *pc + row * half, *ps + row * half, r.dim, interleaved, in.data());
                     for (std::int64_t d = 0; d < r.size; ++d) write<T>(*y)[at + d] = static_cast<T>(in[static_cast<std::size_t>(d)]);
                   }
                 }
               });
  return outputs_of(*std::move(y));
}

// com.microsoft: inputs (x, position_ids, cos, sin), caches [longest, dim / 2]; ONNX Runtime does not heed its `scale` (1.20 to 1.32).
// ONNX: (x, cos, sin, position_ids or none).
template <bool kContrib>
Outputs rotary_embedding(KernelContext& ctx) {
  const Tensor &x = ctx.tensor(0), &cos = ctx.tensor(kContrib ? 2 : 1), &sin = ctx.tensor(kContrib ? 3 : 2);
  const std::size_t position_input = kContrib ? 1 : 3;
  Rotary r;
  const std::int64_t heads = ctx.attr_i("num_heads", 0), dim = ctx.attr_i("rotary_embedding_dim", 0);
  if (cos.dims() != sin.dims() || cos.rank() < 2) return ctx.invalid("the caches have the wrong shape");
  const std::int64_t half = cos.dims().back();
  if (x.rank() == 4) {
    r = {x.dims()[0], x.dims()[2], x.dims()[1], x.dims()[3], 0, true};
  } else if (x.rank() == 3) {
    const std::int64_t hidden = x.dims()[2];
    // Without head count, com.microsoft takes heads of twice the caches' width.
    std::int64_t n = heads > 0 ? heads : kContrib && half > 0 ? hidden / (2 * half) : 0;
    if (n < 1 || hidden % n != 0) return ctx.invalid("num_heads does not fit the input");
    r = {x.dims()[0], x.dims()[1], n, hidden / n, 0, false};
  } else {
    return ctx.invalid("the input must be of rank 3 or 4");
  }
  r.dim = dim > 0 ? dim : kContrib ? 2 * half : r.size;
  if (r.dim != 2 * half || r.dim > r.size) return ctx.invalid("the caches do not fit the rotary dim");
  std::vector<std::int64_t> positions;
  if (ctx.has_input(position_input)) {
    absl::StatusOr<std::vector<std::int64_t>> ids = int_values(ctx, ctx.tensor(position_input));
    if (!ids.ok()) return ids.status();
    positions = *std::move(ids);
    if (static_cast<std::int64_t>(positions.size()) != r.batch * r.rows && !(kContrib && positions.size() == 1))
      return ctx.invalid("position_ids do not fit the input");
    const std::int64_t from_each = positions.size() == 1 ? r.rows : 1;  // a sum with the position may overflow
    for (const std::int64_t p : positions)
      if (p < 0 || p > cos.dims()[0] - from_each) return ctx.invalid("a position is outside the caches");
  } else if (cos.rank() != 3 || cos.dims()[0] != r.batch || cos.dims()[1] != r.rows) {
    return ctx.invalid("without position_ids, the caches must be [batch, sequence, dim / 2]");
  }
  return dispatch(FloatTypes{}, ctx, x.dtype(),
                  [&]<typename T>(std::type_identity<T>) -> Outputs { return rotary_as<T>(ctx, r, cos, sin, positions); });
}

}  // namespace

void register_contrib(Registry& registry) {
  registry.add(kMicrosoft, "BiasGelu", bias_gelu);
  registry.add(kMicrosoft, "FastGelu", fast_gelu);
  registry.add(kMicrosoft, "BiasSplitGelu", bias_split_gelu);
  registry.add(kMicrosoft, "EmbedLayerNormalization", embed_layer_normalization,
               1u << 2 | 1u << 3 | 1u << 4);  // of tables few rows are read
  registry.add(kMicrosoft, "RotaryEmbedding", rotary_embedding<true>);
  registry.add("", "RotaryEmbedding", rotary_embedding<false>);
}

}  // namespace saturate
