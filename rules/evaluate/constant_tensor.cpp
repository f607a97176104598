#include "rules/terms/literals.h"
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

namespace saturate {
namespace {

// Round to nearest, ties to even (IEEE 754), from double straight to the 16-bit format: no double rounding.
std::uint16_t to_small_float(double value, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const std::uint16_t sign = static_cast<std::uint16_t>(std::signbit(value) ? 1u << (exponent_bits + mantissa_bits) : 0u);
  const std::uint16_t infinity = static_cast<std::uint16_t>(((1u << exponent_bits) - 1) << mantissa_bits);
  if (std::isnan(value)) return static_cast<std::uint16_t>(infinity | (1u << (mantissa_bits - 1)));
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | infinity;
  if (magnitude == 0) return sign;
  int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  // In units of the last place of this binade; nearbyint rounds ties to even in the default mode. A carry runs into the exponent by itself.
  const double units = std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));
  const auto integer = static_cast<std::uint32_t>(units);
  const std::uint32_t biased = integer + (static_cast<std::uint32_t>(exponent + bias - 1) << mantissa_bits);
  return biased >= infinity ? static_cast<std::uint16_t>(sign | infinity) : static_cast<std::uint16_t>(sign | biased);
}

template <typename T>
absl::Status store_integers(Tensor& t, std::span<const double> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double low = static_cast<double>(std::numeric_limits<T>::min());
    const double high = std::ldexp(1.0, std::numeric_limits<T>::digits);
    if (!(values[i] >= low && values[i] < high) || values[i] != std::nearbyint(values[i]))
      return absl::InvalidArgumentError(fmt::format("{} is not a valid {}", values[i], dtype_name(t.dtype())));
    t.mutable_as<T>()[i] = static_cast<T>(values[i]);
  }
  return absl::OkStatus();
}

// Several a byte.
absl::Status store_packed(Tensor& t, std::span<const double> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != std::nearbyint(values[i]) || !store_int(t, static_cast<std::int64_t>(i), static_cast<std::int64_t>(values[i])))
      return absl::InvalidArgumentError(fmt::format("{} is not a valid {}", values[i], dtype_name(t.dtype())));
  return absl::OkStatus();
}

// The nearest of the 256 numbers that a float of 8 bits can be; of two, that with an even code.
absl::Status store_tiny_floats(Tensor& t, std::span<const double> values) {
  Tensor all(t.dtype(), {256});
  for (int code = 0; code < 256; ++code) all.mutable_as<std::uint8_t>()[code] = static_cast<std::uint8_t>(code);
  for (std::size_t i = 0; i < values.size(); ++i) {
    int nearest = -1;
    double least = HUGE_VAL;
    for (int code = 0; code < 256; ++code) {
      const double number = element_as_double(all, code).value_or(NAN);
      if (std::isnan(values[i]) ? !std::isnan(number) : std::isnan(number)) continue;
      const double gap = std::isnan(values[i]) || number == values[i] ? 0 : std::fabs(number - values[i]);
      if (nearest >= 0 && (gap > least || (gap == least && (code % 2 != 0 || nearest % 2 == 0)))) continue;
      nearest = code;
      least = gap;
    }
    if (nearest < 0) return absl::InvalidArgumentError(fmt::format("{} is not a valid {}", values[i], dtype_name(t.dtype())));
    t.mutable_as<std::uint8_t>()[i] = static_cast<std::uint8_t>(nearest);
  }
  return absl::OkStatus();
}

absl::Status store(Tensor& t, std::span<const double> values) {
  switch (t.dtype()) {
    case DType::kFloat:
      for (std::size_t i = 0; i < values.size(); ++i) t.mutable_as<float>()[i] = static_cast<float>(values[i]);
      return absl::OkStatus();
    case DType::kDouble:
      for (std::size_t i = 0; i < values.size(); ++i) t.mutable_as<double>()[i] = values[i];
      return absl::OkStatus();
    case DType::kFloat16:
      for (std::size_t i = 0; i < values.size(); ++i) t.mutable_as<std::uint16_t>()[i] = to_small_float(values[i], 5, 10);
      return absl::OkStatus();
    case DType::kBfloat16:
      for (std::size_t i = 0; i < values.size(); ++i) t.mutable_as<std::uint16_t>()[i] = to_small_float(values[i], 8, 7);
      return absl::OkStatus();
    case DType::kBool:
      for (std::size_t i = 0; i < values.size(); ++i) t.mutable_as<std::uint8_t>()[i] = values[i] != 0;
      return absl::OkStatus();
    case DType::kInt8:
      return store_integers<std::int8_t>(t, values);
    case DType::kInt16:
      return store_integers<std::int16_t>(t, values);
    case DType::kInt32:
      return store_integers<std::int32_t>(t, values);
    case DType::kInt64:
      return store_integers<std::int64_t>(t, values);
    case DType::kUint8:
      return store_integers<std::uint8_t>(t, values);
    case DType::kUint16:
      return store_integers<std::uint16_t>(t, values);
    case DType::kUint32:
      return store_integers<std::uint32_t>(t, values);
    case DType::kUint64:
      return store_integers<std::uint64_t>(t, values);
    case DType::kInt2:
    case DType::kUint2:
    case DType::kInt4:
    case DType::kUint4:
      return store_packed(t, values);
    case DType::kFloat8e4m3fn:
    case DType::kFloat8e4m3fnuz:
    case DType::kFloat8e5m2:
    case DType::kFloat8e5m2fnuz:
      return store_tiny_floats(t, values);
    default:
      return absl::InvalidArgumentError(fmt::format("rules write no constants of type {}", dtype_name(t.dtype())));
  }
}

}  // namespace

absl::StatusOr<Tensor> tensor_of_reals(DType dtype, const Shape& dims, std::span<const double> values) {
  const auto elements = checked_elements(dims);
  if (!elements || static_cast<std::size_t>(*elements) != values.size())
    return absl::InvalidArgumentError(fmt::format("{} elements do not fill the dims of the tensor", values.size()));
  if (!checked_bytes(dtype, dims)) return absl::InvalidArgumentError("the tensor is too large");
  Tensor t(dtype, dims);
  if (auto status = store(t, values); !status.ok()) return status;
  return t;
}

}  // namespace saturate
