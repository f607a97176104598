// Optimizer steps (ONNX Operators, ai.onnx.preview.training: Adagrad, Adam, Momentum).
#include <cmath>

#include "kernels/ml/util.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

// Inputs: rate, step count, then for each of n parameters x, its gradient and its states, kind by kind: x1..xn, g1..gn, ...
// Outputs: the new x and states in the same order. step(values) changes one element: values[0] = x, [1] = gradient, [2..] states.
template <std::size_t kStates, typename F>
Outputs optimize_step(const KernelContext& ctx, F&& step) {
  constexpr std::size_t kKinds = 2 + kStates;
  if (ctx.inputs.size() < 2 + kKinds || (ctx.inputs.size() - 2) % kKinds != 0) return ctx.invalid("the number of inputs does not fit");
  const auto rate = to_doubles(ctx, ctx.tensor(0));
  const auto count = to_integers(ctx, ctx.tensor(1));
  if (!rate.ok() || rate->size() != 1 || !count.ok() || count->size() != 1)
    return ctx.invalid("rate and step count must be one number each");
  const std::size_t n = (ctx.inputs.size() - 2) / kKinds;
  std::vector<Value> out(n * (1 + kStates));
  for (std::size_t p = 0; p < n; ++p) {
    std::array<std::vector<double>, kKinds> data;
    const Tensor& x = ctx.tensor(2 + p);
    for (std::size_t k = 0; k < kKinds; ++k) {
      const Tensor& t = ctx.tensor(2 + k * n + p);
      if (t.dims() != x.dims()) return ctx.invalid("a parameter, its gradient and its states differ in shape");
      auto values = to_doubles(ctx, t);
      if (!values.ok()) return values.status();
      data[k] = *std::move(values);
    }
    for (std::size_t i = 0; i < data[0].size(); ++i) {
      std::array<double, kKinds> values;
      for (std::size_t k = 0; k < kKinds; ++k) values[k] = data[k][i];
      step((*rate)[0], (*count)[0], values);
      for (std::size_t k = 0; k < kKinds; ++k) data[k][i] = values[k];
    }
    for (std::size_t k = 0; k <= kStates; ++k) {
      const std::size_t kind = k == 0 ? 0 : k + 1;  // the gradient has no output
      auto t = from_doubles(ctx, ctx.tensor(2 + kind * n + p).dtype(), x.dims(), data[kind]);
      if (!t.ok()) return t.status();
      out[k * n + p] = *std::move(t);
    }
  }
  return out;
}

Outputs adagrad(KernelContext& ctx) {
  const double norm = ctx.attr_f("norm_coefficient", 0.0f), epsilon = ctx.attr_f("epsilon", 0.0f), decay = ctx.attr_f("decay_factor", 0.0f);
  return optimize_step<1>(ctx, [&](double rate, std::int64_t count, auto& v) {
    const double g = norm * v[0] + v[1];
    v[2] += g * g;
    v[0] -= rate / (1 + static_cast<double>(count) * decay) * g / (std::sqrt(v[2]) + epsilon);
  });
}

Outputs adam(KernelContext& ctx) {
  const double norm = ctx.attr_f("norm_coefficient", 0.0f), post = ctx.attr_f("norm_coefficient_post", 0.0f),
               epsilon = ctx.attr_f("epsilon", 0.0f), alpha = ctx.attr_f("alpha", 0.9f), beta = ctx.attr_f("beta", 0.999f);
  return optimize_step<2>(ctx, [&](double rate, std::int64_t count, auto& v) {
    const double g = norm * v[0] + v[1], t = static_cast<double>(count);
    v[2] = alpha * v[2] + (1 - alpha) * g;
    v[3] = beta * v[3] + (1 - beta) * g * g;
    const double corrected = count > 0 ? rate * std::sqrt(1 - std::pow(beta, t)) / (1 - std::pow(alpha, t)) : rate;
    v[0] = (1 - post) * (v[0] - corrected * v[2] / (std::sqrt(v[3]) + epsilon));
  });
}

Outputs momentum(KernelContext& ctx) {
  const double norm = ctx.attr_f("norm_coefficient", 0.0f), alpha = ctx.attr_f("alpha", 0.0f), beta = ctx.attr_f("beta", 0.0f);
  const bool nesterov = ctx.attr_s("mode", "standard") == "nesterov";
  return optimize_step<1>(ctx, [&](double rate, std::int64_t count, auto& v) {
    const double g = norm * v[0] + v[1];
    v[2] = alpha * v[2] + (count > 0 ? beta : 1.0) * g;  // the first gradient counts in full
    v[0] -= rate * (nesterov ? g + alpha * v[2] : v[2]);
  });
}

}  // namespace

void register_ml_training(Registry& registry) {
  registry.add(kTrainingDomain, "Adagrad", adagrad);
  registry.add(kTrainingDomain, "Adam", adam);
  registry.add(kTrainingDomain, "Momentum", momentum);
}

}  // namespace saturate
