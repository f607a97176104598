// Loops of the quantized operators, compiled for the baseline, AVX2 and AVX-512 and chosen by cpuid when the program is loaded.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace saturate {

// The smallest and the largest of 0 and n numbers; NaN does not count.
void range_with_zero(const float* x, std::int64_t n, float& low, float& high);

// Scale and zero point (ONNX Operators: DynamicQuantizeLinear) of numbers in [low, high], which holds 0.
struct ByteScale {
  float scale, zero;
};
inline ByteScale byte_scale(float low, float high) {
  const float scale = high == low ? 1.0f : (high - low) / 255.0f;
  return {scale, std::nearbyint(std::clamp(0.0f - low / scale, 0.0f, 255.0f))};
}

// A zero point and the range of the integers, as numbers to compute with.
template <typename F>
struct IntegerRange {
  F zero, low, high;
};

// y = clamp(round to even(x / scale) + zero, low, high), NaN gives low. zero, low and high are integers of up to 16 bits.
void quantize_floats(const float* x, std::int64_t n, float scale, IntegerRange<float> to, std::uint8_t* y);
void quantize_floats(const float* x, std::int64_t n, float scale, IntegerRange<float> to, std::int8_t* y);
void quantize_floats(const float* x, std::int64_t n, float scale, IntegerRange<float> to, std::uint16_t* y);
void quantize_floats(const float* x, std::int64_t n, float scale, IntegerRange<float> to, std::int16_t* y);

// y = clamp(round to even(x * ratio[i]) + zero, low, high) in double precision, the low byte of it: for both 8-bit types.
void requantize_products(const std::int32_t* x, std::int64_t n, const float* ratio, IntegerRange<double> to, std::uint8_t* y);
// y = clamp(round to even(float(x + bias[i]) * ratio[i]) + zero, low, high) in single precision, the low byte of it; ratios are finite.
void requantize_biased(const std::int32_t* x, std::int64_t n, const double* bias, const float* ratio, IntegerRange<float> to,
                       std::uint8_t* y);
// y = x * scale[i] + add[i].
void scale_products(const std::int32_t* x, std::int64_t n, const float* scale, const float* add, float* y);
// y = x ^ 0x80: between int8 and uint8 with the zero point moved by 128.
void flip_signs(const std::uint8_t* x, std::int64_t n, std::uint8_t* y);
// y[i] = start[i] + the sum over t < 2 * pairs of x[t][offset + i] * weight of tap t, channel i < kDepthwiseChannels; weights, of at most 9
// bits, lie by pairs of taps: [pairs][kDepthwiseChannels][2].
inline constexpr int kDepthwiseChannels = 64;
void sum_weighted_bytes(const std::uint8_t* const* x, std::int64_t pairs, std::int64_t offset, const std::int16_t* weight,
                        const std::int32_t* start, std::int32_t* y);
// The same by AVX2.
void sum_weighted_avx2(const std::uint8_t* const* x, std::int64_t pairs, std::int64_t offset, const std::int16_t* weight,
                       const std::int32_t* start, std::int32_t* y);

// y[j * y_step + i] = x[i * x_step + j], i < rows, j < columns.
void transpose_bytes(const std::uint8_t* x, std::int64_t rows, std::int64_t columns, std::int64_t x_step, std::uint8_t* y,
                     std::int64_t y_step);

}  // namespace saturate
