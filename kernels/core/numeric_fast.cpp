// Arrays of 16-bit floats.
#include <cstring>

#include "kernels/core/numeric.h"

namespace saturate {
namespace {

// Element i of an array at any address.
template <typename T>
[[gnu::always_inline]] inline T element(const T* from, std::int64_t i) {
  T value;
  std::memcpy(&value, reinterpret_cast<const std::byte*>(from) + static_cast<std::size_t>(i) * sizeof value, sizeof value);
  return value;
}

template <typename To, typename From>
[[gnu::always_inline]] inline void convert(const From* from, std::int64_t n, To* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(element(from, i));
}

}  // namespace

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void to_floats(const Half* from, std::int64_t n, float* to) {
  convert(from, n, to);
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void to_floats(const BFloat16* from, std::int64_t n, float* to) {
  convert(from, n, to);
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void from_floats(const float* from, std::int64_t n, Half* to) {
  convert(from, n, to);
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void from_floats(const float* from, std::int64_t n, BFloat16* to) {
  convert(from, n, to);
}

}  // namespace saturate
