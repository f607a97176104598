#include "kernels/signal/fft.h"

#include <bit>
#include <cstdint>
#include <numbers>
#include <utility>

namespace saturate {
namespace {

Complex turn(double fraction) { return std::polar(1.0, 2 * std::numbers::pi * fraction); }

// Length a power of two.
void radix2(std::vector<Complex>& x, bool inverse) {
  const std::size_t n = x.size();
  for (std::size_t i = 1, j = 0; i < n; ++i) {
    std::size_t bit = n >> 1;
    for (; (j & bit) != 0; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(x[i], x[j]);
  }
  for (std::size_t length = 2; length <= n; length *= 2) {
    std::vector<Complex> twiddle(length / 2);
    for (std::size_t k = 0; k < twiddle.size(); ++k)
      twiddle[k] = turn((inverse ? 1.0 : -1.0) * static_cast<double>(k) / static_cast<double>(length));
    for (std::size_t start = 0; start < n; start += length) {
      for (std::size_t k = 0; k < length / 2; ++k) {
        const Complex a = x[start + k], b = x[start + k + length / 2] * twiddle[k];
        x[start + k] = a + b;
        x[start + k + length / 2] = a - b;
      }
    }
  }
}

}  // namespace

void fourier(std::vector<Complex>& x, bool inverse) {
  const std::size_t n = x.size();
  if (n <= 1) return;
  if (std::has_single_bit(n)) return radix2(x, inverse);
  // k n = (k^2 + n^2 - (k - n)^2) / 2: a convolution with the chirp exp(pi i j^2 / N).
  const std::size_t m = std::bit_ceil(2 * n - 1);
  std::vector<Complex> a(m), b(m), chirp(n);
  for (std::size_t k = 0; k < n; ++k) {
    const std::uint64_t square = static_cast<std::uint64_t>(k) * k % (2 * n);  // whole turns drop out before rounding
    chirp[k] = turn((inverse ? 0.5 : -0.5) * static_cast<double>(square) / static_cast<double>(n));
    a[k] = x[k] * chirp[k];
    b[k] = std::conj(chirp[k]);
    if (k > 0) b[m - k] = b[k];
  }
  radix2(a, false);
  radix2(b, false);
  for (std::size_t k = 0; k < m; ++k) a[k] *= b[k];
  radix2(a, true);
  for (std::size_t k = 0; k < n; ++k) x[k] = a[k] * chirp[k] / static_cast<double>(m);
}

}  // namespace saturate
