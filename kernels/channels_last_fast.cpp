// The loops over channels. Each is compiled for the baseline, AVX2 and AVX-512 and chosen by cpuid when the program is loaded.
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
#include <cstring>

#include "kernels/activation.h"
#include "kernels/channels_last.h"

namespace saturate {
namespace {

constexpr int kLanes = 16, kPositions = 6;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));

// Sums of P positions for 16 channels: the weights are read once for all of them.
template <int P>
[[gnu::always_inline]] inline void depthwise_tile(const float* x, std::int64_t step, const DepthwiseTap* taps, std::size_t tap_count,
                                                  std::int64_t channel, const float* bias, float* y, std::int64_t channels) {
  Lanes sum[P];
  for (int i = 0; i < P; ++i) {
    if (bias != nullptr)
      std::memcpy(&sum[i], bias + channel, sizeof(Lanes));
    else
      sum[i] = Lanes{};
  }
  for (std::size_t t = 0; t < tap_count; ++t) {
    Lanes w;
    std::memcpy(&w, taps[t].weight + channel, sizeof w);
    const float* from = x + taps[t].offset + channel;
#pragma GCC unroll 8
    for (int i = 0; i < P; ++i) {
      Lanes v;
      std::memcpy(&v, from + i * step, sizeof v);
      sum[i] += v * w;
    }
  }
  for (int i = 0; i < P; ++i) std::memcpy(y + i * channels + channel, &sum[i], sizeof(Lanes));
}

}  // namespace

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void depthwise_positions(const float* x, std::int64_t step,
                                                                                               const DepthwiseTap* taps,
                                                                                               std::size_t tap_count, std::int64_t channels,
                                                                                               std::int64_t positions, const float* bias,
                                                                                               float* y) {
  std::int64_t p = 0;
  for (; p + kPositions <= positions; p += kPositions) {
    for (std::int64_t c = 0; c + kLanes <= channels; c += kLanes)
      depthwise_tile<kPositions>(x + p * step, step, taps, tap_count, c, bias, y + p * channels, channels);
  }
  for (; p < positions; ++p) {
    for (std::int64_t c = 0; c + kLanes <= channels; c += kLanes)
      depthwise_tile<1>(x + p * step, step, taps, tap_count, c, bias, y + p * channels, channels);
  }
  for (p = 0; p < positions; ++p) {
    for (std::int64_t c = channels / kLanes * kLanes; c < channels; ++c) {
      float sum = bias == nullptr ? 0.0f : bias[c];
      for (std::size_t t = 0; t < tap_count; ++t) sum += x[p * step + taps[t].offset + c] * taps[t].weight[c];
      y[p * channels + c] = sum;
    }
  }
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void max_channels(const float* x, float* y, std::int64_t channels) {
#pragma GCC ivdep
  for (std::int64_t c = 0; c < channels; ++c) y[c] = x[c] > y[c] || x[c] != x[c] ? x[c] : y[c];
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void add_channels(const float* x, float* y, std::int64_t channels) {
#pragma GCC ivdep
  for (std::int64_t c = 0; c < channels; ++c) y[c] += x[c];
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void scale_channels(float factor, float* y, std::int64_t channels) {
#pragma GCC ivdep
  for (std::int64_t c = 0; c < channels; ++c) y[c] *= factor;
}

namespace {

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void relu_floats(float* y, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = y[i] < 0.0f ? 0.0f : y[i];  // NaN stays
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void clip_floats(float low, float high, float* y, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const float v = y[i] < low ? low : y[i];
    y[i] = v > high ? high : v;
  }
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void hard_swish_floats(float* y, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const float v = y[i] * (1.0f / 6.0f) + 0.5f, floored = v < 0.0f ? 0.0f : v;
    y[i] *= floored > 1.0f ? 1.0f : floored;
  }
}

}  // namespace

void apply_epilogue(const EpilogueCall& call, float* y, std::int64_t n) {
  switch (call.kind) {
    case Epilogue::kNone:
      return;
    case Epilogue::kRelu:
      return relu_floats(y, n);
    case Epilogue::kClip:
      return clip_floats(call.low, call.high, y, n);
    case Epilogue::kSwish:
      return swish_floats(y, y, n, 1.0f);
    case Epilogue::kSigmoid:
      return sigmoid_floats(y, y, n);
    case Epilogue::kTanh:
      return tanh_floats(y, y, n);
    case Epilogue::kHardSwish:
      return hard_swish_floats(y, n);
    case Epilogue::kGelu:
      return gelu_floats(y, y, n);
  }
}

}  // namespace saturate
