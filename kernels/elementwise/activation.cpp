// Activation operators (ONNX spec, operators of the same names).
#include "kernels/elementwise/activation.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "kernels/core/wrapping.h"

namespace saturate {
namespace {

// Tanh and Exp are here for their fast path; Exp of elementwise_unary is the general one.
Outputs tanh_op(KernelContext& ctx) {
  return map_activation(ctx, ctx.tensor(0), tanh_floats, [](auto x) { return std::tanh(x); });
}
Outputs exp_op(KernelContext& ctx) {
  return map_activation(ctx, ctx.tensor(0), exp_floats, [](auto x) { return std::exp(x); });
}
Outputs sigmoid_op(KernelContext& ctx) {
  return map_activation(ctx, ctx.tensor(0), sigmoid_floats, [](auto x) { return sigmoid(x); });
}

Outputs gelu_op(KernelContext& ctx) {
  const std::string approximate = ctx.attr_s("approximate", "none");
  if (approximate == "tanh") return map_activation(ctx, ctx.tensor(0), gelu_tanh_floats, [](auto x) { return gelu_tanh(x); });
  if (approximate != "none") return ctx.invalid("approximate must be 'none' or 'tanh'");
  return map_activation(ctx, ctx.tensor(0), gelu_floats, [](auto x) { return gelu(x); });
}

Outputs relu(KernelContext& ctx) {
  return dispatch(NumericTypes{}, ctx, ctx.tensor(0).dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    return map_elements<T, T>(ctx, ctx.tensor(0), [](T x) { return static_cast<Compute<T>>(x) < 0 ? T(0) : x; });
  });
}

Outputs leaky_relu(KernelContext& ctx) {
  const float alpha = ctx.attr_f("alpha", 0.01f);
  return map_floats(ctx, ctx.tensor(0), [alpha](auto x) { return x < 0 ? static_cast<decltype(x)>(alpha) * x : x; });
}

Outputs elu(KernelContext& ctx) {
  const float alpha = ctx.attr_f("alpha", 1.0f);
  return map_floats(ctx, ctx.tensor(0), [alpha](auto x) { return x < 0 ? static_cast<decltype(x)>(alpha) * std::expm1(x) : x; });
}

Outputs selu(KernelContext& ctx) {
  const bool old = ctx.opset < 6;
  const float alpha = ctx.attr_f("alpha", old ? 1.6732f : 1.67326319217681884765625f),
              gamma = ctx.attr_f("gamma", old ? 1.0507f : 1.05070102214813232421875f);
  return map_floats(ctx, ctx.tensor(0), [=](auto x) {
    using C = decltype(x);
    return static_cast<C>(gamma) * (x > 0 ? x : static_cast<C>(alpha) * std::expm1(x));
  });
}

Outputs celu(KernelContext& ctx) {
  const float alpha = ctx.attr_f("alpha", 1.0f);
  return map_floats(ctx, ctx.tensor(0), [alpha](auto x) {
    const auto a = static_cast<decltype(x)>(alpha);
    return x > 0 ? x : a * std::expm1(x / a);
  });
}

Outputs hard_sigmoid(KernelContext& ctx) {
  const float alpha = ctx.attr_f("alpha", 0.2f), beta = ctx.attr_f("beta", 0.5f);
  return map_floats(ctx, ctx.tensor(0), [=](auto x) {
    using C = decltype(x);
    return std::clamp(static_cast<C>(alpha) * x + static_cast<C>(beta), C(0), C(1));
  });
}

Outputs hard_swish(KernelContext& ctx) {
  return map_floats(ctx, ctx.tensor(0), [](auto x) {
    using C = decltype(x);
    return x * std::clamp(x / C(6) + C(0.5), C(0), C(1));
  });
}

Outputs mish(KernelContext& ctx) {
  return map_floats(ctx, ctx.tensor(0), [](auto x) { return x * std::tanh(softplus(x)); });
}
Outputs softplus_op(KernelContext& ctx) {
  return map_floats(ctx, ctx.tensor(0), [](auto x) { return softplus(x); });
}
Outputs softsign(KernelContext& ctx) {
  return map_floats(ctx, ctx.tensor(0), [](auto x) { return x / (1 + std::fabs(x)); });
}

Outputs thresholded_relu(KernelContext& ctx) {
  const float alpha = ctx.attr_f("alpha", 1.0f);
  return map_floats(ctx, ctx.tensor(0), [alpha](auto x) { return x > static_cast<decltype(x)>(alpha) ? x : decltype(x)(0); });
}

absl::StatusOr<Tensor> swish_of(const KernelContext& ctx, const Tensor& x, float alpha) {
  if (x.dtype() == DType::kFloat && !ctx.options.reference) {
    absl::StatusOr<Tensor> y = ctx.allocate_over({&x}, DType::kFloat, x.dims());
    if (!y.ok()) return y.status();
    float* out = write<float>(*y);
    parallel_for(ctx, x.size(), kElementGrain / 4,
                 [&](std::int64_t b, std::int64_t e) { swish_floats(x.data<float>() + b, out + b, e - b, alpha); });
    return y;
  }
  Outputs y = map_floats(ctx, x, [alpha](auto v) { return v * sigmoid(static_cast<decltype(v)>(alpha) * v); });
  if (!y.ok()) return y.status();
  return (*y)[0].tensor();
}

Outputs swish(KernelContext& ctx) {
  absl::StatusOr<Tensor> y = swish_of(ctx, ctx.tensor(0), ctx.attr_f("alpha", 1.0f));
  if (!y.ok()) return y.status();
  return outputs_of(*std::move(y));
}

// com.microsoft QuickGelu: x * sigmoid(alpha * x), alpha 1.702.
Outputs quick_gelu(KernelContext& ctx) {
  absl::StatusOr<Tensor> y = swish_of(ctx, ctx.tensor(0), ctx.attr_f("alpha", 1.702f));
  if (!y.ok()) return y.status();
  return outputs_of(*std::move(y));
}

// SwiGLU-28: Swish of the gate times the linear input; both of one shape.
Outputs swiglu(KernelContext& ctx) {
  if (ctx.tensor(0).dims() != ctx.tensor(1).dims() || ctx.tensor(0).dtype() != ctx.tensor(1).dtype())
    return ctx.invalid("A and B differ in shape or type");
  absl::StatusOr<Tensor> gate = swish_of(ctx, ctx.tensor(0), ctx.attr_f("alpha", 1.0f));
  if (!gate.ok()) return gate.status();
  return dispatch(FloatTypes{}, ctx, gate->dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    return zip_elements<T, T, T>(ctx, *gate, ctx.tensor(1),
                                 [](T a, T b) { return static_cast<T>(static_cast<Compute<T>>(a) * static_cast<Compute<T>>(b)); });
  });
}

Outputs shrink(KernelContext& ctx) {
  const double bias = ctx.attr_f("bias", 0.0f), lambd = ctx.attr_f("lambd", 0.5f);
  return dispatch(NumericTypes{}, ctx, ctx.tensor(0).dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    return map_elements<T, T>(ctx, ctx.tensor(0), [=](T v) {
      const auto x = static_cast<double>(v);
      return x < -lambd ? static_cast<T>(x + bias) : x > lambd ? static_cast<T>(x - bias) : T(0);
    });
  });
}

// The slope broadcasts to X one way; below opset 7 a slope of shape (C) belongs to axis 1.
Outputs prelu(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  Tensor slope = ctx.tensor(1);
  if (x.dtype() != slope.dtype()) return ctx.invalid("the inputs differ in element type");
  if (ctx.opset < 7 && slope.rank() == 1 && x.rank() > 1 && slope.dims()[0] == x.dims()[1]) {
    Shape dims(static_cast<std::size_t>(x.rank() - 1), 1);
    dims[0] = slope.dims()[0];
    slope = slope.reshaped(dims);
  }
  if (broadcast_shape(x.dims(), slope.dims()) != x.dims()) return ctx.invalid("the slope does not broadcast to the input");
  return dispatch(NumericTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    using C = Compute<T>;
    return zip_elements<T, T, T>(ctx, x, slope, [](T v, T s) {
      return static_cast<C>(v) < 0 ? static_cast<T>(multiplied(static_cast<C>(v), static_cast<C>(s))) : v;
    });
  });
}

// Clip: bounds are attributes below opset 11, scalar inputs from then on. min > max gives max everywhere (Clip-13).
Outputs clip(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  return dispatch(NumericTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    using C = Compute<T>;
    std::array<std::optional<C>, 2> bound;
    for (std::size_t k = 0; k < 2; ++k) {
      if (ctx.opset < 11) {
        const char* name = k == 0 ? "min" : "max";
        if (ctx.has_attr(name)) bound[k] = static_cast<C>(ctx.attr_f(name, 0));
      } else if (ctx.has_input(k + 1)) {
        const Tensor& t = ctx.tensor(k + 1);
        if (t.size() != 1 || t.dtype() != x.dtype()) return ctx.invalid("min and max must be scalars of the input's type");
        bound[k] = static_cast<C>(t.data<T>()[0]);
      }
    }
    const bool has_low = bound[0].has_value(), has_high = bound[1].has_value();
    const C low = bound[0].value_or(C(0)), high = bound[1].value_or(C(0));
    return map_elements<T, T>(ctx, x, [=](T v) {
      C c = static_cast<C>(v);
      if (has_low && c < low) c = low;
      if (has_high && c > high) c = high;
      return static_cast<T>(c);
    });
  });
}

std::string lower(std::string_view name) {
  std::string out(name);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// f on elements of any floating type, as C, a few at a time.
template <typename C>
void map_as(DType dtype, LoopOver<C> f, const void* x, void* y, std::int64_t n) {
  if (dtype == dtype_of<C>()) return f(static_cast<const C*>(x), static_cast<C*>(y), n);
  const MapLoop widen = cast_loop(dtype, dtype_of<C>()), narrow = cast_loop(dtype_of<C>(), dtype);
  const std::int64_t size = bit_width(dtype) / 8;
  std::array<C, 256> part;
  for (std::int64_t begin = 0; begin < n; begin += std::ssize(part)) {
    const std::int64_t count = std::min<std::int64_t>(std::ssize(part), n - begin);
    widen(static_cast<const std::byte*>(x) + begin * size, part.data(), count);
    f(part.data(), part.data(), count);
    narrow(part.data(), static_cast<std::byte*>(y) + begin * size, count);
  }
}

}  // namespace

Outputs map_floats(const KernelContext& ctx, const Tensor& x, LoopOver<float> floats, LoopOver<double> doubles) {
  const DType dtype = x.dtype();
  if (!names(FloatTypes{}, dtype)) return ctx.unsupported_dtype(dtype);
  const bool wide = dtype == DType::kDouble || ctx.options.reference;
  return map_tensor(ctx, x, dtype, [&](const void* in, void* out, std::int64_t n) {
    if (wide)
      map_as(dtype, doubles, in, out, n);
    else
      map_as(dtype, floats, in, out, n);
  });
}

std::optional<std::function<double(double)>> activation_function(std::string_view name, std::optional<float> alpha,
                                                                 std::optional<float> beta) {
  const std::string key = lower(name);
  const auto a = [&](double fallback) { return alpha ? static_cast<double>(*alpha) : fallback; };
  const auto b = [&](double fallback) { return beta ? static_cast<double>(*beta) : fallback; };
  using F = std::function<double(double)>;
  if (key == "relu") return F([](double x) { return x < 0 ? 0 : x; });
  if (key == "tanh") return F([](double x) { return std::tanh(x); });
  if (key == "sigmoid") return F([](double x) { return sigmoid(x); });
  if (key == "affine") return F([al = a(1.0), be = b(0.0)](double x) { return al * x + be; });
  if (key == "leakyrelu") return F([al = a(0.01)](double x) { return x < 0 ? al * x : x; });
  if (key == "thresholdedrelu") return F([al = a(1.0)](double x) { return x > al ? x : 0; });
  if (key == "scaledtanh") return F([al = a(1.0), be = b(1.0)](double x) { return al * std::tanh(be * x); });
  if (key == "hardsigmoid") return F([al = a(0.2), be = b(0.5)](double x) { return std::clamp(al * x + be, 0.0, 1.0); });
  if (key == "elu") return F([al = a(1.0)](double x) { return x < 0 ? al * std::expm1(x) : x; });
  if (key == "softsign") return F([](double x) { return x / (1 + std::fabs(x)); });
  if (key == "softplus") return F([](double x) { return softplus(x); });
  if (key == "gelu") return F([](double x) { return gelu(x); });
  if (key == "hardswish") return F([](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); });
  if (key == "silu" || key == "swish") return F([](double x) { return x * sigmoid(x); });
  return std::nullopt;
}

void register_activation(Registry& registry) {
  registry.add("", "Tanh", tanh_op);
  registry.add("", "Exp", exp_op);
  registry.add("", "Sigmoid", sigmoid_op);
  for (std::string_view domain : {std::string_view(), kMicrosoft}) registry.add(domain, "Gelu", gelu_op);
  registry.add(kMicrosoft, "QuickGelu", quick_gelu);
  registry.add("", "Relu", relu);
  registry.add("", "LeakyRelu", leaky_relu);
  registry.add("", "Elu", elu);
  registry.add("", "Selu", selu);
  registry.add("", "Celu", celu);
  registry.add("", "HardSigmoid", hard_sigmoid);
  registry.add("", "HardSwish", hard_swish);
  registry.add("", "Mish", mish);
  registry.add("", "Softplus", softplus_op);
  registry.add("", "Softsign", softsign);
  registry.add("", "ThresholdedRelu", thresholded_relu);
  registry.add("", "Swish", swish);
  registry.add("", "SwiGLU", swiglu);
  registry.add("", "Shrink", shrink);
  registry.add("", "PRelu", prelu);
  registry.add("", "Clip", clip);
}

}  // namespace saturate
