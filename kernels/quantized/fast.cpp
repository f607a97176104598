#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
#include "kernels/quantized/fast.h"

#include <cstring>

#include "kernels/core/processor.h"

namespace saturate {
namespace {

// Rounds to even where the sum of both stays within the mantissa.
constexpr float kRound = 0x1.8p23f;
constexpr double kRoundDouble = 0x1.8p52;

template <typename D>
[[gnu::always_inline]] inline void quantize(const float* x, std::int64_t n, float scale, IntegerRange<float> to, D* y) {
  const auto [zero, low, high] = to;
  const float least = low - zero, most = high - zero;  // clamped first: then the rounding is exact
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    float r = x[i] / scale;
    r = r > least ? r : least;
    r = r < most ? r : most;
    y[i] = static_cast<D>(static_cast<std::int32_t>((r + kRound) - kRound + zero));
  }
}

}  // namespace

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void range_with_zero(const float* x, std::int64_t n, float& low,
                                                                                           float& high) {
  constexpr int kLanes = 32;
  float least[kLanes] = {}, most[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) {
      const float v = x[i + j];
      least[j] = v < least[j] ? v : least[j];
      most[j] = v > most[j] ? v : most[j];
    }
  }
  for (; i < n; ++i) {
    least[0] = x[i] < least[0] ? x[i] : least[0];
    most[0] = x[i] > most[0] ? x[i] : most[0];
  }
  low = high = 0;
  for (int j = 0; j < kLanes; ++j) {
    low = least[j] < low ? least[j] : low;
    high = most[j] > high ? most[j] : high;
  }
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void quantize_floats(const float* x, std::int64_t n, float scale,
                                                                                           IntegerRange<float> to, std::uint8_t* y) {
  quantize(x, n, scale, to, y);
}
[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void quantize_floats(const float* x, std::int64_t n, float scale,
                                                                                           IntegerRange<float> to, std::int8_t* y) {
  quantize(x, n, scale, to, y);
}
[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void quantize_floats(const float* x, std::int64_t n, float scale,
                                                                                           IntegerRange<float> to, std::uint16_t* y) {
  quantize(x, n, scale, to, y);
}
[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void quantize_floats(const float* x, std::int64_t n, float scale,
                                                                                           IntegerRange<float> to, std::int16_t* y) {
  quantize(x, n, scale, to, y);
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void requantize_products(const std::int32_t* x, std::int64_t n,
                                                                                               const float* ratio, IntegerRange<double> to,
                                                                                               std::uint8_t* y) {
  const auto [zero, low, high] = to;
  const double least = low - zero, most = high - zero;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    double r = static_cast<double>(x[i]) * static_cast<double>(ratio[i]);
    r = r > least ? r : least;
    r = r < most ? r : most;
    y[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>((r + kRoundDouble) - kRoundDouble + zero));
  }
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void requantize_biased(const std::int32_t* x, std::int64_t n,
                                                                                             const double* bias, const float* ratio,
                                                                                             IntegerRange<float> to, std::uint8_t* y) {
  const auto [zero, low, high] = to;
  const float least = low - zero, most = high - zero;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    float r = static_cast<float>(static_cast<double>(x[i]) + bias[i]) * ratio[i];
    r = r > least ? r : least;
    r = r < most ? r : most;
    y[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>((r + kRound) - kRound + zero));
  }
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void scale_products(const std::int32_t* x, std::int64_t n,
                                                                                          const float* scale, const float* add, float* y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[i]) * scale[i] + add[i];
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void flip_signs(const std::uint8_t* x, std::int64_t n,
                                                                                      std::uint8_t* y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<std::uint8_t>(x[i] ^ 0x80);
}

namespace {

void sum_weighted_portable(const std::uint8_t* const* x, std::int64_t pairs, std::int64_t offset, const std::int16_t* weight,
                           const std::int32_t* start, std::int32_t* y) {
  std::copy_n(start, kDepthwiseChannels, y);
  for (std::int64_t p = 0; p < pairs; ++p, weight += 2 * kDepthwiseChannels)
    for (int i = 0; i < kDepthwiseChannels; ++i)
      y[i] += x[2 * p][offset + i] * weight[2 * i] + x[2 * p + 1][offset + i] * weight[2 * i + 1];
}

}  // namespace

void sum_weighted_bytes(const std::uint8_t* const* x, std::int64_t pairs, std::int64_t offset, const std::int16_t* weight,
                        const std::int32_t* start, std::int32_t* y) {
  static const auto best = SATURATE_X86_HAS("avx2") ? sum_weighted_avx2 : sum_weighted_portable;
  best(x, pairs, offset, weight, start, y);
}

namespace {

constexpr int kSide = 16;
typedef std::uint8_t Bytes __attribute__((vector_size(kSide)));

// Four times rows i and i + 8 are interleaved: each time the eight bits of row and column turn by one, after four rows are columns.
[[gnu::always_inline]] inline void transpose_square(const std::uint8_t* x, std::int64_t x_step, std::uint8_t* y, std::int64_t y_step) {
  Bytes rows[kSide], mixed[kSide];
  for (int i = 0; i < kSide; ++i) std::memcpy(&rows[i], x + i * x_step, kSide);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < kSide / 2; ++i) {
      mixed[2 * i] = __builtin_shuffle(rows[i], rows[i + 8], Bytes{0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23});
      mixed[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + 8], Bytes{8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31});
    }
    for (int i = 0; i < kSide; ++i) rows[i] = mixed[i];
  }
  for (int i = 0; i < kSide; ++i) std::memcpy(y + i * y_step, &rows[i], kSide);
}

}  // namespace

void transpose_bytes(const std::uint8_t* x, std::int64_t rows, std::int64_t columns, std::int64_t x_step, std::uint8_t* y,
                     std::int64_t y_step) {
  const std::int64_t whole_rows = rows / kSide * kSide, whole_columns = columns / kSide * kSide;
  for (std::int64_t j = 0; j < whole_columns; j += kSide)
    for (std::int64_t i = 0; i < whole_rows; i += kSide) transpose_square(x + i * x_step + j, x_step, y + j * y_step + i, y_step);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j) y[j * y_step + i] = x[i * x_step + j];
}

}  // namespace saturate
