// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss (ONNX spec).
#include <cmath>
#include <limits>

#include "kernels/core/registry.h"

namespace saturate {
namespace {

struct LossInputs {
  std::int64_t batch = 0, classes = 0, inner = 1;
  std::vector<std::int64_t> target;
  Shape target_dims;
  std::optional<std::int64_t> ignore;
};

absl::StatusOr<LossInputs> loss_inputs(const KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  if (x.rank() < 2) return ctx.invalid("the scores must have classes at axis 1");
  LossInputs in;
  in.batch = x.dims()[0];
  in.classes = x.dims()[1];
  in.target_dims = {in.batch};
  for (int k = 2; k < x.rank(); ++k) {
    in.target_dims.push_back(x.dims()[k]);
    in.inner *= x.dims()[k];
  }
  if (ctx.tensor(1).dims() != in.target_dims) return ctx.invalid("the labels do not fit the scores");
  absl::StatusOr<std::vector<std::int64_t>> target = int_values(ctx, ctx.tensor(1));
  if (!target.ok()) return target.status();
  in.target = *std::move(target);
  if (ctx.has_attr("ignore_index")) in.ignore = ctx.attr_i("ignore_index", 0);
  for (std::int64_t t : in.target) {
    if (t != in.ignore && (t < 0 || t >= in.classes)) return ctx.invalid("a label is out of range");
  }
  if (ctx.has_input(2) && (ctx.tensor(2).size() != in.classes || ctx.tensor(2).dtype() != x.dtype()))
    return ctx.invalid("the weights do not fit the classes");
  return in;
}

// The loss of log probabilities `logp` [batch, classes, inner].
template <typename T>
Outputs loss_of(const KernelContext& ctx, const LossInputs& in, const std::vector<double>& logp) {
  const T* weight = ctx.has_input(2) ? ctx.tensor(2).data<T>() : nullptr;
  const std::string reduction = ctx.attr_s("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean") return ctx.invalid("unknown reduction");
  std::vector<double> loss(in.target.size(), 0.0);
  double total = 0, weights = 0;
  for (std::size_t i = 0; i < loss.size(); ++i) {
    const std::int64_t t = in.target[i];
    if (t == in.ignore) continue;
    const double w = weight == nullptr ? 1.0 : static_cast<double>(weight[t]);
    const std::int64_t b = static_cast<std::int64_t>(i) / in.inner, p = static_cast<std::int64_t>(i) % in.inner;
    loss[i] = -w * logp[static_cast<std::size_t>((b * in.classes + t) * in.inner + p)];
    total += loss[i];
    weights += w;
  }
  const bool none = reduction == "none";
  absl::StatusOr<Tensor> y = ctx.allocate(dtype_of<T>(), none ? in.target_dims : Shape{});
  if (!y.ok()) return y.status();
  if (none) {
    for (std::size_t i = 0; i < loss.size(); ++i) write<T>(*y)[i] = static_cast<T>(loss[i]);
  } else {
    write<T>(*y)[0] = static_cast<T>(reduction == "sum" ? total : total / weights);
  }
  return outputs_of(*std::move(y));
}

Outputs negative_log_likelihood(KernelContext& ctx) {
  absl::StatusOr<LossInputs> in = loss_inputs(ctx);
  if (!in.ok()) return in.status();
  return dispatch(FloatTypes{}, ctx, ctx.tensor(0).dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    std::vector<double> logp(static_cast<std::size_t>(ctx.tensor(0).size()));
    for (std::size_t i = 0; i < logp.size(); ++i) logp[i] = static_cast<double>(ctx.tensor(0).data<T>()[i]);
    return loss_of<T>(ctx, *in, logp);
  });
}

Outputs softmax_cross_entropy(KernelContext& ctx) {
  absl::StatusOr<LossInputs> in = loss_inputs(ctx);
  if (!in.ok()) return in.status();
  const Tensor& x = ctx.tensor(0);
  return dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    std::vector<double> logp(static_cast<std::size_t>(x.size()));
    for (std::int64_t r = 0; r < in->batch * in->inner; ++r) {
      const std::int64_t at = r / in->inner * in->classes * in->inner + r % in->inner;
      double top = -std::numeric_limits<double>::infinity(), sum = 0;
      for (std::int64_t c = 0; c < in->classes; ++c) top = std::max(top, static_cast<double>(x.data<T>()[at + c * in->inner]));
      for (std::int64_t c = 0; c < in->classes; ++c) sum += std::exp(static_cast<double>(x.data<T>()[at + c * in->inner]) - top);
      for (std::int64_t c = 0; c < in->classes; ++c) {
        logp[static_cast<std::size_t>(at + c * in->inner)] = static_cast<double>(x.data<T>()[at + c * in->inner]) - top - std::log(sum);
      }
    }
    Outputs out = loss_of<T>(ctx, *in, logp);
    if (!out.ok() || !ctx.wants(1)) return out;
    absl::StatusOr<Tensor> t = ctx.allocate(x.dtype(), x.dims());
    if (!t.ok()) return t.status();
    for (std::size_t i = 0; i < logp.size(); ++i) write<T>(*t)[i] = static_cast<T>(logp[i]);
    out->emplace_back(*std::move(t));
    return out;
  });
}

}  // namespace

void register_loss(Registry& registry) {
  registry.add("", "NegativeLogLikelihoodLoss", negative_log_likelihood);
  registry.add("", "SoftmaxCrossEntropyLoss", softmax_cross_entropy);
}

}  // namespace saturate
