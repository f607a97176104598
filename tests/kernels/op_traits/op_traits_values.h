// Random tensors with the values that matter, and what counts as the same, for the test of operator traits.
#pragma once

#include <array>
#include <bit>
#include <climits>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "onnx_bridge/model/tensor.h"

namespace saturate::traits_test {

inline bool is_wide_float(DType t) { return t == DType::kFloat || t == DType::kDouble || t == DType::kFloat16 || t == DType::kBfloat16; }

// How far two ways to compute one thing may be apart, of numbers near 1.
inline double slack(DType t) {
  switch (t) {
    case DType::kDouble:
      return 1e-10;
    case DType::kFloat:
      return 2e-6;
    case DType::kFloat16:
      return 4e-3;
    case DType::kBfloat16:
      return 4e-2;
    default:
      return 0;
  }
}

using Tensors = std::vector<Tensor>;

class Random {
 public:
  explicit Random(std::uint32_t seed) : state_(seed * 2654435761u + 12345u) {}
  std::uint32_t below(std::uint32_t n) {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(state_ >> 4) * n) >> 28);
  }
  double between(double low, double high) { return low + (high - low) * (below(1u << 20) / 1048576.0); }

 private:
  std::uint32_t state_;
};

enum class Pick { kAny, kFinite, kSmall };  // with NaN, infinities and the largest; without; at most 4

inline double special_float(Random& random, DType dtype, Pick pick) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  static const std::vector<double> kSmall = {0.0,     -0.0,    1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 0.75, 3, -3, 1.0009765625 + 1e-9,
                                             0.50001, -1.00002};
  static const std::vector<double> kLarge = {100, -100, 1e4, -6e4, 20.25, -11.5, 1e-7, -1e-7, 3e-40, 65504, 3.4e38, -3.4e38, 1.7e308};
  static const std::vector<double> kWild = {kInf, -kInf, std::nan(""), kInf};
  const auto one_of_these = [&random](const std::vector<double>& v) { return v[random.below(static_cast<std::uint32_t>(v.size()))]; };
  const std::uint32_t kind = random.below(8);
  if (kind < 3) return one_of_these(kSmall);
  if (kind == 3 && pick != Pick::kSmall) {
    const double x = one_of_these(kLarge);
    return dtype == DType::kFloat16 && std::abs(x) > 65504 ? 65504 : x;
  }
  if (kind == 4 && pick == Pick::kAny) return one_of_these(kWild);
  return random.between(-4, 4);
}

inline std::int64_t special_int(Random& random) {
  static const std::array<std::int64_t, 12> kSome = {0, 1, -1, 2, 3, -7, 127, -128, 255, 65535, INT32_MIN, INT64_MIN};
  return random.below(2) == 0 ? kSome[random.below(12)] : static_cast<std::int64_t>(random.below(200)) - 100;
}

inline void store_wrapped(Tensor& t, std::int64_t i, std::int64_t value) {
  const std::size_t bits = t.dtype() == DType::kBool ? 1 : 8 * t.bytes().size() / static_cast<std::size_t>(t.size());
  store_bits(t, i, bits >= 64 ? static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value) & ((std::uint64_t{1} << bits) - 1));
}

inline bool can_fill(DType t) { return t != DType::kString && t != DType::kComplex64 && t != DType::kComplex128; }
inline bool is_plain(DType t) { return is_wide_float(t) || t == DType::kBool || is_integer(t); }

inline Tensor random_tensor(Random& random, DType dtype, const Shape& dims, Pick pick = Pick::kAny) {
  if (dtype == DType::kString) {
    static const std::array<std::string, 5> kWords = {"", "a", "ab", "b", "ba"};
    std::vector<std::string> words;
    for (std::int64_t n = *checked_elements(dims); n > 0; --n) words.push_back(kWords[random.below(5)]);
    return Tensor::strings(dims, words);
  }
  Tensor t(dtype, dims);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    if (is_wide_float(dtype))
      store_double(t, i, special_float(random, dtype, pick));
    else
      store_wrapped(t, i, dtype == DType::kBool ? random.below(2) : special_int(random));
  }
  return t;
}

// One element as text of which equal elements have the same: bits of integers, numbers of floats.
inline std::string label(const Tensor& t, std::int64_t i) {
  if (t.dtype() == DType::kString) return t.string_data()[static_cast<std::size_t>(i)];
  if (!is_wide_float(t.dtype())) return std::to_string(element_bits(t, i));
  const double x = *element_as_double(t, i);
  return std::isnan(x) ? "nan" : x == 0 ? "0" : std::to_string(std::bit_cast<std::uint64_t>(x));
}

inline bool near(const Tensor& a, std::int64_t i, const Tensor& b, std::int64_t j, double tolerance) {
  if (!is_wide_float(a.dtype())) return label(a, i) == label(b, j);
  const double x = *element_as_double(a, i), y = *element_as_double(b, j);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  if (x == y) return true;
  return std::isfinite(x) && std::isfinite(y) && std::abs(x - y) <= tolerance * std::max({1.0, std::abs(x), std::abs(y)});
}

inline bool near(const Tensor& a, const Tensor& b, double tolerance) {
  if (a.dims() != b.dims() || a.dtype() != b.dtype()) return false;
  for (std::int64_t i = 0; i < a.size(); ++i)
    if (!near(a, i, b, i, tolerance)) return false;
  return true;
}

// from[places[i]] as element i.
inline Tensor taken(const Tensor& from, const std::vector<std::int64_t>& places, const Shape& dims) {
  if (from.dtype() == DType::kString) {
    std::vector<std::string> words;
    for (const std::int64_t p : places) words.push_back(from.string_data()[static_cast<std::size_t>(p)]);
    return Tensor::strings(dims, words);
  }
  Tensor t(from.dtype(), dims);
  for (std::size_t i = 0; i < places.size(); ++i) store_bits(t, static_cast<std::int64_t>(i), element_bits(from, places[i]));
  return t;
}

}  // namespace saturate::traits_test
