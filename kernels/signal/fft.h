// Discrete Fourier transforms of any length.
#pragma once

#include <complex>
#include <vector>

namespace saturate {

using Complex = std::complex<double>;

// X[k] = sum over n of x[n] exp(-2 pi i k n / N); exp(+...) without scaling if `inverse`. Radix 2, or Bluestein's chirp transform.
void fourier(std::vector<std::complex<double>>& x, bool inverse);

}  // namespace saturate
