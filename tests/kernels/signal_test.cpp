#include <cmath>

#include "kernel_test_util.h"
#include "kernels/signal/fft.h"

namespace saturate::test {
namespace {

// Against the definition, for lengths that are powers of two, primes and composites.
TEST(Signal, FourierOfAnyLength) {
  for (std::size_t n : {1u, 2u, 3u, 7u, 8u, 30u, 97u, 400u}) {
    const std::vector<float> real = noise(n, 3), imaginary = noise(n, 4);
    std::vector<std::complex<double>> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = {real[i], imaginary[i]};
    for (bool inverse : {false, true}) {
      std::vector<std::complex<double>> fast = x;
      fourier(fast, inverse);
      for (std::size_t k = 0; k < n; ++k) {
        std::complex<double> sum = 0;
        for (std::size_t i = 0; i < n; ++i)
          sum += x[i] * std::polar(1.0, (inverse ? 2 : -2) * M_PI * static_cast<double>(i * k % n) / static_cast<double>(n));
        EXPECT_LT(std::abs(fast[k] - sum), 1e-10 * static_cast<double>(n)) << n << " " << k;
      }
    }
  }
}

TEST(Signal, DftThereAndBack) {
  const Tensor x = noise_tensor({2, 6, 1}, 9);
  const Attribute onesided = Attribute::of("onesided", std::int64_t{1}), inverse = Attribute::of("inverse", std::int64_t{1});
  const Tensor half = eval({"DFT", "", 20, {onesided}}, {x, Value(), ints({}, {1})});
  ASSERT_EQ(half.dims(), (Shape{2, 4, 2}));
  expect_near(eval({"DFT", "", 20, {onesided, inverse}}, {half, Value(), ints({}, {1})}), x, 1e-6);
  EXPECT_FALSE(run({"DFT", "", 20}, {x, Value(), ints({}, {2})}).ok());
  EXPECT_FALSE(run({"DFT", "", 20}, {x, ints({}, {0}), ints({}, {1})}).ok());
  EXPECT_FALSE(run({"DFT", "", 20}, {x, ints({}, {std::int64_t{1} << 50}), ints({}, {1})}).ok());
}

TEST(Signal, StftFrames) {
  const Tensor x = floats({1, 5, 1}, {1, 1, 1, 1, 1});
  const Tensor y = eval({"STFT", "", 17}, {x, ints({}, {2}), floats({2}, {1, 3})});
  expect_near(y, floats({1, 2, 2, 2}, {4, 0, -2, 0, 4, 0, -2, 0}));
  EXPECT_FALSE(run({"STFT", "", 17}, {x, ints({}, {0}), floats({2}, {1, 3})}).ok());
}

TEST(Signal, WindowsAndDeterminants) {
  expect_near(eval({"HannWindow", "", 17, {Attribute::of("periodic", std::int64_t{0})}}, {ints({}, {3})}), floats({3}, {0, 1, 0}));
  EXPECT_EQ(eval({"HannWindow", "", 17}, {ints({}, {0})}).dims(), Shape{0});
  // One element of a symmetric window is 0/0 by the function that defines the operator.
  EXPECT_TRUE(std::isnan(eval({"HammingWindow", "", 17, {Attribute::of("periodic", std::int64_t{0})}}, {ints({}, {1})}).data<float>()[0]));
  EXPECT_FALSE(run({"HannWindow", "", 17}, {ints({}, {-1})}).ok());
  EXPECT_FALSE(run({"HannWindow", "", 17}, {ints({}, {std::int64_t{1} << 60})}).ok());
  expect_near(eval({"Det"}, {floats({2, 2, 2}, {0, 1, 1, 0, 2, 4, 1, 2})}), floats({2}, {-1, 0}));
}

}  // namespace
}  // namespace saturate::test
