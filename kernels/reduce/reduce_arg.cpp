// ArgMax and ArgMin (ONNX spec); select_last_index since opset 12.
#include "kernels/elementwise/elementwise.h"
#include "kernels/reduce/reduce.h"

namespace saturate {
namespace {

template <bool kMax>
Outputs arg_extreme(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const std::optional<int> axis = normalize_axis(ctx.attr_i("axis", 0), x.rank());
  if (!axis) return ctx.invalid("axis is out of range");
  const bool last = ctx.attr_i("select_last_index", 0) != 0, keep = ctx.attr_i("keepdims", 1) == 1;
  Shape dims = x.dims();
  const std::int64_t length = dims[*axis];
  const std::int64_t inner = product(std::span(x.dims()).subspan(static_cast<std::size_t>(*axis) + 1));
  if (keep)
    dims[*axis] = 1;
  else
    dims.erase(dims.begin() + *axis);
  absl::StatusOr<Tensor> y = ctx.allocate(DType::kInt64, dims);
  if (!y.ok()) return y.status();
  if (length == 0 && y->size() > 0) return ctx.invalid("the axis is empty");
  return dispatch(NumericTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    using C = Compute<T>;
    const T* in = x.data<T>();
    std::int64_t* out = write<std::int64_t>(*y);
    parallel_for(ctx, y->size(), std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, length)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     const T* p = in + i / inner * length * inner + i % inner;
                     std::int64_t best = 0;
                     for (std::int64_t k = 1; k < length; ++k) {
                       const C a = static_cast<C>(p[k * inner]), b = static_cast<C>(p[best * inner]);
                       if ((kMax ? a > b : a < b) || (last && a == b)) best = k;
                     }
                     out[i] = best;
                   }
                 });
    return outputs_of(*std::move(y));
  });
}

}  // namespace

void register_reduce_arg(Registry& registry) {
  registry.add("", "ArgMax", arg_extreme<true>);
  registry.add("", "ArgMin", arg_extreme<false>);
}

}  // namespace saturate
