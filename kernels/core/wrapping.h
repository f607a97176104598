// Arithmetic of one element as ONNX means it: integers wrap around, floats stay as they are.
#pragma once

#include <cstdint>
#include <type_traits>

namespace saturate {

// f(a, b) of integers that wrap around: computed unsigned, because overflow of signed integers is undefined in C++.
template <typename T, typename F>
T wrapping(T a, T b, F f) {
  using U = std::conditional_t<sizeof(T) < 4, std::uint32_t, std::make_unsigned_t<T>>;
  return static_cast<T>(f(static_cast<U>(a), static_cast<U>(b)));
}

template <typename T>
T added(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return wrapping(a, b, [](auto x, auto y) { return x + y; });
  else
    return a + b;
}

template <typename T>
T subtracted(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return wrapping(a, b, [](auto x, auto y) { return x - y; });
  else
    return a - b;
}

template <typename T>
T multiplied(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return wrapping(a, b, [](auto x, auto y) { return x * y; });
  else
    return a * b;
}

}  // namespace saturate
