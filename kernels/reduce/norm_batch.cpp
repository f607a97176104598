// BatchNormalization in all versions (spec: 1, 6, 7, 9, 14, 15), InstanceNormalization and GroupNormalization (18, 21).
#include <cmath>

#include "kernels/elementwise/elementwise.h"
#include "kernels/reduce/norm.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

// A tensor as [batch, channels, inner]; one of rank 1 counts as [n, 1, 1] does not: its only dim is the batch, with one channel.
struct Channels {
  std::int64_t batch = 1, channels = 1, inner = 1;
};
Channels channels_of(const Shape& dims) {
  Channels c;
  if (!dims.empty()) c.batch = dims[0];
  if (dims.size() > 1) c.channels = dims[1];
  for (std::size_t k = 2; k < dims.size(); ++k) c.inner *= dims[k];
  return c;
}

template <typename T>
void channel_statistics(const T* x, const Channels& c, std::vector<double>& mean, std::vector<double>& variance) {
  const double n = static_cast<double>(c.batch * c.inner);
  for (std::int64_t k = 0; k < c.channels; ++k) {
    double sum = 0, square = 0;
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t b = 0; b < c.batch; ++b) {
        const T* p = x + (b * c.channels + k) * c.inner;
        for (std::int64_t i = 0; i < c.inner; ++i) {
          const double v = static_cast<double>(p[i]);
          if (pass == 0)
            sum += v;
          else
            square += (v - sum / n) * (v - sum / n);
        }
      }
    }
    mean[static_cast<std::size_t>(k)] = sum / n;
    variance[static_cast<std::size_t>(k)] = square / n;
  }
}

// y = x * factor + offset, one pair per (batch, channel) or per channel.
template <typename T>
void affine(const KernelContext& ctx, const T* x, T* y, const Channels& c, const std::vector<double>& factor,
            const std::vector<double>& offset) {
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const std::int64_t period = static_cast<std::int64_t>(factor.size());
  parallel_for(ctx, c.batch * c.channels, std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, c.inner)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   const C f = static_cast<C>(factor[static_cast<std::size_t>(r % period)]),
                           o = static_cast<C>(offset[static_cast<std::size_t>(r % period)]);
                   const T* in = x + r * c.inner;
                   T* out = y + r * c.inner;
                   for (std::int64_t i = 0; i < c.inner; ++i) out[i] = static_cast<T>(static_cast<C>(in[i]) * f + o);
                 }
               });
}

// Training: by attribute training_mode from opset 14; below 7 by is_test = 0 (whose default it is); from 7 to 13 by the number of outputs.
bool trains(const KernelContext& ctx) {
  if (ctx.opset >= 14) return ctx.attr_i("training_mode", 0) != 0;
  if (ctx.opset < 7) return ctx.attr_i("is_test", 0) == 0 && ctx.num_outputs > 1;
  return ctx.num_outputs > 1;
}

Outputs batch_normalization(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const Channels c = channels_of(x.dims());
  std::array<std::vector<double>, 4> p;  // scale, bias, mean, variance
  for (std::size_t k = 0; k < 4; ++k) {
    absl::StatusOr<std::vector<double>> v = to_doubles(ctx, ctx.tensor(k + 1));
    if (!v.ok()) return v.status();
    p[k] = *std::move(v);
    if (static_cast<std::int64_t>(p[k].size()) != c.channels) {
      return ctx.attr_i("spatial", 1) == 0 ? ctx.unsupported("spatial = 0")
                                           : ctx.invalid("scale, bias, mean and variance must have one element a channel");
    }
  }
  const double epsilon = ctx.attr_f("epsilon", 1e-5f), momentum = ctx.attr_f("momentum", 0.9f);
  absl::StatusOr<Tensor> y = ctx.allocate(x.dtype(), x.dims());
  if (!y.ok()) return y.status();
  std::vector<double> mean = p[2], variance = p[3];
  Outputs done = dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    if (trains(ctx)) channel_statistics(x.data<T>(), c, mean, variance);
    std::vector<double> factor(p[0].size()), offset(factor.size());
    for (std::size_t k = 0; k < factor.size(); ++k) {
      factor[k] = p[0][k] / std::sqrt(variance[k] + epsilon);
      offset[k] = p[1][k] - mean[k] * factor[k];
    }
    affine(ctx, x.data<T>(), write<T>(*y), c, factor, offset);
    return std::vector<Value>();
  });
  if (!done.ok()) return done;
  std::vector<Value> out = outputs_of(*std::move(y));
  if (!trains(ctx)) return out;
  std::array<std::vector<double>, 2> running{mean, variance};
  for (std::size_t k = 0; k < 2; ++k) {
    for (std::size_t i = 0; i < running[k].size(); ++i) running[k][i] = p[k + 2][i] * momentum + running[k][i] * (1 - momentum);
    absl::StatusOr<Tensor> t = from_doubles(ctx, ctx.tensor(k + 3).dtype(), ctx.tensor(k + 3).dims(), running[k]);
    if (!t.ok()) return t.status();
    out.push_back(*std::move(t));
  }
  if (ctx.opset < 14) {  // saved_mean, saved_var
    for (const std::vector<double>& v : {mean, variance}) {
      absl::StatusOr<Tensor> t = from_doubles(ctx, ctx.tensor(3).dtype(), ctx.tensor(3).dims(), v);
      if (!t.ok()) return t.status();
      out.push_back(*std::move(t));
    }
  }
  return out;
}

// Statistics per (batch, group) of x seen as [batch, groups, channels / groups * inner], then an affine map per (batch, channel).
struct GroupNorm {
  std::int64_t groups;
  const std::vector<double>&scale, &bias;
  double epsilon;
};

template <typename T>
void normalize_groups(const KernelContext& ctx, const T* x, T* y, const Channels& c, const GroupNorm& norm) {
  const auto& [groups, scale, bias, epsilon] = norm;
  const std::int64_t per_group = c.channels / groups, n = per_group * c.inner;
  std::vector<double> factor(static_cast<std::size_t>(c.batch * c.channels)), offset(factor.size());
  for (std::int64_t bg = 0; bg < c.batch * groups; ++bg) {
    const T* p = x + bg * n;
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < n; ++i) mean += static_cast<double>(p[i]);
    mean /= static_cast<double>(n);
    for (std::int64_t i = 0; i < n; ++i) variance += (static_cast<double>(p[i]) - mean) * (static_cast<double>(p[i]) - mean);
    const double inverse = 1.0 / std::sqrt(variance / static_cast<double>(n) + epsilon);
    for (std::int64_t k = 0; k < per_group; ++k) {
      const std::int64_t channel = bg % groups * per_group + k;
      // GroupNormalization-18 has one scale and bias a group, 21 and InstanceNormalization one a channel.
      const std::int64_t w = static_cast<std::int64_t>(scale.size()) == c.channels ? channel : bg % groups;
      const auto at = static_cast<std::size_t>(bg / groups * c.channels + channel);
      factor[at] = scale[static_cast<std::size_t>(w)] * inverse;
      offset[at] = bias[static_cast<std::size_t>(w)] - mean * factor[at];
    }
  }
  affine(ctx, x, y, c, factor, offset);
}

Outputs group_norm(const KernelContext& ctx, std::int64_t groups, std::int64_t weights) {
  const Tensor& x = ctx.tensor(0);
  const Channels c = channels_of(x.dims());
  if (groups <= 0 || c.channels % groups != 0) return ctx.invalid("the channels cannot be split into num_groups");
  absl::StatusOr<std::vector<double>> scale = to_doubles(ctx, ctx.tensor(1)), bias = to_doubles(ctx, ctx.tensor(2));
  if (!scale.ok()) return scale.status();
  if (!bias.ok()) return bias.status();
  if (static_cast<std::int64_t>(scale->size()) != weights || scale->size() != bias->size())
    return ctx.invalid("scale and bias have the wrong size");
  absl::StatusOr<Tensor> y = ctx.allocate(x.dtype(), x.dims());
  if (!y.ok()) return y.status();
  return dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    normalize_groups(ctx, x.data<T>(), write<T>(*y), c, {groups, *scale, *bias, ctx.attr_f("epsilon", 1e-5f)});
    return outputs_of(*std::move(y));
  });
}

Outputs instance_normalization(KernelContext& ctx) {
  const std::int64_t channels = channels_of(ctx.tensor(0).dims()).channels;
  return group_norm(ctx, channels, channels);
}

Outputs group_normalization(KernelContext& ctx) {
  const std::int64_t groups = ctx.attr_i("num_groups", 1);
  return group_norm(ctx, groups, ctx.opset < 21 ? groups : channels_of(ctx.tensor(0).dims()).channels);
}

}  // namespace

void register_norm_batch(Registry& registry) {
  registry.add("", "BatchNormalization", batch_normalization);
  registry.add("", "InstanceNormalization", instance_normalization);
  registry.add("", "GroupNormalization", group_normalization);
}

}  // namespace saturate
