#include "kernels/core/codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace saturate {
namespace {

struct Format {
  int exponent_bits, mantissa_bits, bias;
  bool infinity;      // the top exponent with mantissa 0 is infinity, other mantissas NaN (IEEE)
  bool nan_all_ones;  // the code with all exponent and mantissa bits set is NaN
  bool nan_negative_zero;
};

// ONNX docs/docsgen "float8" and OCP 8-bit / MX specification, tables of formats.
constexpr Format format_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat8e4m3fn:
      return {4, 3, 7, false, true, false};
    case DType::kFloat8e4m3fnuz:
      return {4, 3, 8, false, false, true};
    case DType::kFloat8e5m2:
      return {5, 2, 15, true, false, false};
    case DType::kFloat8e5m2fnuz:
      return {5, 2, 16, false, false, true};
    case DType::kFloat6e2m3:
      return {2, 3, 1, false, false, false};
    case DType::kFloat6e3m2:
      return {3, 2, 3, false, false, false};
    default:
      return {2, 1, 1, false, false, false};  // float4e2m1
  }
}

constexpr int width_of(const Format& f) { return 1 + f.exponent_bits + f.mantissa_bits; }

float magnitude(const Format& f, int code) {
  const int mantissa = code & ((1 << f.mantissa_bits) - 1), exponent = code >> f.mantissa_bits;
  if (exponent == 0) return std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissa_bits);
  return std::ldexp(static_cast<float>(mantissa + (1 << f.mantissa_bits)), exponent - f.bias - f.mantissa_bits);
}

int largest_code(const Format& f) {
  const int all = (1 << (f.exponent_bits + f.mantissa_bits)) - 1;
  if (f.infinity) return (((1 << f.exponent_bits) - 1) << f.mantissa_bits) - 1;
  return f.nan_all_ones ? all - 1 : all;
}

// Code of the magnitude nearest to x >= 0 (ties to the even code); may be above the largest code.
int round_code(const Format& f, float x) {
  const int exponent = x == 0 ? std::numeric_limits<int>::min() / 2 : std::ilogb(x);
  const int e = std::max(exponent, 1 - f.bias);  // subnormals share the lowest exponent
  const double steps = std::nearbyint(std::ldexp(static_cast<double>(x), f.mantissa_bits - e));
  const std::int64_t code = static_cast<std::int64_t>(steps) + ((static_cast<std::int64_t>(e) + f.bias - 1) << f.mantissa_bits);
  return static_cast<int>(std::min<std::int64_t>(code, 1 << 20));
}

}  // namespace

bool is_tiny_float(DType dtype) {
  switch (dtype) {
    case DType::kFloat8e4m3fn:
    case DType::kFloat8e4m3fnuz:
    case DType::kFloat8e5m2:
    case DType::kFloat8e5m2fnuz:
    case DType::kFloat4e2m1:
    case DType::kFloat8e8m0:
    case DType::kFloat6e2m3:
    case DType::kFloat6e3m2:
      return true;
    default:
      return false;
  }
}

bool is_tiny_integer(DType dtype) {
  return dtype == DType::kInt4 || dtype == DType::kUint4 || dtype == DType::kInt2 || dtype == DType::kUint2;
}

float decode_tiny_float(DType dtype, std::uint8_t code) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (dtype == DType::kFloat8e8m0) return code == 255 ? kNan : std::ldexp(1.0f, code - 127);
  const Format f = format_of(dtype);
  const int sign_bit = 1 << (width_of(f) - 1);
  const int rest = code & (sign_bit - 1);
  const float sign = (code & sign_bit) != 0 ? -1.0f : 1.0f;
  if (f.nan_negative_zero && (code & sign_bit) != 0 && rest == 0) return kNan;
  if (f.nan_all_ones && rest == sign_bit - 1) return kNan;
  if (f.infinity && rest > largest_code(f)) return rest == largest_code(f) + 1 ? sign * std::numeric_limits<float>::infinity() : kNan;
  return sign * magnitude(f, rest);
}

std::uint8_t encode_tiny_float(DType dtype, float value, bool saturate) {
  if (dtype == DType::kFloat8e8m0) return encode_float8e8m0(value, saturate, Round8e8m0::kUp);
  const Format f = format_of(dtype);
  const int sign_bit = 1 << (width_of(f) - 1);
  const int sign = std::signbit(value) ? sign_bit : 0;
  const int all = sign_bit - 1, largest = largest_code(f);
  const bool has_nan = f.infinity || f.nan_all_ones || f.nan_negative_zero;
  if (std::isnan(value)) {
    if (f.nan_negative_zero) return static_cast<std::uint8_t>(sign_bit);
    if (f.infinity) return static_cast<std::uint8_t>(sign | (all - 1));  // quiet bit set
    return static_cast<std::uint8_t>(has_nan ? sign | all : sign_bit);   // formats without NaN: undefined, -0 here
  }
  const int code = std::isinf(value) ? all + 1 : round_code(f, std::fabs(value));
  if (code <= largest) return static_cast<std::uint8_t>(f.nan_negative_zero && code == 0 ? 0 : sign | code);
  if (saturate || !has_nan) return static_cast<std::uint8_t>(sign | largest);
  if (f.infinity) return static_cast<std::uint8_t>(sign | (largest + 1));
  return static_cast<std::uint8_t>(f.nan_negative_zero ? sign_bit : sign | all);
}

std::uint8_t encode_float8e8m0(float value, bool saturate, Round8e8m0 mode) {
  if (std::isnan(value)) return 255;
  const auto bits = std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
  if (bits == 0x7f800000u) return saturate ? 254 : 255;
  if (bits == 0) return saturate ? 0 : 255;
  int exponent = static_cast<int>(bits >> 23);
  const std::uint32_t mantissa = bits & 0x7fffffu;
  if (exponent == 0) {  // subnormal floats: only 2^-127 has a code
    const bool up = mode == Round8e8m0::kUp ? mantissa > 0x400000u : mode == Round8e8m0::kNearest && mantissa >= 0x600000u;
    if (!saturate && mantissa < 0x400000u) return 255;
    return up ? 1 : 0;
  }
  if (mode == Round8e8m0::kUp ? mantissa != 0 : mode == Round8e8m0::kNearest && mantissa >= 0x400000u) ++exponent;
  if (exponent > 254) return saturate ? 254 : 255;
  return static_cast<std::uint8_t>(exponent);
}

std::int8_t decode_tiny_integer(DType dtype, std::uint8_t code) {
  switch (dtype) {
    case DType::kInt4:
      return static_cast<std::int8_t>(((code & 15) ^ 8) - 8);
    case DType::kInt2:
      return static_cast<std::int8_t>(((code & 3) ^ 2) - 2);
    case DType::kUint2:
      return static_cast<std::int8_t>(code & 3);
    default:
      return static_cast<std::int8_t>(code & 15);
  }
}

std::int64_t integer_min(DType dtype) {
  switch (dtype) {
    case DType::kInt2:
      return -2;
    case DType::kInt4:
      return -8;
    case DType::kInt8:
      return std::numeric_limits<std::int8_t>::min();
    case DType::kInt16:
      return std::numeric_limits<std::int16_t>::min();
    case DType::kInt32:
      return std::numeric_limits<std::int32_t>::min();
    case DType::kInt64:
      return std::numeric_limits<std::int64_t>::min();
    default:
      return 0;
  }
}

std::int64_t integer_max(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return 1;
    case DType::kInt2:
      return 1;
    case DType::kUint2:
      return 3;
    case DType::kInt4:
      return 7;
    case DType::kUint4:
      return 15;
    case DType::kInt8:
      return std::numeric_limits<std::int8_t>::max();
    case DType::kUint8:
      return std::numeric_limits<std::uint8_t>::max();
    case DType::kInt16:
      return std::numeric_limits<std::int16_t>::max();
    case DType::kUint16:
      return std::numeric_limits<std::uint16_t>::max();
    case DType::kInt32:
      return std::numeric_limits<std::int32_t>::max();
    case DType::kUint32:
      return std::numeric_limits<std::uint32_t>::max();
    default:
      return std::numeric_limits<std::int64_t>::max();
  }
}

}  // namespace saturate
