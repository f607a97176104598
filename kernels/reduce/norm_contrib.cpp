// com.microsoft's GroupNorm, SkipGroupNorm and BiasAdd (onnxruntime docs/ContribOperators.md), which its CUDA provider has.
#include <cmath>
#include <optional>

#include "kernels/elementwise/elementwise.h"
#include "kernels/reduce/norm.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

// A tensor of rank 4 as [batch, channels, places], its channels behind the batch or last.
struct Layout {
  std::int64_t batch = 0, channels = 0, places = 0;
  bool last = true;

  std::int64_t at(std::int64_t n, std::int64_t c, std::int64_t place) const {
    return last ? (n * places + place) * channels + c : (n * channels + c) * places + place;
  }
};

Layout layout_of(const Shape& dims, bool last) {
  if (last) return {dims[0], dims[3], dims[1] * dims[2], last};
  return {dims[0], dims[1], dims[2] * dims[3], last};
}

struct GroupCall {
  Layout layout;
  std::int64_t groups = 1;
  double epsilon = 1e-5;
  bool swish = false;
  std::vector<double> gamma, beta;
};

// One group of one batch entry: (x - mean) / sqrt(variance + epsilon) * gamma + beta, times its own sigmoid if the call wants Swish.
template <typename T>
void normalize_group(const GroupCall& call, std::int64_t n, std::int64_t group, const T* x, T* y) {
  const Layout& l = call.layout;
  const std::int64_t width = l.channels / call.groups, first = group * width;
  const auto each = [&](auto&& visit) {
    for (std::int64_t p = 0; p < l.places; ++p)
      for (std::int64_t c = first; c < first + width; ++c) visit(c, l.at(n, c, p));
  };
  const double count = static_cast<double>(width * l.places);
  double mean = 0, variance = 0;
  each([&](std::int64_t, std::int64_t at) { mean += static_cast<double>(x[at]); });
  mean /= count;
  each([&](std::int64_t, std::int64_t at) { variance += (static_cast<double>(x[at]) - mean) * (static_cast<double>(x[at]) - mean); });
  const double inverse = 1.0 / std::sqrt(variance / count + call.epsilon);
  each([&](std::int64_t c, std::int64_t at) {
    const auto k = static_cast<std::size_t>(c);
    const double v = (static_cast<double>(x[at]) - mean) * inverse * call.gamma[k] + call.beta[k];
    y[at] = static_cast<T>(call.swish ? v / (1.0 + std::exp(-v)) : v);
  });
}

absl::StatusOr<GroupCall> read_group_call(const KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  if (x.rank() != 4) return ctx.invalid("the input must be of rank 4");
  GroupCall call;
  call.layout = layout_of(x.dims(), ctx.attr_i("channels_last", 1) != 0);
  call.groups = ctx.attr_i("groups", 0);
  if (call.groups <= 0 || call.layout.channels % call.groups != 0) return ctx.invalid("the channels cannot be split into groups");
  const std::int64_t activation = ctx.attr_i("activation", 0);
  if (activation != 0 && activation != 1) return ctx.invalid("activation must be 0 (none) or 1 (Swish)");
  call.swish = activation == 1;
  call.epsilon = ctx.attr_f("epsilon", 1e-5f);
  absl::StatusOr<std::vector<double>> gamma = to_doubles(ctx, ctx.tensor(1)), beta = to_doubles(ctx, ctx.tensor(2));
  if (!gamma.ok()) return gamma.status();
  if (!beta.ok()) return beta.status();
  const auto channels = static_cast<std::size_t>(call.layout.channels);
  if (gamma->size() != channels || beta->size() != channels) return ctx.invalid("gamma and beta must have one element a channel");
  call.gamma = *std::move(gamma);
  call.beta = *std::move(beta);
  return call;
}

Outputs group_norm_of(const KernelContext& ctx, const GroupCall& call, const Tensor& x) {
  absl::StatusOr<Tensor> y = ctx.allocate(x.dtype(), x.dims());
  if (!y.ok()) return y.status();
  return dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    const T* in = x.data<T>();
    T* out = write<T>(*y);
    parallel_for(ctx, call.layout.batch * call.groups, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) normalize_group(call, i / call.groups, i % call.groups, in, out);
    });
    return outputs_of(*std::move(y));
  });
}

Outputs group_norm(KernelContext& ctx) {
  absl::StatusOr<GroupCall> call = read_group_call(ctx);
  if (!call.ok()) return call.status();
  return group_norm_of(ctx, *call, ctx.tensor(0));
}

// Inputs: X, gamma, beta, skip (of X's shape, [N, C], or that with ones between), bias [C]. Outputs: Y, the sum that was normalized.
Outputs skip_group_norm(KernelContext& ctx) {
  absl::StatusOr<GroupCall> call = read_group_call(ctx);
  if (!call.ok()) return call.status();
  const auto& [batch, channels, places, last] = call->layout;
  const auto row = [&, c = channels, at_end = last](std::int64_t n) { return at_end ? Shape{n, 1, 1, c} : Shape{n, c, 1, 1}; };
  const Tensor& skip = ctx.tensor(3);
  const bool flat = skip.dims() == Shape{batch, channels};
  if (!flat && skip.dims() != row(batch) && skip.dims() != ctx.tensor(0).dims()) return ctx.invalid("skip does not fit the input");
  std::optional<Tensor> bias;
  if (ctx.has_input(4)) {
    if (ctx.tensor(4).dims() != Shape{channels}) return ctx.invalid("bias does not fit the input");
    bias = ctx.tensor(4).reshaped(row(1));
  }
  absl::StatusOr<Tensor> sum = residual(ctx, ctx.tensor(0), flat ? skip.reshaped(row(batch)) : skip, bias ? &*bias : nullptr);
  if (!sum.ok()) return sum.status();
  Outputs out = group_norm_of(ctx, *call, *sum);
  if (out.ok()) out->push_back(*std::move(sum));
  return out;
}

// X [N, S, C] + bias [C] + skip [N, S, C].
Outputs bias_add(KernelContext& ctx) {
  const Tensor &x = ctx.tensor(0), &bias = ctx.tensor(1), &skip = ctx.tensor(2);
  if (x.rank() != 3) return ctx.invalid("the input must be of rank 3");
  if (bias.dims() != Shape{x.dims()[2]}) return ctx.invalid("bias does not fit the input");
  if (skip.dims() != x.dims()) return ctx.invalid("skip does not fit the input");
  absl::StatusOr<Tensor> sum = residual(ctx, x, bias, &skip);
  return sum.ok() ? outputs_of(*std::move(sum)) : Outputs(sum.status());
}

}  // namespace

void register_norm_contrib(Registry& registry) {
  registry.add(kMicrosoft, "GroupNorm", group_norm);
  registry.add(kMicrosoft, "SkipGroupNorm", skip_group_norm);
  registry.add(kMicrosoft, "BiasAdd", bias_add);
}

}  // namespace saturate
