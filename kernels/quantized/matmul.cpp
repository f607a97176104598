// MatMulInteger, QLinearMatMul (ONNX Operators) and com.microsoft's MatMulIntegerToFloat, DynamicQuantizeMatMul, MatMulInteger16, QGemm.
#include "kernels/quantized/matmul.h"

#include <algorithm>
#include <cmath>

#include "kernels/core/codec.h"
#include "kernels/gemm/byte_gemm.h"
#include "kernels/quantized/fast.h"
#include "kernels/quantized/util.h"

namespace saturate {

absl::StatusOr<std::vector<float>> centred(const KernelContext& ctx, const Tensor& tensor, const Tensor* zero_point, bool per_row) {
  const auto values = quantized_values(ctx, tensor);
  if (!values.ok()) return values.status();
  std::vector<float> out(values->begin(), values->end());
  if (zero_point == nullptr) return out;
  const auto zeros = quantized_values(ctx, *zero_point);
  if (!zeros.ok()) return zeros.status();
  Shape zero_dims = zero_point->dims();
  if (per_row && zero_dims.size() == 1 && zero_dims[0] != 1) zero_dims.push_back(1);
  if (zeros->size() == 1) zero_dims.clear();
  const std::optional<Shape> joint = broadcast_shape(tensor.dims(), zero_dims);
  if (!joint || *joint != tensor.dims()) return ctx.invalid("a zero point does not fit its tensor");
  for_each_run<2>(tensor.dims(), {strides_of(tensor.dims()), broadcast_strides(zero_dims, tensor.dims())},
                  [&](const auto& at, std::int64_t n, const auto& step) {
                    for (std::int64_t i = 0; i < n; ++i)
                      out[static_cast<std::size_t>(at[0] + i * step[0])] -=
                          static_cast<float>((*zeros)[static_cast<std::size_t>(at[1] + i * step[1])]);
                  });
  return out;
}

void add_exact_product(const KernelContext& ctx, GemmSize size, MatrixView<float> a, MatrixView<float> b, std::int32_t* c) {
  const auto [m, n, k] = size;
  constexpr std::int64_t kStretch = 256;
  std::vector<float> partial(static_cast<std::size_t>(m * n));
  for (std::int64_t at = 0; at < k; at += kStretch) {
    const MatrixView<float> left{a.data + at * a.col_stride, a.row_stride, a.col_stride},
        right{b.data + at * b.row_stride, b.row_stride, b.col_stride};
    gemm(ctx, {m, n, std::min(kStretch, k - at)}, left, right, {partial.data(), n});
    for (std::int64_t i = 0; i < m * n; ++i) {
      const auto sum =
          static_cast<std::uint32_t>(c[i]) + static_cast<std::uint32_t>(static_cast<std::int32_t>(partial[static_cast<std::size_t>(i)]));
      c[i] = static_cast<std::int32_t>(sum);
    }
  }
}

absl::StatusOr<IntegerProduct> integer_product(const KernelContext& ctx, const Tensor& a, const Tensor* a_zero, const Tensor& b,
                                               const Tensor* b_zero) {
  if (a.rank() < 1 || b.rank() < 1) return ctx.invalid("a matrix has rank 0");
  if (bit_width(a.dtype()) > 8 || bit_width(b.dtype()) > 8) return ctx.unsupported("integers above 8 bits");
  const auto x = centred(ctx, a, a_zero, true), y = centred(ctx, b, b_zero, false);
  if (!x.ok()) return x.status();
  if (!y.ok()) return y.status();
  Shape ad = a.dims(), bd = b.dims();
  const bool a_vector = ad.size() == 1, b_vector = bd.size() == 1;
  if (a_vector) ad.insert(ad.begin(), 1);
  if (b_vector) bd.push_back(1);
  const std::int64_t m = ad[ad.size() - 2], k = ad.back(), n = bd.back();
  if (bd[bd.size() - 2] != k) return ctx.invalid("the inner dims differ");
  const Shape a_batch(ad.begin(), ad.end() - 2), b_batch(bd.begin(), bd.end() - 2);
  const std::optional<Shape> batch = broadcast_shape(a_batch, b_batch);
  if (!batch) return ctx.invalid("the batch dims do not broadcast");
  IntegerProduct out;
  out.rows = m;
  out.cols = n;
  out.dims = *batch;
  if (!a_vector) out.dims.push_back(m);
  if (!b_vector) out.dims.push_back(n);
  if (const auto room = ctx.allocate(DType::kInt32, out.dims); !room.ok()) return room.status();
  out.values.assign(static_cast<std::size_t>(product(out.dims)), 0);
  std::int32_t* c = out.values.data();
  if (product(b_batch) == 1) {  // one right matrix: all rows at once
    add_exact_product(ctx, {m * product(*batch), n, k}, {x->data(), k, 1}, {y->data(), n, 1}, c);
    return out;
  }
  std::int64_t index = 0;
  for_each_run<2>(*batch, {broadcast_strides(a_batch, *batch), broadcast_strides(b_batch, *batch)},
                  [&](const auto& at, std::int64_t count, const auto& step) {
                    for (std::int64_t i = 0; i < count; ++i, ++index) {
                      add_exact_product(ctx, {m, n, k}, {x->data() + (at[0] + i * step[0]) * m * k, k, 1},
                                        {y->data() + (at[1] + i * step[1]) * k * n, n, 1}, c + index * m * n);
                    }
                  });
  return out;
}

namespace {

// One right matrix of bytes, packed, under rows of bytes, with zero points a row and a column at most: what the fast product takes.
class ByteProduct {
 public:
  // `b`: the number of B's input. Empty where this form is not covered.
  static absl::StatusOr<std::optional<ByteProduct>> make(const KernelContext& ctx, const Tensor& a, const Tensor* a_zero, std::size_t b,
                                                         const Tensor* b_zero) {
    const Tensor& right = ctx.tensor(b);
    if (ctx.options.reference || !is_byte(a.dtype()) || !is_byte(right.dtype()) || a.rank() < 2 || right.rank() != 2 ||
        a.dims().back() != right.dims()[0])
      return std::nullopt;
    ByteProduct p;
    p.a_ = &a;
    p.shape_.dims = a.dims();
    p.shape_.dims.back() = right.dims()[1];
    p.shape_.rows = a.dims()[a.dims().size() - 2];
    p.shape_.cols = right.dims()[1];
    p.k_ = right.dims()[0];
    p.m_ = product(std::span(a.dims()).first(a.dims().size() - 1));
    for (const auto& [zero, dtype, length, out] :
         {std::tuple(a_zero, a.dtype(), p.shape_.rows, &p.a_zero_), {b_zero, right.dtype(), p.shape_.cols, &p.b_zero_}}) {
      const bool is_a = out == &p.a_zero_;
      std::int32_t moved = is_a ? (dtype == DType::kInt8 ? 128 : 0) : (dtype == DType::kUint8 ? -128 : 0);
      out->assign(1, moved);
      if (zero == nullptr) continue;
      if (zero->size() != 1 && (zero->rank() != 1 || zero->size() != length)) return std::nullopt;
      auto values = quantized_values(ctx, *zero);
      if (!values.ok()) return values.status();
      for (std::int32_t& v : *values) v += moved;
      *out = *std::move(values);
    }
    if (p.a_zero_.size() > 1 && p.m_ != p.shape_.rows) return std::nullopt;
    const auto pack = [&] { return pack_bytes(p.k_, p.shape_.cols, bytes_of(right), p.shape_.cols, 1, right.dtype() == DType::kInt8); };
    if (ctx.is_constant(b)) {
      p.b_ = ctx.prepared<PackedBytes>([&] {
        PackedBytes packed = pack();
        release_pages(right);
        return packed;
      });
    }
    if (p.b_ == nullptr) p.b_ = std::make_shared<const PackedBytes>(pack());
    return std::optional(std::move(p));
  }

  const IntegerProduct& shape() const { return shape_; }  // without values
  std::int64_t rows() const { return m_; }
  void run(const KernelContext& ctx, const ByteFinish& finish) const {
    const std::uint8_t* from = bytes_of(*a_);
    const bool flip = a_->dtype() == DType::kInt8;
    const ByteRows rows{m_,
                        [&](std::int64_t begin, std::int64_t end, std::uint8_t* to, std::int64_t step) {
                          for (std::int64_t r = begin; r < end; ++r, to += step) {
                            if (flip)
                              flip_signs(from + r * k_, k_, to);
                            else
                              std::copy_n(from + r * k_, k_, to);
                          }
                        },
                        a_zero_};
    byte_gemm(ctx, rows, *b_, b_zero_, finish);
  }

 private:
  const Tensor* a_ = nullptr;
  IntegerProduct shape_;
  std::int64_t k_ = 0, m_ = 0;
  std::vector<std::int32_t> a_zero_, b_zero_;
  std::shared_ptr<const PackedBytes> b_;
};

Outputs matmul_integer(KernelContext& ctx) {
  const auto fast = ByteProduct::make(ctx, ctx.tensor(0), optional_tensor(ctx, 2), 1, optional_tensor(ctx, 3));
  if (!fast.ok()) return fast.status();
  if (*fast) {
    auto y = ctx.allocate(DType::kInt32, (*fast)->shape().dims);
    if (!y.ok()) return y.status();
    auto* out = write<std::int32_t>(*y);
    const std::int64_t n = (*fast)->shape().cols;
    (*fast)->run(ctx, [&](std::int64_t row, int rows, std::int64_t column, int columns, const std::int32_t* values) {
      for (int r = 0; r < rows; ++r) std::copy_n(values + r * kBytePanel, columns, out + (row + r) * n + column);
    });
    return outputs_of(*std::move(y));
  }
  const auto p = integer_product(ctx, ctx.tensor(0), optional_tensor(ctx, 2), ctx.tensor(1), optional_tensor(ctx, 3));
  if (!p.ok()) return p.status();
  return outputs_of(Tensor::of<std::int32_t>(DType::kInt32, p->dims, p->values));
}

// One number per element of the product from a scalar, a vector along rows or columns, or a broadcasting tensor.
class PerElement {
 public:
  static absl::StatusOr<PerElement> make(const KernelContext& ctx, const Tensor& t, const IntegerProduct& p, bool per_row) {
    PerElement out;
    auto values = to_doubles(ctx, t);
    if (!values.ok()) return values.status();
    out.values_ = *std::move(values);
    Shape dims = t.dims();
    if (per_row && dims.size() == 1 && dims[0] != 1) dims.push_back(1);
    if (t.size() == 1) dims.clear();
    const std::optional<Shape> joint = broadcast_shape(dims, p.dims);
    if (!joint || *joint != p.dims) return ctx.invalid("a scale or zero point does not fit the product");
    out.strides_ = broadcast_strides(dims, p.dims);
    return out;
  }
  const Shape& strides() const { return strides_; }
  // The first element of row `r` of all rows of the product, and the step along it.
  std::int64_t row(std::int64_t r, const Shape& dims) const {
    std::int64_t at = 0;
    for (std::size_t d = dims.size() - 1; r > 0 && d-- > 0; r /= dims[d]) at += r % dims[d] * strides_[d];  // row 0 also of no rows
    return at;
  }
  std::int64_t step() const { return strides_.back(); }
  bool same_rows() const {
    return std::all_of(strides_.begin(), strides_.end() - 1, [](std::int64_t s) { return s == 0; });
  }
  double operator[](std::int64_t i) const { return values_[static_cast<std::size_t>(i)]; }

 private:
  std::vector<double> values_;
  Shape strides_;
};

// Below 8-bit integers ONNX also allows 8-bit floats here (opset 21): those are multiplied in floats.
Outputs qlinear_matmul_float8(KernelContext& ctx) {
  const auto a = to_doubles(ctx, ctx.tensor(0)), b = to_doubles(ctx, ctx.tensor(3));
  const auto sa = one_scale(ctx, 1), sb = one_scale(ctx, 4), sy = one_scale(ctx, 6);
  if (!a.ok() || !b.ok() || !sa.ok() || !sb.ok() || !sy.ok() || ctx.tensor(0).rank() != 2 || ctx.tensor(3).rank() != 2)
    return ctx.unsupported("this form of an 8-bit float product");
  const std::int64_t m = ctx.tensor(0).dims()[0], k = ctx.tensor(0).dims()[1], n = ctx.tensor(3).dims()[1];
  if (ctx.tensor(3).dims()[0] != k) return ctx.invalid("the inner dims differ");
  std::vector<double> y(static_cast<std::size_t>(m * n));
  gemm_reference<double>({m, n, k}, {a->data(), k, 1}, {b->data(), n, 1}, {y.data(), n});
  for (double& v : y) v *= static_cast<double>(*sa * *sb / *sy);
  return one_output(from_doubles(ctx, ctx.tensor(7).dtype(), {m, n}, y));
}

// Scales of one row of the fast product, and what is added: made anew only where rows differ.
class RowOf {
 public:
  RowOf(std::initializer_list<const PerElement*> of, const IntegerProduct& p, float (*combine)(const double*))
      : of_(of), p_(p), combine_(combine), same_(std::all_of(of.begin(), of.end(), [](const PerElement* e) { return e->same_rows(); })) {
    if (same_) make(0, 0, p.cols, row_);
  }
  // Columns [begin, end) of a row; `store` holds them where rows differ.
  const float* at(std::int64_t row, std::int64_t begin, std::int64_t end, std::vector<float>& store) const {
    if (same_) return row_.data() + begin;
    make(row, begin, end, store);
    return store.data();
  }

 private:
  void make(std::int64_t row, std::int64_t begin, std::int64_t end, std::vector<float>& out) const {
    out.resize(static_cast<std::size_t>(end - begin));
    std::array<std::int64_t, 4> first{};
    for (std::size_t i = 0; i < of_.size(); ++i) first[i] = of_[i]->row(row, p_.dims);
    for (std::int64_t j = begin; j < end; ++j) {
      std::array<double, 4> values{};
      for (std::size_t i = 0; i < of_.size(); ++i) values[i] = (*of_[i])[first[i] + j * of_[i]->step()];
      out[static_cast<std::size_t>(j - begin)] = combine_(values.data());
    }
  }

  std::vector<const PerElement*> of_;
  const IntegerProduct& p_;
  float (*combine_)(const double*);
  bool same_;
  std::vector<float> row_;
};

float requantizing_ratio(const double* v) { return static_cast<float>(v[0]) * static_cast<float>(v[1]) / static_cast<float>(v[2]); }

// The fast form of QLinearMatMul; empty where it is not covered.
absl::StatusOr<std::optional<Tensor>> qlinear_matmul_bytes(const KernelContext& ctx) {
  const auto fast = ByteProduct::make(ctx, ctx.tensor(0), optional_tensor(ctx, 2), 3, optional_tensor(ctx, 5));
  if (!fast.ok()) return fast.status();
  const DType to = ctx.tensor(7).dtype();
  if (!*fast || !is_byte(to)) return std::nullopt;
  const IntegerProduct& shape = (*fast)->shape();
  const auto sa = PerElement::make(ctx, ctx.tensor(1), shape, true), sb = PerElement::make(ctx, ctx.tensor(4), shape, false);
  const auto sy = PerElement::make(ctx, ctx.tensor(6), shape, true), zy = PerElement::make(ctx, ctx.tensor(7), shape, true);
  for (const auto* s : {&sa, &sb, &sy, &zy}) {
    if (!s->ok()) return s->status();
  }
  if (zy->step() != 0) return std::nullopt;
  auto y = ctx.allocate(to, shape.dims);
  if (!y.ok()) return y.status();
  auto* out = write<std::uint8_t>(*y);
  const RowOf ratio({&*sa, &*sb, &*sy}, shape, requantizing_ratio);
  const auto low = static_cast<double>(integer_min(to)), high = static_cast<double>(integer_max(to));
  (*fast)->run(ctx, [&](std::int64_t row, int rows, std::int64_t column, int columns, const std::int32_t* values) {
    std::vector<float> store;
    for (std::int64_t r = row; r < row + rows; ++r, values += kBytePanel)
      requantize_products(values, columns, ratio.at(r, column, column + columns, store), {(*zy)[zy->row(r, shape.dims)], low, high},
                          out + r * shape.cols + column);
  });
  return std::optional(*std::move(y));
}

Outputs qlinear_matmul(KernelContext& ctx) {
  if (is_tiny_float(ctx.tensor(0).dtype())) return qlinear_matmul_float8(ctx);
  auto fast = qlinear_matmul_bytes(ctx);
  if (!fast.ok()) return fast.status();
  if (*fast) return outputs_of(**std::move(fast));
  const auto p = integer_product(ctx, ctx.tensor(0), optional_tensor(ctx, 2), ctx.tensor(3), optional_tensor(ctx, 5));
  if (!p.ok()) return p.status();
  const auto sa = PerElement::make(ctx, ctx.tensor(1), *p, true), sb = PerElement::make(ctx, ctx.tensor(4), *p, false);
  const auto sy = PerElement::make(ctx, ctx.tensor(6), *p, true), zy = PerElement::make(ctx, ctx.tensor(7), *p, true);
  for (const auto* s : {&sa, &sb, &sy, &zy}) {
    if (!s->ok()) return s->status();
  }
  const DType to = ctx.tensor(7).dtype();
  std::vector<std::int32_t> y(p->values.size());
  std::int64_t at = 0;
  for_each_run<4>(
      p->dims, {sa->strides(), sb->strides(), sy->strides(), zy->strides()}, [&](const auto& o, std::int64_t n, const auto& step) {
        for (std::int64_t i = 0; i < n; ++i, ++at) {
          const float ratio = static_cast<float>((*sa)[o[0] + i * step[0]]) * static_cast<float>((*sb)[o[1] + i * step[1]]) /
                              static_cast<float>((*sy)[o[2] + i * step[2]]);
          const double v = std::nearbyint(p->values[static_cast<std::size_t>(at)] * static_cast<double>(ratio)) + (*zy)[o[3] + i * step[3]];
          y[static_cast<std::size_t>(at)] = static_cast<std::int32_t>(std::clamp(v, -1.0e9, 1.0e9));
        }
      });
  return one_output(saturated(ctx, to, p->dims, y));
}

float product_of_scales(const double* v) { return static_cast<float>(v[0]) * static_cast<float>(v[1]); }
float only_number(const double* v) { return static_cast<float>(*v); }

Outputs scaled_bytes(KernelContext& ctx, const ByteProduct& p, const Tensor& a_scale, const Tensor& b_scale, const Tensor* bias) {
  const IntegerProduct& shape = p.shape();
  const double zero = 0;
  const Tensor nothing = Tensor::of<double>(DType::kDouble, {}, std::span(&zero, 1));
  const auto sa = PerElement::make(ctx, a_scale, shape, true), sb = PerElement::make(ctx, b_scale, shape, false),
             add = PerElement::make(ctx, bias == nullptr ? nothing : *bias, shape, false);
  for (const auto* s : {&sa, &sb, &add}) {
    if (!s->ok()) return s->status();
  }
  auto y = ctx.allocate(DType::kFloat, shape.dims);
  if (!y.ok()) return y.status();
  auto* out = write<float>(*y);
  const RowOf scale({&*sa, &*sb}, shape, product_of_scales), added({&*add}, shape, only_number);
  p.run(ctx, [&](std::int64_t row, int rows, std::int64_t column, int columns, const std::int32_t* values) {
    std::vector<float> scales, sums;
    for (std::int64_t r = row; r < row + rows; ++r, values += kBytePanel)
      scale_products(values, columns, scale.at(r, column, column + columns, scales), added.at(r, column, column + columns, sums),
                     out + r * shape.cols + column);
  });
  return outputs_of(*std::move(y));
}

// product * a_scale * b_scale + bias, as floats of type `to`; b_scale and bias per column.
Outputs scaled_product(KernelContext& ctx, const IntegerProduct& p, const Tensor& a_scale, const Tensor& b_scale, const Tensor* bias,
                       DType to) {
  const auto sa = PerElement::make(ctx, a_scale, p, true), sb = PerElement::make(ctx, b_scale, p, false);
  if (!sa.ok()) return sa.status();
  if (!sb.ok()) return sb.status();
  const double zero = 0;
  const auto add = bias != nullptr ? PerElement::make(ctx, *bias, p, false)
                                   : PerElement::make(ctx, Tensor::of<double>(DType::kDouble, {}, std::span(&zero, 1)), p, false);
  if (!add.ok()) return add.status();
  std::vector<double> y;
  y.reserve(p.values.size());
  for_each_run<3>(p.dims, {sa->strides(), sb->strides(), add->strides()}, [&](const auto& o, std::int64_t n, const auto& step) {
    for (std::int64_t i = 0; i < n; ++i) {
      const float scale = static_cast<float>((*sa)[o[0] + i * step[0]]) * static_cast<float>((*sb)[o[1] + i * step[1]]);
      y.push_back(static_cast<float>(p.values[y.size()]) * scale + static_cast<float>((*add)[o[2] + i * step[2]]));
    }
  });
  return one_output(from_doubles(ctx, to, p.dims, y));
}

Outputs matmul_integer_to_float(KernelContext& ctx) {
  if (ctx.tensor(2).dtype() == DType::kFloat) {
    const auto fast = ByteProduct::make(ctx, ctx.tensor(0), optional_tensor(ctx, 4), 1, optional_tensor(ctx, 5));
    if (!fast.ok()) return fast.status();
    if (*fast) return scaled_bytes(ctx, **fast, ctx.tensor(2), ctx.tensor(3), optional_tensor(ctx, 6));
  }
  const auto p = integer_product(ctx, ctx.tensor(0), optional_tensor(ctx, 4), ctx.tensor(1), optional_tensor(ctx, 5));
  if (!p.ok()) return p.status();
  return scaled_product(ctx, *p, ctx.tensor(2), ctx.tensor(3), optional_tensor(ctx, 6), ctx.tensor(2).dtype());
}

Outputs dynamic_quantize_matmul(KernelContext& ctx) {
  if (!ctx.is_tensor(0) || ctx.tensor(0).dtype() != DType::kFloat) return ctx.unsupported_dtype(ctx.tensor(0).dtype());
  Node node;
  node.op_type = "DynamicQuantizeLinear";
  node.inputs = {"x"};
  node.outputs = {"y", "scale", "zero"};
  const Outputs q = ctx.host.run_node(node, 11, {ctx.inputs[0]});
  if (!q.ok()) return q;
  const auto fast = ByteProduct::make(ctx, (*q)[0].tensor(), &(*q)[2].tensor(), 1, optional_tensor(ctx, 3));
  if (!fast.ok()) return fast.status();
  if (*fast) return scaled_bytes(ctx, **fast, (*q)[1].tensor(), ctx.tensor(2), optional_tensor(ctx, 4));
  const auto p = integer_product(ctx, (*q)[0].tensor(), &(*q)[2].tensor(), ctx.tensor(1), optional_tensor(ctx, 3));
  if (!p.ok()) return p.status();
  return scaled_product(ctx, *p, (*q)[1].tensor(), ctx.tensor(2), optional_tensor(ctx, 4), ctx.tensor(0).dtype());
}

Outputs matmul_integer16(KernelContext& ctx) {
  const Tensor &a = ctx.tensor(0), &b = ctx.tensor(1);
  const auto x = to_integers(ctx, a), y = to_integers(ctx, b);
  if (!x.ok()) return x.status();
  if (!y.ok()) return y.status();
  if (a.rank() != 2 || b.rank() != 2 || a.dims()[1] != b.dims()[0]) return ctx.invalid("two matrices that fit are expected");
  const std::int64_t m = a.dims()[0], k = a.dims()[1], n = b.dims()[1];
  const bool is_signed = a.dtype() == DType::kInt16 || b.dtype() == DType::kInt16;
  auto out = ctx.allocate(is_signed ? DType::kInt32 : DType::kUint32, {m, n});
  if (!out.ok()) return out.status();
  std::vector<std::int64_t> c(static_cast<std::size_t>(m * n));
  gemm_reference<std::int64_t>({m, n, k}, {x->data(), k, 1}, {y->data(), n, 1}, {c.data(), n});
  for (std::size_t i = 0; i < c.size(); ++i) write<std::uint32_t>(*out)[i] = static_cast<std::uint32_t>(c[i]);
  return outputs_of(*std::move(out));
}

// Y = alpha * (A - za) (B - zb) * sa * sb + C * sa * sb, quantized where an output scale is given.
Outputs qgemm(KernelContext& ctx) {
  const Tensor &a = ctx.tensor(0), &b = ctx.tensor(3);
  if (a.rank() != 2 || b.rank() != 2) return ctx.invalid("matrices are expected");
  const bool ta = ctx.attr_i("transA", 0) != 0, tb = ctx.attr_i("transB", 0) != 0;
  const std::int64_t m = a.dims()[ta ? 1 : 0], k = a.dims()[ta ? 0 : 1], n = b.dims()[tb ? 0 : 1];
  if (b.dims()[tb ? 1 : 0] != k) return ctx.invalid("the inner dims differ");
  const auto x = centred(ctx, a, optional_tensor(ctx, 2), false), y = centred(ctx, b, optional_tensor(ctx, 5), tb);
  const auto sa = one_scale(ctx, 1);
  const auto sb = to_doubles(ctx, ctx.tensor(4));
  if (!x.ok()) return x.status();
  if (!y.ok()) return y.status();
  if (!sa.ok()) return sa.status();
  if (!sb.ok()) return sb.status();
  if (sb->size() != 1 && static_cast<std::int64_t>(sb->size()) != n) return ctx.invalid("b_scale has the wrong length");
  std::vector<std::int32_t> c(static_cast<std::size_t>(m * n), 0);
  if (ctx.has_input(6)) {
    const auto bias = quantized_values(ctx, ctx.tensor(6));
    if (!bias.ok()) return bias.status();
    const Shape dims = {m, n};
    if (broadcast_shape(ctx.tensor(6).dims(), dims) != dims) return ctx.invalid("C does not broadcast to the product");
    for_each_run<2>(dims, {strides_of(dims), broadcast_strides(ctx.tensor(6).dims(), dims)},
                    [&](const auto& o, std::int64_t count, const auto& step) {
                      for (std::int64_t i = 0; i < count; ++i)
                        c[static_cast<std::size_t>(o[0] + i * step[0])] = (*bias)[static_cast<std::size_t>(o[1] + i * step[1])];
                    });
  }
  add_exact_product(ctx, {m, n, k}, {x->data(), ta ? 1 : k, ta ? m : 1}, {y->data(), tb ? 1 : n, tb ? k : 1}, c.data());
  const float alpha = ctx.attr_f("alpha", 1.0f);
  std::vector<float> real(c.size());
  for (std::size_t i = 0; i < c.size(); ++i)
    real[i] = static_cast<float>(c[i]) * (alpha * *sa * static_cast<float>((*sb)[sb->size() == 1 ? 0 : i % static_cast<std::size_t>(n)]));
  if (!ctx.has_input(7)) return outputs_of(Tensor::of<float>(DType::kFloat, {m, n}, real));
  const auto scale = one_scale(ctx, 7);
  const auto zero = one_zero_point(ctx, 8);
  if (!scale.ok()) return scale.status();
  if (!zero.ok()) return zero.status();
  return one_output(requantize(ctx, ctx.has_input(8) ? ctx.tensor(8).dtype() : a.dtype(), {m, n}, real, *scale, *zero));
}

}  // namespace

void register_quant_matmul(Registry& registry) {
  registry.add("", "MatMulInteger", matmul_integer);
  registry.add("", "QLinearMatMul", qlinear_matmul);
  registry.add(kMicrosoft, "MatMulIntegerToFloat", matmul_integer_to_float);
  registry.add(kMicrosoft, "DynamicQuantizeMatMul", dynamic_quantize_matmul);
  registry.add(kMicrosoft, "MatMulInteger16", matmul_integer16);
  registry.add(kMicrosoft, "QGemm", qgemm);
}

}  // namespace saturate
