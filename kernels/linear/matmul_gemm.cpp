// Gemm (ONNX spec) and com.microsoft FusedGemm: activation(alpha * A' * B' + beta * C).
#include "kernels/elementwise/activation.h"
#include "kernels/linear/matmul.h"

namespace saturate {
namespace {

// y = alpha * y + beta * C, C broadcast one way to [m, n].
template <typename T>
absl::Status add_bias(const KernelContext& ctx, const Tensor& c, const Shape& dims, double alpha, double beta, T* y) {
  if (ctx.node.domain.empty() && ctx.opset < 7 && ctx.attr_i("broadcast", 0) == 0 && c.dims() != dims)
    return ctx.invalid("C does not have the result's shape");
  if (broadcast_shape(c.dims(), dims) != dims) return ctx.invalid("C does not broadcast to the result");
  if (c.dtype() != dtype_of<T>()) return ctx.invalid("C differs in element type");
  const T* pc = c.data<T>();
  using C = Compute<T>;
  const C scale = static_cast<C>(alpha), weight = static_cast<C>(beta);
  parallel_runs<2>(ctx, dims, {strides_of(dims), broadcast_strides(c.dims(), dims)}, [&](const auto& at, std::int64_t n, const auto& step) {
    T* o = y + at[0];
    const T* b = pc + at[1];
    for (std::int64_t i = 0; i < n; ++i)
      o[i * step[0]] =
          static_cast<T>(added(multiplied(scale, static_cast<C>(o[i * step[0]])), multiplied(weight, static_cast<C>(b[i * step[1]]))));
  });
  return absl::OkStatus();
}

absl::StatusOr<Tensor> gemm_tensor(const KernelContext& ctx) {
  const Tensor &a = ctx.tensor(0), &b = ctx.tensor(1);
  if (a.rank() != 2 || b.rank() != 2) return ctx.invalid("A and B must be matrices");
  const MatMulOptions options{ctx.attr_i("transA", 0) != 0, ctx.attr_i("transB", 0) != 0, 1.0f};
  absl::StatusOr<Tensor> y = matmul(ctx, a, b, options);
  if (!y.ok()) return y;
  const double alpha = ctx.attr_f("alpha", 1.0f), beta = ctx.attr_f("beta", 1.0f);
  Outputs done = dispatch(NumericTypes{}, ctx, a.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    T* out = write<T>(*y);
    if (ctx.has_input(2)) {
      if (absl::Status s = add_bias<T>(ctx, ctx.tensor(2), y->dims(), alpha, beta, out); !s.ok()) return s;
    } else if (alpha != 1.0) {
      using C = Compute<T>;
      for (std::int64_t i = 0; i < y->size(); ++i) out[i] = static_cast<T>(multiplied(static_cast<C>(alpha), static_cast<C>(out[i])));
    }
    return std::vector<Value>();
  });
  if (!done.ok()) return done.status();
  return y;
}

Outputs gemm_op(KernelContext& ctx) {
  absl::StatusOr<Tensor> y = gemm_tensor(ctx);
  if (!y.ok()) return y.status();
  return outputs_of(*std::move(y));
}

Outputs fused_gemm(KernelContext& ctx) {
  absl::StatusOr<Tensor> y = gemm_tensor(ctx);
  if (!y.ok()) return y.status();
  const std::string name = ctx.attr_s("activation", "");
  if (name.empty()) return outputs_of(*std::move(y));
  std::optional<float> alpha, beta;
  if (ctx.has_attr("activation_alpha")) alpha = ctx.attr_f("activation_alpha", 0);
  if (ctx.has_attr("activation_beta")) beta = ctx.attr_f("activation_beta", 0);
  const auto f = activation_function(name, alpha, beta);
  if (!f) return ctx.unsupported("activation '" + name + "'");
  return map_floats(ctx, *y, [&f](auto x) { return static_cast<decltype(x)>((*f)(static_cast<double>(x))); });
}

}  // namespace

void register_matmul_gemm(Registry& registry) {
  constexpr std::uint64_t kPacked = 1u << 1;  // B, which is read once
  registry.add("", "Gemm", gemm_op, kPacked);
  registry.add(kMicrosoft, "FusedGemm", fused_gemm, kPacked);
}

}  // namespace saturate
