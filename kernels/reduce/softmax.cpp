// Softmax, LogSoftmax, Hardmax (ONNX spec; below opset 13 the input is flattened to 2-D at `axis`, whose default was 1).
#include "kernels/reduce/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/core/registry.h"
#include "kernels/elementwise/activation.h"

namespace saturate {
namespace {

// The tensor as [outer, length, inner], normalized over `length`.
struct SoftmaxLayout {
  std::int64_t outer = 1, length = 1, inner = 1;
};

absl::StatusOr<SoftmaxLayout> layout_of(const KernelContext& ctx, const Tensor& x) {
  const bool flattened = ctx.opset < 13;
  const std::int64_t wanted = ctx.attr_i("axis", flattened ? 1 : -1);
  SoftmaxLayout l;
  // Flattening allows axis == rank; so does softmax of a scalar, one row of one element.
  if (flattened && wanted == x.rank()) {
    l.outer = x.size();
    return l;
  }
  if (x.rank() == 0 && (wanted == 0 || wanted == -1)) return l;
  const std::optional<int> axis = normalize_axis(wanted, x.rank());
  if (!axis) return ctx.invalid("axis is out of range");
  for (int k = 0; k < x.rank(); ++k) {
    if (k < *axis)
      l.outer *= x.dims()[k];
    else if (k == *axis || flattened)
      l.length *= x.dims()[k];
    else
      l.inner *= x.dims()[k];
  }
  return l;
}

enum class Form { kSoftmax, kLogSoftmax, kHardmax };

template <Form kForm, typename T>
void one_row(const T* x, T* y, std::int64_t n, std::int64_t stride) {
  if constexpr (kForm == Form::kHardmax) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < n; ++i) {
      if (static_cast<Compute<T>>(x[i * stride]) > static_cast<Compute<T>>(x[best * stride])) best = i;
    }
    for (std::int64_t i = 0; i < n; ++i) y[i * stride] = static_cast<T>(i == best ? 1.0f : 0.0f);
    return;
  }
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t i = 0; i < n; ++i) top = std::max(top, static_cast<double>(x[i * stride]));
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[i * stride]) - top);
  for (std::int64_t i = 0; i < n; ++i) {
    const double shifted = static_cast<double>(x[i * stride]) - top;
    y[i * stride] = static_cast<T>(kForm == Form::kSoftmax ? std::exp(shifted) / sum : shifted - std::log(sum));
  }
}

template <Form kForm>
Outputs softmax(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  absl::StatusOr<SoftmaxLayout> l = layout_of(ctx, x);
  if (!l.ok()) return l.status();
  return dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    absl::StatusOr<Tensor> y = kForm == Form::kHardmax ? ctx.allocate(x.dtype(), x.dims()) : ctx.allocate_over({&x}, x.dtype(), x.dims());
    if (!y.ok()) return y.status();
    const T* in = x.data<T>();
    T* out = write<T>(*y);
    const bool fast = kForm == Form::kSoftmax && std::is_same_v<T, float> && l->inner == 1 && !ctx.options.reference;
    const std::int64_t rows = x.size() == 0 ? 0 : l->outer * l->inner;
    parallel_for(ctx, rows, std::max<std::int64_t>(1, kElementGrain / 4 / std::max<std::int64_t>(1, l->length)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t r = begin; r < end; ++r) {
                     const std::int64_t at = r / l->inner * l->length * l->inner + r % l->inner;
                     if constexpr (std::is_same_v<T, float>) {
                       if (fast) {
                         std::copy_n(in + at, l->length, out + at);
                         softmax_row(out + at, l->length);
                         continue;
                       }
                     }
                     one_row<kForm, T>(in + at, out + at, l->length, l->inner);
                   }
                 });
    return outputs_of(*std::move(y));
  });
}

}  // namespace

void register_softmax(Registry& registry) {
  registry.add("", "Softmax", softmax<Form::kSoftmax>);
  registry.add("", "LogSoftmax", softmax<Form::kLogSoftmax>);
  registry.add("", "Hardmax", softmax<Form::kHardmax>);
}

}  // namespace saturate
