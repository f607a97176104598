// MatMul (ONNX spec) and com.microsoft FusedMatMul, TransposeMatMul.
#include "kernels/linear/matmul.h"

#include <algorithm>

#include "kernels/core/wrapping.h"
#include "kernels/elementwise/elementwise.h"

namespace saturate {
namespace {

struct MatrixOperand {
  Shape batch;  // leading dims
  std::int64_t rows = 1, cols = 1, row_stride = 1, col_stride = 1;
};

MatrixOperand operand(const Shape& dims, bool vector_is_row, bool transpose) {
  MatrixOperand o;
  if (dims.size() == 1) {
    (vector_is_row ? o.cols : o.rows) = dims[0];
    return o;  // both strides 1: only one of the two dims is longer than 1
  }
  o.batch.assign(dims.begin(), dims.end() - 2);
  o.rows = dims[dims.size() - 2];
  o.cols = dims[dims.size() - 1];
  o.row_stride = o.cols;
  if (transpose) {
    std::swap(o.rows, o.cols);
    std::swap(o.row_stride, o.col_stride);
  }
  return o;
}

struct Problem {
  MatrixOperand a, b;
  Shape batch, out_dims;
};

absl::StatusOr<Problem> problem_of(const KernelContext& ctx, const Tensor& a, const Tensor& b, const MatMulOptions& options) {
  if (a.rank() == 0 || b.rank() == 0) return ctx.invalid("scalars cannot be multiplied as matrices");
  if (a.dtype() != b.dtype()) return ctx.invalid("the inputs differ in element type");
  Problem p;
  p.a = operand(a.dims(), true, options.transpose_a);
  p.b = operand(b.dims(), false, options.transpose_b);
  if (p.a.cols != p.b.rows) return ctx.invalid("the inner dims of the matrices differ");
  std::optional<Shape> batch = broadcast_shape(p.a.batch, p.b.batch);
  if (!batch) return ctx.invalid("the batch dims cannot be broadcast");
  p.batch = *std::move(batch);
  p.out_dims = p.batch;
  if (a.rank() > 1) p.out_dims.push_back(p.a.rows);
  if (b.rank() > 1) p.out_dims.push_back(p.b.cols);
  return p;
}

// One weight matrix for every batch: the batch is more rows of A.
bool one_product(const Problem& p, const Tensor& a) {
  return product(p.b.batch) == 1 && p.a.col_stride == 1 && p.a.rows * p.a.cols * product(p.batch) == a.size();
}

template <typename T>
void multiply(const KernelContext& ctx, const Tensor& a, const Tensor& b, const Problem& p, T* out) {
  const std::int64_t m = p.a.rows, n = p.b.cols, k = p.a.cols, batches = product(p.batch);
  const T* pa = a.data<T>();
  const bool one = one_product(p, a);
  const MatrixView<T> left{pa, p.a.row_stride == 1 ? k : p.a.row_stride, 1};
  if constexpr (std::is_same_v<T, float>) {
    const auto packed = one ? packed_constant(ctx, b, p.b.rows, p.b.cols, p.b.row_stride, p.b.col_stride) : nullptr;
    if (packed != nullptr) return gemm_packed(ctx, m * batches, left, *packed, {out, n});
  }
  const Tensor right = aligned(b);
  const T* pb = right.data<T>();
  if (one) {
    return gemm_any<T>(ctx, {m * batches, n, k}, left, {pb, p.b.row_stride, p.b.col_stride}, {out, n});
  }
  const std::int64_t a_size = m * k, b_size = k * n;
  const Shape a_strides = broadcast_strides(p.a.batch, p.batch), b_strides = broadcast_strides(p.b.batch, p.batch),
              steps = strides_of(p.batch);
  parallel_for(ctx, batches, std::max<std::int64_t>(1, (1 << 18) / std::max<std::int64_t>(1, m * n * k)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   std::int64_t at_a = 0, at_b = 0, rest = i;
                   for (std::size_t d = 0; d < steps.size(); ++d) {
                     at_a += rest / steps[d] * a_strides[d];
                     at_b += rest / steps[d] * b_strides[d];
                     rest %= steps[d];
                   }
                   gemm_any<T>(ctx, {m, n, k}, {pa + at_a * a_size, p.a.row_stride, p.a.col_stride},
                               {pb + at_b * b_size, p.b.row_stride, p.b.col_stride}, {out + i * m * n, n});
                 }
               });
}

Outputs matmul_op(KernelContext& ctx) {
  absl::StatusOr<Tensor> y = matmul(ctx, ctx.tensor(0), ctx.tensor(1));
  if (!y.ok()) return y.status();
  return outputs_of(*std::move(y));
}

// transBatchA/B: the matrix's rows are dim 0, the batch dims follow: [M, batch..., K] becomes [batch..., M, K].
absl::StatusOr<Tensor> batch_first(const KernelContext& ctx, const Tensor& x) {
  Shape dims(x.dims().begin() + 1, x.dims().end() - 1);
  dims.push_back(x.dims()[0]);
  dims.push_back(x.dims().back());
  Shape strides = strides_of(x.dims());
  std::rotate(strides.begin(), strides.begin() + 1, strides.end() - 1);
  absl::StatusOr<Tensor> y = ctx.allocate(x.dtype(), dims);
  if (!y.ok()) return y.status();
  Outputs done = dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    const T* in = x.data<T>();
    T* out = write<T>(*y);
    for_each_run<2>(dims, {strides_of(dims), strides}, [&](const auto& at, std::int64_t n, const auto& step) {
      for (std::int64_t i = 0; i < n; ++i) out[at[0] + i * step[0]] = in[at[1] + i * step[1]];
    });
    return std::vector<Value>();
  });
  if (!done.ok()) return done.status();
  return y;
}

Outputs fused_matmul(KernelContext& ctx) {
  Tensor a = ctx.tensor(0), b = ctx.tensor(1);
  if ((ctx.attr_i("transBatchA", 0) != 0 || ctx.attr_i("transBatchB", 0) != 0) && (a.rank() != b.rank() || a.rank() < 3))
    return ctx.invalid("transBatchA and transBatchB want two inputs of one rank, at least 3");
  for (auto& [tensor, name] : {std::pair<Tensor*, const char*>(&a, "transBatchA"), {&b, "transBatchB"}}) {
    if (ctx.attr_i(name, 0) == 0) continue;
    absl::StatusOr<Tensor> moved = batch_first(ctx, aligned(*tensor));
    if (!moved.ok()) return moved.status();
    *tensor = *std::move(moved);
  }
  const MatMulOptions options{ctx.attr_i("transA", 0) != 0, ctx.attr_i("transB", 0) != 0, ctx.attr_f("alpha", 1.0f)};
  absl::StatusOr<Tensor> y = matmul(ctx, a, b, options);
  if (!y.ok()) return y.status();
  return outputs_of(*std::move(y));
}

}  // namespace

std::shared_ptr<const PackedMatrix> packed_constant(const KernelContext& ctx, const Tensor& b, std::int64_t k, std::int64_t n,
                                                    std::int64_t row_stride, std::int64_t col_stride) {
  if (ctx.options.reference || ctx.inputs.size() < 2 || !ctx.is_constant(1) || !ctx.is_tensor(1) ||
      ctx.tensor(1).bytes().data() != b.bytes().data())
    return nullptr;
  return ctx.prepared<PackedMatrix>([&] {
    PackedMatrix packed = pack_matrix(k, n, {b.data<float>(), row_stride, col_stride});
    release_pages(b);
    return packed;
  });
}

absl::StatusOr<Tensor> matmul(const KernelContext& ctx, const Tensor& a, const Tensor& b, const MatMulOptions& options) {
  absl::StatusOr<Problem> p = problem_of(ctx, a, b, options);
  if (!p.ok()) return p.status();
  absl::StatusOr<Tensor> y = ctx.allocate(a.dtype(), p->out_dims);
  if (!y.ok()) return y.status();
  Outputs done = dispatch(NumericTypes{}, ctx, a.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    T* out = write<T>(*y);
    multiply<T>(ctx, a, b, *p, out);
    if (options.alpha != 1.0f) {
      using C = Compute<T>;
      for (std::int64_t i = 0; i < y->size(); ++i)
        out[i] = static_cast<T>(multiplied(static_cast<C>(out[i]), static_cast<C>(options.alpha)));
    }
    return std::vector<Value>();
  });
  if (!done.ok()) return done.status();
  return y;
}

void register_matmul(Registry& registry) {
  constexpr std::uint64_t kPacked = 1u << 1;  // B, which is read once
  registry.add("", "MatMul", matmul_op, kPacked);
  registry.add(kMicrosoft, "FusedMatMul", fused_matmul, kPacked);
  registry.add(kMicrosoft, "TransposeMatMul", fused_matmul, kPacked);
  register_matmul_gemm(registry);
  register_matmul_einsum(registry);
  register_experts(registry);
}

}  // namespace saturate
