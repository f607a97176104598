// Max, Min, Sum, Mean of any number of tensors, broadcast together (ONNX spec, operators of the same names).
#include <cmath>

#include "kernels/elementwise/elementwise.h"

namespace saturate {
namespace {

// NaN wins, as in numpy.maximum and minimum.
struct MaxOp {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a > b || std::isnan(a) ? a : b;
    else
      return a > b ? a : b;
  }
};
struct MinOp {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a < b || std::isnan(a) ? a : b;
    else
      return a < b ? a : b;
  }
};

absl::StatusOr<Shape> common_shape(const KernelContext& ctx) {
  if (ctx.inputs.empty()) return ctx.invalid("needs at least one input");
  std::vector<const Tensor*> all;
  for (std::size_t i = 0; i < ctx.inputs.size(); ++i) {
    if (!ctx.is_tensor(i)) return ctx.invalid("every input must be a tensor");
    if (ctx.tensor(i).dtype() != ctx.tensor(0).dtype()) return ctx.invalid("the inputs differ in element type");
    all.push_back(&ctx.tensor(i));
  }
  std::optional<Shape> dims = broadcast_shape(all);
  if (!dims) return ctx.invalid("the inputs' shapes cannot be broadcast");
  return *std::move(dims);
}

template <typename Op, typename List>
Outputs fold(KernelContext& ctx) {
  absl::StatusOr<Shape> dims = common_shape(ctx);
  if (!dims.ok()) return dims.status();
  if (ctx.inputs.size() == 1) return outputs_of(ctx.tensor(0));
  const DType dtype = ctx.tensor(0).dtype();
  const auto loop = zip_loop_of<Op, List>(dtype);
  if (!loop) return ctx.unsupported_dtype(dtype);
  Tensor so_far = ctx.tensor(0);
  for (std::size_t i = 1; i < ctx.inputs.size(); ++i) {
    Outputs next = zip_tensors(ctx, so_far, ctx.tensor(i), dtype, *loop);
    if (!next.ok()) return next;
    so_far = (*next)[0].tensor();
  }
  return outputs_of(std::move(so_far));
}

// Sum and Mean: the sum is kept in double until the end.
template <bool kMean>
Outputs total(KernelContext& ctx) {
  absl::StatusOr<Shape> dims = common_shape(ctx);
  if (!dims.ok()) return dims.status();
  return dispatch(FloatTypes{}, ctx, ctx.tensor(0).dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    absl::StatusOr<Tensor> y = ctx.allocate(dtype_of<T>(), *dims);
    if (!y.ok()) return y.status();
    std::vector<double> sums(static_cast<std::size_t>(y->size()), 0);
    for (std::size_t k = 0; k < ctx.inputs.size(); ++k) {
      const T* x = ctx.tensor(k).data<T>();
      for_each_run<2>(*dims, {strides_of(*dims), broadcast_strides(ctx.tensor(k).dims(), *dims)},
                      [&](const auto& at, std::int64_t n, const auto& step) {
                        for (std::int64_t i = 0; i < n; ++i)
                          sums[static_cast<std::size_t>(at[0] + i * step[0])] += static_cast<double>(x[at[1] + i * step[1]]);
                      });
    }
    T* out = write<T>(*y);
    const double divisor = kMean ? static_cast<double>(ctx.inputs.size()) : 1.0;
    for (std::size_t i = 0; i < sums.size(); ++i) out[i] = static_cast<T>(sums[i] / divisor);
    return outputs_of(*std::move(y));
  });
}

}  // namespace

void register_elementwise_variadic(Registry& registry) {
  registry.add("", "Max", fold<MaxOp, NumericTypes>);
  registry.add("", "Min", fold<MinOp, NumericTypes>);
  registry.add("", "Sum", total<false>);
  registry.add("", "Mean", total<true>);
}

}  // namespace saturate
