// Unary mathematics (ONNX spec, operators of the same names). Reference runs compute in double and round once.
#include <cmath>

#include "kernels/core/codec.h"
#include "kernels/elementwise/activation.h"

namespace saturate {
namespace {

struct AbsOp {
  template <typename T>
  static T apply(T x) {
    if constexpr (std::is_unsigned_v<T>)
      return x;
    else if constexpr (std::is_integral_v<T>)
      return x < 0 ? static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x)) : x;
    else
      return std::fabs(x);
  }
};
struct NegOp {
  template <typename T>
  static T apply(T x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x));
    else
      return -x;
  }
};
struct SignOp {
  template <typename T>
  static T apply(T x) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(x)) return x;
    }
    return static_cast<T>((x > 0) - (x < 0));
  }
};
struct CeilOp {
  template <typename T>
  static T apply(T x) {
    return std::ceil(x);
  }
};
struct FloorOp {
  template <typename T>
  static T apply(T x) {
    return std::floor(x);
  }
};
struct RoundOp {
  template <typename T>
  static T apply(T x) {
    return std::nearbyint(x);
  }
};  // half to even
struct SqrtOp {
  template <typename T>
  static T apply(T x) {
    return std::sqrt(x);
  }
};
struct ReciprocalOp {
  template <typename T>
  static T apply(T x) {
    return T(1) / x;
  }
};
struct LogOp {
  template <typename T>
  static T apply(T x) {
    return std::log(x);
  }
};
struct SinOp {
  template <typename T>
  static T apply(T x) {
    return std::sin(x);
  }
};
struct CosOp {
  template <typename T>
  static T apply(T x) {
    return std::cos(x);
  }
};
struct TanOp {
  template <typename T>
  static T apply(T x) {
    return std::tan(x);
  }
};
struct AsinOp {
  template <typename T>
  static T apply(T x) {
    return std::asin(x);
  }
};
struct AcosOp {
  template <typename T>
  static T apply(T x) {
    return std::acos(x);
  }
};
struct AtanOp {
  template <typename T>
  static T apply(T x) {
    return std::atan(x);
  }
};
struct SinhOp {
  template <typename T>
  static T apply(T x) {
    return std::sinh(x);
  }
};
struct CoshOp {
  template <typename T>
  static T apply(T x) {
    return std::cosh(x);
  }
};
struct AsinhOp {
  template <typename T>
  static T apply(T x) {
    return std::asinh(x);
  }
};
struct AcoshOp {
  template <typename T>
  static T apply(T x) {
    return std::acosh(x);
  }
};
struct AtanhOp {
  template <typename T>
  static T apply(T x) {
    return std::atanh(x);
  }
};
struct ErfOp {
  template <typename T>
  static T apply(T x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(std::erf(static_cast<double>(x)));
    else
      return std::erf(x);
  }
};
struct BitNotOp {
  template <typename T>
  static T apply(T x) {
    return static_cast<T>(~x);
  }
};

template <typename Op, typename List>
Outputs unary(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const auto loop = of_type(List{}, x.dtype(), [&]<typename T>(std::type_identity<T>) -> MapLoop {
    if constexpr (is_float_v<T>) {
      const auto in_double = [](T v) { return static_cast<T>(Op::template apply<double>(static_cast<double>(v))); };
      if (ctx.options.reference) return map_loop<T, T, decltype(in_double)>;
    }
    using C = Compute<T>;
    const auto each = [](T v) { return static_cast<T>(Op::template apply<C>(static_cast<C>(v))); };
    return map_loop<T, T, decltype(each)>;
  });
  return loop ? map_tensor(ctx, x, x.dtype(), *loop) : ctx.unsupported_dtype(x.dtype());
}

Outputs erf(KernelContext& ctx) {
  if (ctx.tensor(0).dtype() != DType::kFloat) return unary<ErfOp, NumericTypes>(ctx);
  return map_activation(ctx, ctx.tensor(0), erf_floats, [](auto x) { return std::erf(x); });
}

// f over the elements of a float tensor of any width.
template <typename F>
Outputs test_floats(KernelContext& ctx, F f) {
  const Tensor& x = ctx.tensor(0);
  if (is_tiny_float(x.dtype())) {
    absl::StatusOr<Tensor> y = ctx.allocate(DType::kBool, x.dims());
    if (!y.ok()) return y.status();
    for (std::int64_t i = 0; i < x.size(); ++i) write<bool>(*y)[i] = f(element_as_double(x, i).value_or(0));
    return outputs_of(*std::move(y));
  }
  return dispatch(FloatTypes{}, ctx, x.dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    return map_elements<T, bool>(ctx, x, [=](T v) { return f(static_cast<Compute<T>>(v)); });
  });
}

Outputs is_nan(KernelContext& ctx) {
  return test_floats(ctx, [](auto x) { return std::isnan(x); });
}

Outputs is_inf(KernelContext& ctx) {
  const bool positive = ctx.attr_i("detect_positive", 1) != 0, negative = ctx.attr_i("detect_negative", 1) != 0;
  return test_floats(ctx, [=](auto x) { return std::isinf(x) && (x > 0 ? positive : negative); });
}

}  // namespace

void register_elementwise_unary(Registry& registry) {
  registry.add("", "Abs", unary<AbsOp, NumericTypes>);
  registry.add("", "Neg", unary<NegOp, Join<FloatTypes, SignedTypes>>);
  registry.add("", "Sign", unary<SignOp, NumericTypes>);
  registry.add("", "Ceil", unary<CeilOp, FloatTypes>);
  registry.add("", "Floor", unary<FloorOp, FloatTypes>);
  registry.add("", "Round", unary<RoundOp, FloatTypes>);
  registry.add("", "Sqrt", unary<SqrtOp, FloatTypes>);
  registry.add("", "Reciprocal", unary<ReciprocalOp, FloatTypes>);
  registry.add("", "Log", unary<LogOp, FloatTypes>);
  registry.add("", "Sin", unary<SinOp, FloatTypes>);
  registry.add("", "Cos", unary<CosOp, FloatTypes>);
  registry.add("", "Tan", unary<TanOp, FloatTypes>);
  registry.add("", "Asin", unary<AsinOp, FloatTypes>);
  registry.add("", "Acos", unary<AcosOp, FloatTypes>);
  registry.add("", "Atan", unary<AtanOp, FloatTypes>);
  registry.add("", "Sinh", unary<SinhOp, FloatTypes>);
  registry.add("", "Cosh", unary<CoshOp, FloatTypes>);
  registry.add("", "Asinh", unary<AsinhOp, FloatTypes>);
  registry.add("", "Acosh", unary<AcoshOp, FloatTypes>);
  registry.add("", "Atanh", unary<AtanhOp, FloatTypes>);
  registry.add("", "Erf", erf);
  registry.add("", "BitwiseNot", unary<BitNotOp, IntTypes>);
  registry.add("", "IsNaN", is_nan);
  registry.add("", "IsInf", is_inf);
}

}  // namespace saturate
