// Add, Sub, Mul, Div, Pow, Mod, bitwise operators and shifts (ONNX spec, operators of the same names).
#include <cmath>

#include "kernels/core/wrapping.h"
#include "kernels/elementwise/elementwise.h"

namespace saturate {
namespace {

struct AddOp {
  template <typename T>
  static T apply(T a, T b) {
    return added(a, b);
  }
};
struct SubOp {
  template <typename T>
  static T apply(T a, T b) {
    return subtracted(a, b);
  }
};
struct MulOp {
  template <typename T>
  static T apply(T a, T b) {
    return multiplied(a, b);
  }
};
// Integers truncate towards zero (spec, Div-14); division by zero, undefined there, gives 0.
struct DivOp {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == static_cast<T>(-1)) return SubOp::apply(static_cast<T>(0), a);
      }
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }
};
// Mod with fmod=0 takes the divisor's sign as Python's %, with fmod=1 the dividend's as C's fmod.
struct FloorModOp {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == static_cast<T>(-1)) return 0;
      }
      const T r = static_cast<T>(a % b);
      return r != 0 && ((r < 0) != (b < 0)) ? static_cast<T>(r + b) : r;
    } else {
      const T r = std::fmod(a, b);
      return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
    }
  }
};
struct TruncModOp {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == static_cast<T>(-1)) return 0;
      }
      return static_cast<T>(a % b);
    } else {
      return std::fmod(a, b);
    }
  }
};
struct BitAndOp {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct BitOrOp {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct BitXorOp {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
// A shift outside [0, width) leaves nothing but the sign: 0, or -1 for a negative number shifted right (BitShift-28).
template <typename T>
bool shift_in_range(T b) {
  return b >= 0 && static_cast<std::uint64_t>(b) < 8 * sizeof(T);
}
struct ShiftLeftOp {
  template <typename T>
  static T apply(T a, T b) {
    return shift_in_range(b) ? static_cast<T>(static_cast<std::uint64_t>(a) << b) : T(0);
  }
};
struct ShiftRightOp {
  template <typename T>
  static T apply(T a, T b) {
    if (shift_in_range(b)) return static_cast<T>(a >> b);
    return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T(0);
  }
};

// Operators whose bits are the same for signed and unsigned integers: one loop serves both.
template <typename Op>
inline constexpr bool kIgnoresSign = std::is_same_v<Op, AddOp> || std::is_same_v<Op, SubOp> || std::is_same_v<Op, MulOp> ||
                                     std::is_same_v<Op, BitAndOp> || std::is_same_v<Op, BitOrOp> || std::is_same_v<Op, BitXorOp>;

template <typename Op, typename List>
Outputs binary(KernelContext& ctx) {
  std::optional<Tensor> store;
  const absl::StatusOr<BinaryInputs> in = binary_inputs(ctx, store);
  if (!in.ok()) return in.status();
  const DType dtype = in->first.dtype();
  const auto loop = zip_loop_of<Op, List, !kIgnoresSign<Op>>(dtype);
  return loop ? zip_tensors(ctx, in->first, in->second, dtype, *loop) : ctx.unsupported_dtype(dtype);
}

Outputs mod(KernelContext& ctx) {
  return ctx.attr_i("fmod", 0) != 0 ? binary<TruncModOp, NumericTypes>(ctx) : binary<FloorModOp, NumericTypes>(ctx);
}

Outputs bit_shift(KernelContext& ctx) {
  const std::string direction = ctx.attr_s("direction", "");
  if (direction == "LEFT") return binary<ShiftLeftOp, IntTypes>(ctx);
  if (direction == "RIGHT") return binary<ShiftRightOp, IntTypes>(ctx);
  return ctx.invalid("direction must be LEFT or RIGHT");
}

// Integer base and exponent: exact, wrapping, by squaring; a negative exponent gives 0 unless |base| is 1.
template <typename T>
T integer_power(T base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if constexpr (std::is_signed_v<T>) {
      if (base == static_cast<T>(-1)) return exponent % 2 == 0 ? 1 : static_cast<T>(-1);
    }
    return 0;
  }
  T result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = MulOp::apply<T>(result, base);
    base = MulOp::apply<T>(base, base);
  }
  return result;
}

template <typename T, typename E>
T power(T base, E exponent) {
  if constexpr (std::is_integral_v<T> && std::is_integral_v<E>) {
    return integer_power<T>(base, static_cast<std::int64_t>(exponent));
  } else if constexpr (std::is_integral_v<T>) {
    const double r = std::pow(static_cast<double>(base), static_cast<double>(exponent));
    return std::isfinite(r) && std::fabs(r) < 9.2e18 ? static_cast<T>(static_cast<std::int64_t>(r)) : T(0);
  } else if constexpr (std::is_same_v<T, float> && std::is_same_v<E, float>) {
    if (exponent == 2.0f) return base * base;
    return std::pow(base, exponent);
  } else {
    return static_cast<T>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
}

template <typename E>
absl::StatusOr<Tensor> widened(const KernelContext& ctx, const Tensor& t) {
  Outputs out = dispatch(NumericTypes{}, ctx, t.dtype(), [&]<typename F>(std::type_identity<F>) -> Outputs {
    return map_elements<F, E>(ctx, t, [](F x) { return static_cast<E>(x); });
  });
  if (!out.ok()) return out.status();
  return (*out)[0].tensor();
}

// Pow-12 and above: the exponent has its own type, the result the base's.
Outputs pow_op(KernelContext& ctx) {
  if (!ctx.is_tensor(0) || !ctx.is_tensor(1)) return ctx.invalid("needs two tensors");
  absl::StatusOr<Tensor> exponent = align_legacy(ctx, ctx.tensor(0), ctx.tensor(1));
  if (!exponent.ok()) return exponent.status();
  using Bases = Join<FloatTypes, Types<std::int32_t, std::int64_t>>;
  return dispatch(Bases{}, ctx, ctx.tensor(0).dtype(), [&]<typename T>(std::type_identity<T>) -> Outputs {
    const auto raise = [&]<typename E>(std::type_identity<E>) -> Outputs {
      absl::StatusOr<Tensor> e = exponent->dtype() == dtype_of<E>() ? exponent : widened<E>(ctx, *exponent);
      if (!e.ok()) return e.status();
      return zip_elements<T, E, T>(ctx, ctx.tensor(0), *e, [](T x, E y) { return power<T, E>(x, y); });
    };
    if (exponent->dtype() == DType::kFloat && std::is_same_v<T, float>) return raise(std::type_identity<float>());
    return is_floating(exponent->dtype()) ? raise(std::type_identity<double>()) : raise(std::type_identity<std::int64_t>());
  });
}

}  // namespace

void register_elementwise_arithmetic(Registry& registry) {
  registry.add("", "Add", binary<AddOp, NumericTypes>);
  registry.add("", "Sub", binary<SubOp, NumericTypes>);
  registry.add("", "Mul", binary<MulOp, NumericTypes>);
  registry.add("", "Div", binary<DivOp, NumericTypes>);
  registry.add("", "Pow", pow_op);
  registry.add("", "Mod", mod);
  registry.add("", "BitwiseAnd", binary<BitAndOp, IntTypes>);
  registry.add("", "BitwiseOr", binary<BitOrOp, IntTypes>);
  registry.add("", "BitwiseXor", binary<BitXorOp, IntTypes>);
  registry.add("", "BitShift", bit_shift);
}

}  // namespace saturate
