// LayerNormalization-17 and RMSNormalization-23. Of com.microsoft: SimplifiedLayerNormalization, SkipLayerNormalization and
// SkipSimplifiedLayerNormalization (onnxruntime docs/ContribOperators.md).
#include "kernels/reduce/norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise/elementwise.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

template <typename T>
std::pair<double, double> row_statistics(const T* x, std::int64_t n, bool rms) {
  const auto count = static_cast<double>(n);
  if constexpr (std::is_same_v<T, float>) {
    if (rms) return {0.0, sum_squares_floats(x, n) / count};
    const double mean = sum_floats(x, n) / count;
    return {mean, sum_squared_deviations_floats(x, n, static_cast<float>(mean)) / count};
  }
  double mean = 0, square = 0;
  if (!rms) {
    for (std::int64_t i = 0; i < n; ++i) mean += static_cast<double>(x[i]);
    mean /= count;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(x[i]) - mean;
    square += d * d;
  }
  return {mean, square / count};
}

}  // namespace

template <typename T, typename S>
void normalize_rows(const KernelContext& ctx, const NormOptions& o, const T* x, ScaleAndBias<S> by, T* y, StatisticsOut statistics) {
  const S *scale = by.scale, *bias = by.bias;
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  parallel_for(ctx, o.rows, std::max<std::int64_t>(1, kElementGrain / 4 / std::max<std::int64_t>(1, o.length)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   const T* in = x + r * o.length;
                   T* out = y + r * o.length;
                   const auto [center, variance] = row_statistics(in, o.length, o.rms);
                   const double factor = 1.0 / std::sqrt(variance + o.epsilon);
                   const C c = static_cast<C>(center), f = static_cast<C>(factor);
                   if (statistics.mean != nullptr) statistics.mean[r] = static_cast<float>(center);
                   if (statistics.inverse_std != nullptr) statistics.inverse_std[r] = static_cast<float>(factor);
                   if constexpr (std::is_same_v<T, float> && std::is_same_v<S, float>) {
                     if (!ctx.options.reference) {
                       normalize_floats(in, o.length, c, f, by, out);
                       continue;
                     }
                   }
                   for (std::int64_t i = 0; i < o.length; ++i) {
                     C v = (static_cast<C>(in[i]) - c) * f;
                     if (scale != nullptr) v *= static_cast<C>(scale[i]);
                     if (bias != nullptr) v += static_cast<C>(bias[i]);
                     out[i] = static_cast<T>(v);
                   }
                 }
               });
}

template void normalize_rows(const KernelContext&, const NormOptions&, const float*, ScaleAndBias<float>, float*, StatisticsOut);
template void normalize_rows(const KernelContext&, const NormOptions&, const double*, ScaleAndBias<double>, double*, StatisticsOut);
template void normalize_rows(const KernelContext&, const NormOptions&, const Half*, ScaleAndBias<Half>, Half*, StatisticsOut);
template void normalize_rows(const KernelContext&, const NormOptions&, const BFloat16*, ScaleAndBias<BFloat16>, BFloat16*, StatisticsOut);

namespace {

// A tensor that broadcasts to `dims`, written out in full.
template <typename T>
std::vector<T> expanded(const Tensor& t, const Shape& dims) {
  std::vector<T> out(static_cast<std::size_t>(product(dims)));
  const T* in = t.data<T>();
  for_each_run<2>(dims, {strides_of(dims), broadcast_strides(t.dims(), dims)}, [&](const auto& at, std::int64_t n, const auto& step) {
    for (std::int64_t i = 0; i < n; ++i) out[static_cast<std::size_t>(at[0] + i * step[0])] = in[at[1] + i * step[1]];
  });
  return out;
}

// Scale or bias over the normalized dims as [length] elements of T, converted where its own type differs (SimplifiedLayerNormalization).
template <typename T>
absl::StatusOr<std::vector<T>> weights(const KernelContext& ctx, const Tensor& t, const Shape& dims) {
  if (broadcast_shape(t.dims(), dims) != dims) return ctx.invalid("scale or bias does not fit the normalized dims");
  if (t.dtype() == dtype_of<T>()) return expanded<T>(t, dims);
  std::vector<T> out;
  Outputs done = dispatch(FloatTypes{}, ctx, t.dtype(), [&]<typename S>(std::type_identity<S>) -> Outputs {
    for (const S& v : expanded<S>(t, dims)) out.push_back(static_cast<T>(v));
    return std::vector<Value>();
  });
  if (!done.ok()) return done.status();
  return out;
}

struct NormCall {
  bool rms = false;
  double epsilon = 1e-5;
  int axis = -1;
  const Tensor* scale = nullptr;
  const Tensor* bias = nullptr;
};

// Y, Mean, InvStdDev (Y, InvStdDev for rms).
Outputs normalize(const KernelContext& ctx, const Tensor& x, const NormCall& call) {
  const std::optional<int> axis = normalize_axis(call.axis, x.rank());
  if (!axis) return ctx.invalid("axis is out of range");
  const Shape inner(x.dims().begin() + *axis, x.dims().end());
  Shape statistics_dims = x.dims();
  std::fill(statistics_dims.begin() + *axis, statistics_dims.end(), 1);
  NormOptions o{call.epsilon, call.rms, 0, product(inner)};
  o.rows = product(statistics_dims);
  absl::StatusOr<Tensor> y = ctx.allocate_over({&x}, x.dtype(), x.dims());
  if (!y.ok()) return y.status();
  std::vector<float> mean(static_cast<std::size_t>(o.rows)), inverse(mean.size());
  Outputs done = dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    std::vector<T> scale, bias;
    const T *ps = nullptr, *pb = nullptr;
    for (auto [tensor, store, pointer] : {std::tuple(call.scale, &scale, &ps), {call.bias, &bias, &pb}}) {
      if (tensor == nullptr) continue;
      if (tensor->dtype() == dtype_of<T>() && tensor->size() == o.length && tensor->rank() <= static_cast<int>(inner.size())) {
        *pointer = tensor->template data<T>();
        continue;
      }
      absl::StatusOr<std::vector<T>> w = weights<T>(ctx, *tensor, inner);
      if (!w.ok()) return w.status();
      *store = *std::move(w);
      *pointer = store->data();
    }
    normalize_rows<T, T>(ctx, o, x.data<T>(), {ps, pb}, write<T>(*y), {mean.data(), inverse.data()});
    return std::vector<Value>();
  });
  if (!done.ok()) return done;
  std::vector<Value> out = outputs_of(*std::move(y));
  const DType stash = static_cast<DType>(ctx.attr_i("stash_type", 1));
  const auto wanted = [&](int i) { return ctx.num_outputs > i && ctx.wants(i); };
  const std::vector<const std::vector<float>*> extra =
      call.rms ? std::vector<const std::vector<float>*>{&inverse} : std::vector<const std::vector<float>*>{&mean, &inverse};
  for (std::size_t k = 0; k < extra.size(); ++k) {
    out.emplace_back();
    if (!wanted(static_cast<int>(k) + 1)) continue;
    absl::StatusOr<Tensor> t = from_doubles(ctx, stash, statistics_dims, std::vector<double>(extra[k]->begin(), extra[k]->end()));
    if (!t.ok()) return t.status();
    out.back() = *std::move(t);
  }
  return out;
}

bool fits(const Tensor* t, std::span<const std::int64_t> dims) {
  return t == nullptr || broadcast_shape(t->dims(), dims) == Shape(dims.begin(), dims.end());
}

// y = f(y, w), w broadcast to y; f holds no values.
template <typename F>
absl::Status apply_wide(const KernelContext& ctx, Value& y, const Tensor& w, F) {
  const Tensor x = y.tensor();
  if (w.dtype() != x.dtype()) return ctx.invalid("scale or bias has another element type than the input");
  Outputs done = dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    return zip_elements<T, T, T>(ctx, x, w,
                                 [](T a, T b) { return static_cast<T>(F()(static_cast<Compute<T>>(a), static_cast<Compute<T>>(b))); });
  });
  if (!done.ok()) return done.status();
  y = std::move((*done)[0]);
  return absl::OkStatus();
}

// Scale and bias may broadcast to all of X, not to its normalized dims alone.
Outputs normalize_and_scale(const KernelContext& ctx, const NormCall& call) {
  const Tensor& x = ctx.tensor(0);
  const std::optional<int> axis = normalize_axis(call.axis, x.rank());
  if (!axis) return ctx.invalid("axis is out of range");
  const std::span<const std::int64_t> inner = std::span(x.dims()).subspan(static_cast<std::size_t>(*axis));
  const bool wide = !fits(call.scale, inner) || !fits(call.bias, inner);
  if (!wide || !fits(call.scale, x.dims()) || !fits(call.bias, x.dims())) return normalize(ctx, x, call);
  Outputs out = normalize(ctx, x, {call.rms, call.epsilon, call.axis, nullptr, nullptr});
  if (!out.ok()) return out;
  if (absl::Status s = apply_wide(ctx, (*out)[0], *call.scale, [](auto a, auto b) { return a * b; }); !s.ok()) return s;
  if (call.bias == nullptr) return out;
  if (absl::Status s = apply_wide(ctx, (*out)[0], *call.bias, [](auto a, auto b) { return a + b; }); !s.ok()) return s;
  return out;
}

Outputs layer_normalization(KernelContext& ctx) {
  return normalize_and_scale(ctx, {false, ctx.attr_f("epsilon", 1e-5f), static_cast<int>(ctx.attr_i("axis", -1)), &ctx.tensor(1),
                                   ctx.has_input(2) ? &ctx.tensor(2) : nullptr});
}

Outputs rms_normalization(KernelContext& ctx) {
  const Tensor& scale = ctx.tensor(1);
  Outputs out = normalize_and_scale(ctx, {true, ctx.attr_f("epsilon", 1e-5f), static_cast<int>(ctx.attr_i("axis", -1)), &scale, nullptr});
  if (!out.ok() || scale.dtype() == ctx.tensor(0).dtype()) return out;
  const Tensor y = (*out)[0].tensor();  // the result has the type of the scale
  absl::StatusOr<std::vector<double>> values = to_doubles(ctx, y);
  if (!values.ok()) return values.status();
  absl::StatusOr<Tensor> as_scale = from_doubles(ctx, scale.dtype(), y.dims(), *values);
  if (!as_scale.ok()) return as_scale.status();
  (*out)[0] = *std::move(as_scale);
  return out;
}

// Inputs: input, skip, gamma, beta, bias. Outputs: output, mean, inv_std_var, input_skip_bias_sum. The simplified one has no beta.
template <bool kRms>
Outputs skip_layer_normalization(KernelContext& ctx) {
  const std::size_t bias = kRms ? 3 : 4;
  absl::StatusOr<Tensor> sum = residual(ctx, ctx.tensor(0), ctx.tensor(1), ctx.has_input(bias) ? &ctx.tensor(bias) : nullptr);
  if (!sum.ok()) return sum.status();
  NormCall call{kRms, ctx.attr_f("epsilon", 1e-12f), -1, &ctx.tensor(2), nullptr};
  if (!kRms && ctx.has_input(3)) call.bias = &ctx.tensor(3);
  Outputs out = normalize(ctx, *sum, call);
  if (!out.ok()) return out;
  if (kRms) out->insert(out->begin() + 1, Value());  // its second output is a mean that is never made
  out->resize(3);
  out->push_back(*std::move(sum));
  return out;
}

}  // namespace

absl::StatusOr<Tensor> residual(const KernelContext& ctx, const Tensor& x, const Tensor& skip, const Tensor* bias) {
  if (skip.dtype() != x.dtype() || broadcast_shape(x.dims(), skip.dims()) != x.dims()) return ctx.invalid("skip does not fit the input");
  if (bias != nullptr && (bias->dtype() != x.dtype() || broadcast_shape(x.dims(), bias->dims()) != x.dims()))
    return ctx.invalid("bias does not fit the input");
  absl::StatusOr<Tensor> sum = ctx.allocate(x.dtype(), x.dims());
  if (!sum.ok()) return sum;
  Outputs done = dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    using C = Compute<T>;
    zip_into<T, T, T>(ctx, x, skip, x.dims(), write<T>(*sum),
                      [](T a, T b) { return static_cast<T>(static_cast<C>(a) + static_cast<C>(b)); });
    if (bias != nullptr) {
      const Tensor so_far = *sum;
      zip_into<T, T, T>(ctx, so_far, *bias, x.dims(), write<T>(*sum),
                        [](T a, T b) { return static_cast<T>(static_cast<C>(a) + static_cast<C>(b)); });
    }
    return std::vector<Value>();
  });
  if (!done.ok()) return done.status();
  return sum;
}

void register_norm(Registry& registry) {
  registry.add("", "LayerNormalization", layer_normalization);
  registry.add("", "RMSNormalization", rms_normalization);
  for (std::string_view domain : {std::string_view(), kMicrosoft}) registry.add(domain, "SimplifiedLayerNormalization", rms_normalization);
  registry.add(kMicrosoft, "SkipLayerNormalization", skip_layer_normalization<false>);
  registry.add(kMicrosoft, "SkipSimplifiedLayerNormalization", skip_layer_normalization<true>);
  register_norm_batch(registry);
  register_norm_contrib(registry);
  register_norm_other(registry);
}

}  // namespace saturate
