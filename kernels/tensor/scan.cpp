// Running sums and products along an axis (ONNX Operators: CumSum, CumProd).
#include "kernels/core/wrapping.h"
#include "kernels/tensor/families.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

template <bool kProduct>
Outputs cumulative(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const auto given = one_integer(ctx, ctx.tensor(1));
  if (!given.ok()) return given.status();
  const std::optional<int> axis = normalize_axis(*given, x.rank());
  if (!axis) return ctx.invalid("the axis is out of range");
  const bool exclusive = ctx.attr_i("exclusive", 0) != 0, reverse = ctx.attr_i("reverse", 0) != 0;
  auto out = ctx.allocate(x.dtype(), x.dims());
  if (!out.ok()) return out.status();
  const std::int64_t n = x.dims()[*axis], inner = strides_of(x.dims())[*axis], lines = n == 0 ? 0 : x.size() / n;
  return dispatch(NumericTypes(), ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    using Sum = Accumulator<T>;
    T* y = write<T>(*out);
    for (std::int64_t line = 0; line < lines; ++line) {
      const std::int64_t base = line / inner * n * inner + line % inner;
      Sum sum = kProduct ? 1 : 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t at = base + (reverse ? n - 1 - i : i) * inner;
        const Sum value = static_cast<Sum>(static_cast<Compute<T>>(x.data<T>()[at]));
        if (exclusive) y[at] = static_cast<T>(sum);
        sum = kProduct ? multiplied(sum, value) : added(sum, value);
        if (!exclusive) y[at] = static_cast<T>(sum);
      }
    }
    return outputs_of(*std::move(out));
  });
}

}  // namespace

void register_data_scan(Registry& registry) {
  registry.add("", "CumSum", cumulative<false>);
  registry.add("", "CumProd", cumulative<true>);
}

}  // namespace saturate
