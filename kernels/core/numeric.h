// 16-bit floats as value types, and the map between C++ types and element types. Arithmetic on Half and BFloat16 happens in
// float (implicit conversion); storing rounds to nearest, ties to even.
#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "onnx_bridge/model/tensor.h"

namespace saturate {

// A double as the float that keeps later rounding to a narrower format correct (round to odd).
float narrow_round_to_odd(double value);

// Both without branches, so that loops over them are made of vectors.
inline std::uint16_t float_to_half_bits(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  // Below 2^-14: adding 0.5 aligns the subnormal's last bit with the float's last bit.
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  const std::uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  const std::uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
  const std::uint32_t number = magnitude >= 0x477ff000u ? 0x7c00u : finite;  // 65520 and above round to infinity
  const std::uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  return static_cast<std::uint16_t>(sign | (magnitude > 0x7f800000u ? nan : number));
}
inline float half_bits_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16, rest = (bits & 0x7fffu) << 13;
  const std::uint32_t normal = rest + (rest < 0x0f800000u ? 0x38000000u : 0x70000000u);  // infinity and NaN have the highest exponent
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest + 0x38800000u) - 0x1p-14f);
  return std::bit_cast<float>(sign | (rest < 0x00800000u ? subnormal : normal));
}

inline std::uint16_t float_to_bfloat16_bits(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((u >> 16) | 0x40u);
  return static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

struct Half {  // IEEE binary16
  std::uint16_t bits = 0;
  Half() = default;
  explicit Half(float value) : bits(float_to_half_bits(value)) {}
  template <typename T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, float>) explicit Half(T value)
      : bits(float_to_half_bits(narrow_round_to_odd(static_cast<double>(value)))) {}
  operator float() const { return half_bits_to_float(bits); }
  static Half from_bits(std::uint16_t b) {
    Half h;
    h.bits = b;
    return h;
  }
};

struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) : bits(float_to_bfloat16_bits(value)) {}
  template <typename T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, float>) explicit BFloat16(T value)
      : bits(float_to_bfloat16_bits(narrow_round_to_odd(static_cast<double>(value)))) {}
  operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  static BFloat16 from_bits(std::uint16_t b) {
    BFloat16 h;
    h.bits = b;
    return h;
  }
};

// Of arrays; `from` may begin at any address.
void to_floats(const Half* from, std::int64_t n, float* to);
void to_floats(const BFloat16* from, std::int64_t n, float* to);
void from_floats(const float* from, std::int64_t n, Half* to);
void from_floats(const float* from, std::int64_t n, BFloat16* to);

template <typename T>
inline constexpr bool is_small_float_v = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <typename T>
inline constexpr bool is_float_v = std::is_floating_point_v<T> || is_small_float_v<T>;

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>)
    return DType::kFloat;
  else if constexpr (std::is_same_v<T, double>)
    return DType::kDouble;
  else if constexpr (std::is_same_v<T, Half>)
    return DType::kFloat16;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return DType::kBfloat16;
  else if constexpr (std::is_same_v<T, bool>)
    return DType::kBool;
  else if constexpr (std::is_same_v<T, std::int8_t>)
    return DType::kInt8;
  else if constexpr (std::is_same_v<T, std::int16_t>)
    return DType::kInt16;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::kInt32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::kInt64;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return DType::kUint8;
  else if constexpr (std::is_same_v<T, std::uint16_t>)
    return DType::kUint16;
  else if constexpr (std::is_same_v<T, std::uint32_t>)
    return DType::kUint32;
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return DType::kUint64;
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    return DType::kComplex64;
  else if constexpr (std::is_same_v<T, std::complex<double>>)
    return DType::kComplex128;
  else
    return DType::kUndefined;
}

// What sums of T are kept in: double for floats, the widest integer of the same signedness for integers.
template <typename T>
using Accumulator = std::conditional_t<is_float_v<T>, double, std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;
// What a single operation on T is computed in: float for the 16-bit floats, T itself otherwise.
template <typename T>
using Compute = std::conditional_t<is_small_float_v<T>, float, T>;

template <typename... Ts>
struct Types {};
template <typename A, typename B>
struct JoinTypes;
template <typename... A, typename... B>
struct JoinTypes<Types<A...>, Types<B...>> {
  using type = Types<A..., B...>;
};
template <typename A, typename B>
using Join = typename JoinTypes<A, B>::type;
using FloatTypes = Types<float, double, Half, BFloat16>;
using SignedTypes = Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t>;
using UnsignedTypes = Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
using IntTypes = Join<SignedTypes, UnsignedTypes>;
template <typename... Ts>
constexpr bool names(Types<Ts...>, DType dtype) {
  return ((dtype == dtype_of<Ts>()) || ...);
}
using NumericTypes = Join<FloatTypes, IntTypes>;
using NumericAndBoolTypes = Join<NumericTypes, Types<bool>>;

}  // namespace saturate
