// Weights of few bits in blocks (com.microsoft MatMulNBits, MatMulBnb4, GatherBlockQuantized).
#include <algorithm>

#include "kernels/gemm/gemm.h"
#include "kernels/quantized/util.h"

namespace saturate {
namespace {

// Element i of a row of packed elements, low bits first.
std::uint32_t packed_element(const std::uint8_t* row, std::int64_t i, std::int64_t bits) {
  const std::int64_t bit = i * bits;
  return (row[bit >> 3] >> (bit & 7)) & ((1u << bits) - 1);
}

struct Weights {
  PackedMatrix packed;
  std::vector<float> plain;  // [n, k], kept for reference runs only
};

Weights weights_of(const KernelContext& ctx, std::vector<float> plain, std::int64_t k, std::int64_t n) {
  Weights w;
  if (!ctx.options.reference)
    w.packed = pack_matrix(k, n, {plain.data(), 1, k});
  else
    w.plain = std::move(plain);
  return w;
}

// The weights, made once per session where the inputs from 1 to `last` are constant.
template <typename F>
std::shared_ptr<const absl::StatusOr<Weights>> cached_weights(KernelContext& ctx, std::size_t last, F&& make) {
  using Made = absl::StatusOr<Weights>;
  bool constant = true;
  for (std::size_t i = 1; i <= last; ++i) constant = constant && (!ctx.has_input(i) || ctx.is_constant(i));
  if (constant) {
    if (auto kept = ctx.prepared<Made>([&]() -> Made { return make(); })) return kept;
  }
  return std::make_shared<const Made>(make());
}

// A W' + bias; A's last axis has k elements.
Outputs times_weights(KernelContext& ctx, const Weights& w, std::int64_t k, std::int64_t n, const Tensor* bias) {
  const Tensor& a = ctx.tensor(0);
  const std::int64_t m = k == 0 ? 0 : a.size() / k;
  Shape dims = a.dims();
  dims.back() = n;
  const auto values = to_doubles(ctx, a);
  if (!values.ok()) return values.status();
  const std::vector<float> left(values->begin(), values->end());
  if (const auto room = ctx.allocate(DType::kDouble, dims); !room.ok()) return room.status();
  std::vector<float> y(static_cast<std::size_t>(m * n));
  if (ctx.options.reference)
    gemm_reference<float>({m, n, k}, {left.data(), k, 1}, {w.plain.data(), 1, k}, {y.data(), n});
  else
    gemm_packed(ctx, m, {left.data(), k, 1}, w.packed, {y.data(), n});
  std::vector<double> sum(y.begin(), y.end());
  if (bias != nullptr) {
    const auto b = to_doubles(ctx, *bias);
    if (!b.ok()) return b.status();
    if (static_cast<std::int64_t>(b->size()) != n) return ctx.invalid("the bias has the wrong length");
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += (*b)[i % static_cast<std::size_t>(n)];
  }
  return one_output(from_doubles(ctx, a.dtype(), dims, sum));
}

struct NBits {
  std::int64_t k = 0, n = 0, bits = 4, block = 0, blocks = 0, blob = 0;
};

absl::StatusOr<Weights> nbits_weights(const KernelContext& ctx, const NBits& p) {
  const Tensor& b = ctx.tensor(1);
  const auto scales = to_doubles(ctx, ctx.tensor(2));
  if (!scales.ok()) return scales.status();
  if (static_cast<std::int64_t>(scales->size()) != p.n * p.blocks) return ctx.invalid("scales has the wrong size");
  std::vector<double> zeros(scales->size(), static_cast<double>(1 << (p.bits - 1)));
  if (ctx.has_input(3)) {
    const Tensor& z = ctx.tensor(3);
    const std::int64_t row = (p.blocks * p.bits + 7) / 8;
    if (z.dtype() != DType::kUint8) {
      auto given = to_doubles(ctx, z);
      if (!given.ok()) return given.status();
      if (given->size() != zeros.size()) return ctx.invalid("zero_points has the wrong size");
      zeros = *std::move(given);
    } else {
      if (z.size() != p.n * row) return ctx.invalid("zero_points has the wrong size");
      for (std::int64_t i = 0; i < p.n * p.blocks; ++i)
        zeros[static_cast<std::size_t>(i)] = packed_element(z.data<std::uint8_t>() + i / p.blocks * row, i % p.blocks, p.bits);
    }
  }
  std::vector<std::int64_t> group(static_cast<std::size_t>(p.k));
  for (std::int64_t k = 0; k < p.k; ++k) group[static_cast<std::size_t>(k)] = k / p.block;
  if (ctx.has_input(4)) {
    const auto given = int_values(ctx, ctx.tensor(4));
    if (!given.ok()) return given.status();
    if (given->size() < group.size()) return ctx.invalid("g_idx is too short");
    std::copy_n(given->begin(), group.size(), group.begin());
    if (std::any_of(group.begin(), group.end(), [&](std::int64_t g) { return g < 0 || g >= p.blocks; }))
      return ctx.invalid("g_idx is out of range");
  }
  std::vector<float> plain(static_cast<std::size_t>(p.n * p.k));
  for (std::int64_t n = 0; n < p.n; ++n) {
    const std::uint8_t* row = b.data<std::uint8_t>() + n * p.blocks * p.blob;
    for (std::int64_t k = 0; k < p.k; ++k) {
      const auto g = static_cast<std::size_t>(n * p.blocks + group[static_cast<std::size_t>(k)]);
      const double q = packed_element(row + k / p.block * p.blob, k % p.block, p.bits);
      plain[static_cast<std::size_t>(n * p.k + k)] = static_cast<float>((q - zeros[g]) * (*scales)[g]);
    }
  }
  return weights_of(ctx, std::move(plain), p.k, p.n);
}

Outputs matmul_nbits(KernelContext& ctx) {
  NBits p;
  p.k = ctx.attr_i("K", 0);
  p.n = ctx.attr_i("N", 0);
  p.bits = ctx.attr_i("bits", 4);
  p.block = ctx.attr_i("block_size", 0);
  if (p.bits != 2 && p.bits != 4 && p.bits != 8) return ctx.unsupported("weights of this number of bits");
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (p.k <= 0 || p.n <= 0 || p.block < 16 || std::max({p.k, p.n, p.block}) > kMost || p.block % 8 != 0)
    return ctx.invalid("K, N or block_size is out of range");
  p.blocks = (p.k + p.block - 1) / p.block;
  p.blob = p.block * p.bits / 8;
  const Tensor &a = ctx.tensor(0), &b = ctx.tensor(1);
  if (b.dtype() != DType::kUint8) return ctx.unsupported_dtype(b.dtype());
  if (b.size() / p.n / p.blob != p.blocks || b.size() % (p.n * p.blob) != 0)
    return ctx.invalid("the weight does not fit K, N and block_size");
  if (a.rank() < 1 || a.dims().back() != p.k) return ctx.invalid("A does not fit K");
  const auto w = cached_weights(ctx, 4, [&] { return nbits_weights(ctx, p); });
  if (!w->ok()) return w->status();
  return times_weights(ctx, **w, p.k, p.n, ctx.has_input(5) ? &ctx.tensor(5) : nullptr);
}

// Tables of the 4-bit formats of bitsandbytes (Dettmers et al., "QLoRA", 2023, appendix E; FP4 by its bits), per largest magnitude of a
// block.
constexpr float kFp4[16] = {0.0f, 0.0052083333f,  2.0f / 3,  1.0f,  1.0f / 3,  0.5f,  1.0f / 6,  0.25f,
                            0.0f, -0.0052083333f, -2.0f / 3, -1.0f, -1.0f / 3, -0.5f, -1.0f / 6, -0.25f};
constexpr float kNf4[16] = {-1.0f,
                            -0.6961928009986877f,
                            -0.5250730514526367f,
                            -0.39491748809814453f,
                            -0.28444138169288635f,
                            -0.18477343022823334f,
                            -0.09105003625154495f,
                            0.0f,
                            0.07958029955625534f,
                            0.16093020141124725f,
                            0.24611230194568634f,
                            0.33791524171829224f,
                            0.44070982933044434f,
                            0.5626170039176941f,
                            0.7229568362236023f,
                            1.0f};

Outputs matmul_bnb4(KernelContext& ctx) {
  const std::int64_t k = ctx.attr_i("K", 0), n = ctx.attr_i("N", 0), block = ctx.attr_i("block_size", 0);
  const Tensor &a = ctx.tensor(0), &b = ctx.tensor(1);
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (ctx.attr_i("transB", 1) == 0) return ctx.unsupported("a weight that is not transposed");
  if (k <= 0 || n <= 0 || block <= 0 || std::max({k, n, block}) > kMost || b.size() != (k * n + 1) / 2 || b.dtype() != DType::kUint8)
    return ctx.invalid("the weight does not fit K, N and block_size");
  if (a.rank() < 1 || a.dims().back() != k || ctx.tensor(2).size() != (k * n + block - 1) / block)
    return ctx.invalid("A or absmax does not fit K, N and block_size");
  const float* table = ctx.attr_i("quant_type", 0) == 0 ? kFp4 : kNf4;
  const auto w = cached_weights(ctx, 2, [&]() -> absl::StatusOr<Weights> {
    const auto largest = to_doubles(ctx, ctx.tensor(2));
    if (!largest.ok()) return largest.status();
    std::vector<float> plain(static_cast<std::size_t>(k * n));
    for (std::size_t i = 0; i < plain.size(); ++i) {  // the high half comes first
      const std::uint8_t pair = b.data<std::uint8_t>()[i / 2];
      plain[i] = table[i % 2 == 0 ? pair >> 4 : pair & 15] * static_cast<float>((*largest)[i / static_cast<std::size_t>(block)]);
    }
    return weights_of(ctx, std::move(plain), k, n);
  });
  if (!w->ok()) return w->status();
  return times_weights(ctx, **w, k, n, nullptr);
}

// Gather of a block-quantized table, dequantized.
Outputs gather_block_quantized(KernelContext& ctx) {
  const Tensor &data = ctx.tensor(0), &scales = ctx.tensor(2);
  const std::int64_t bits = ctx.attr_i("bits", 4), block = ctx.attr_i("block_size", 128);
  const bool bytes = data.dtype() == DType::kUint8;
  if (bytes && bits != 4 && bits != 8 && bits != 2) return ctx.unsupported("elements of this number of bits");
  if (data.rank() < 1 || block <= 0) return ctx.invalid("the data or block_size is out of range");
  const std::int64_t per_byte = bytes ? 8 / bits : 1;
  // Bytes hold several elements of the last axis each.
  const auto expand = [&](const Tensor& t) -> absl::StatusOr<std::vector<std::int32_t>> {
    if (per_byte == 1) return quantized_values(ctx, t);
    std::vector<std::int32_t> out(static_cast<std::size_t>(t.size() * per_byte));
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::int32_t>(packed_element(t.data<std::uint8_t>(), static_cast<std::int64_t>(i), bits));
    return out;
  };
  Shape dims = data.dims();
  dims.back() *= per_byte;
  const std::optional<int> gather_axis = normalize_axis(ctx.attr_i("gather_axis", 0), data.rank()),
                           quantize_axis = normalize_axis(ctx.attr_i("quantize_axis", 1), data.rank());
  if (!gather_axis || !quantize_axis) return ctx.invalid("an axis is out of range");
  Shape scale_dims = dims;
  scale_dims[*quantize_axis] = (dims[*quantize_axis] + block - 1) / block;
  if (scales.dims() != scale_dims) return ctx.invalid("scales has the wrong shape");
  const auto q = expand(data);
  const auto s = to_doubles(ctx, scales);
  if (!q.ok()) return q.status();
  if (!s.ok()) return s.status();
  std::vector<std::int32_t> zeros(s->size(), bytes ? 1 << (bits - 1) : 0);
  if (ctx.has_input(3)) {
    Shape zero_dims = scale_dims;
    zero_dims.back() = (zero_dims.back() + per_byte - 1) / per_byte;
    if (ctx.tensor(3).dims() != zero_dims) return ctx.invalid("zero_points has the wrong shape");
    const auto given = expand(ctx.tensor(3));
    if (!given.ok()) return given.status();
    const auto line = static_cast<std::size_t>(scale_dims.back()), padded = static_cast<std::size_t>(zero_dims.back() * per_byte);
    for (std::size_t i = 0; i < zeros.size(); ++i) zeros[i] = (*given)[i / line * padded + i % line];
  }
  std::vector<double> real(q->size());
  const std::int64_t inner = strides_of(dims)[*quantize_axis], length = dims[*quantize_axis], blocks = scale_dims[*quantize_axis];
  for (std::size_t i = 0; i < real.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i), along = at / inner % length;
    const auto k = static_cast<std::size_t>((at / (inner * length) * blocks + along / block) * inner + at % inner);
    real[i] = static_cast<float>((*q)[i] - zeros[k]) * static_cast<float>((*s)[k]);
  }
  auto table = from_doubles(ctx, scales.dtype(), dims, real);
  if (!table.ok()) return table.status();
  Node gather;
  gather.op_type = "Gather";
  gather.inputs = {"table", "indices"};
  gather.outputs = {"out"};
  gather.attributes = {Attribute::of("axis", static_cast<std::int64_t>(*gather_axis))};
  return ctx.host.run_node(gather, 13, {*std::move(table), ctx.inputs[1]});
}

}  // namespace

void register_quant_nbits(Registry& registry) {
  registry.add(kMicrosoft, "MatMulNBits", matmul_nbits);
  registry.add(kMicrosoft, "MatMulBnb4", matmul_bnb4);
  registry.add(kMicrosoft, "GatherBlockQuantized", gather_block_quantized);
}

}  // namespace saturate
