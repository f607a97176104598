// The loops over channels. Each is compiled for the baseline, AVX2 and AVX-512 and chosen by cpuid when the program is loaded.
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
#include "kernels/conv/channels_last.h"
#include "kernels/elementwise/activation.h"

namespace saturate {
namespace {

constexpr int kLanes = 16, kPositions = 6;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));

// Lanes anywhere in memory. (A function that gives Lanes back would have another calling convention in each clone.)
typedef float LooseLanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
[[gnu::always_inline]] inline const LooseLanes& lanes_at(const float* from) { return *reinterpret_cast<const LooseLanes*>(from); }

template <int P>
[[gnu::always_inline]] inline void store_tile(Lanes* sum, const TileFinish& finish, std::int64_t position, std::int64_t channel, float* y,
                                              std::int64_t channels) {
  for (int i = 0; i < P; ++i) {
    const std::int64_t at = (position + i) * channels + channel;
    Lanes v = sum[i];
    if (finish.residual != nullptr) v += lanes_at(finish.residual + at);
    v = v < finish.low ? Lanes{} + finish.low : v;  // NaN stays
    v = v > finish.high ? Lanes{} + finish.high : v;
    *reinterpret_cast<LooseLanes*>(y + at) = v;
  }
}

// Sums of P positions for 16 channels: the weights are read once for all of them.
template <int P>
[[gnu::always_inline]] inline void depthwise_tile(const DepthwiseRow& row, const TileFinish& finish, std::int64_t position,
                                                  std::int64_t channel, float* y) {
  Lanes sum[P];
  for (int i = 0; i < P; ++i) sum[i] = finish.bias != nullptr ? lanes_at(finish.bias + channel) : Lanes{};
  for (const DepthwiseTap& tap : row.taps) {
    const Lanes w = lanes_at(tap.weight + channel);
    const float* from = row.x + position * row.step + tap.offset + channel;
#pragma GCC unroll 8
    for (int i = 0; i < P; ++i) sum[i] += lanes_at(from + i * row.step) * w;
  }
  store_tile<P>(sum, finish, position, channel, y, row.channels);
}

// The same where W taps are neighbours, as positions are: every input is read once for all the positions that it serves.
template <int P, int W>
[[gnu::always_inline]] inline void sliding_tile(const DepthwiseRow& row, const TileFinish& finish, std::int64_t position,
                                                std::int64_t channel, float* y) {
  Lanes sum[P];
  for (int i = 0; i < P; ++i) sum[i] = finish.bias != nullptr ? lanes_at(finish.bias + channel) : Lanes{};
  for (std::size_t t = 0; t < row.taps.size(); t += W) {
    Lanes w[W];
#pragma GCC unroll 8
    for (int j = 0; j < W; ++j) w[j] = lanes_at(row.taps[t + static_cast<std::size_t>(j)].weight + channel);
    const float* from = row.x + position * row.step + row.taps[t].offset + channel;
#pragma GCC unroll 16
    for (int c = 0; c < P + W - 1; ++c) {
      const Lanes v = lanes_at(from + c * row.step);
#pragma GCC unroll 8
      for (int j = 0; j < W; ++j) {
        if (c - j >= 0 && c - j < P) sum[c - j] += v * w[j];
      }
    }
  }
  store_tile<P>(sum, finish, position, channel, y, row.channels);
}

template <int P>
[[gnu::always_inline]] inline void positions_tile(const DepthwiseRow& row, const TileFinish& finish, std::int64_t position, float* y) {
  const std::int64_t end = row.channels - kLanes;
  if (row.width == 3) {
    for (std::int64_t c = 0; c <= end; c += kLanes) sliding_tile<P, 3>(row, finish, position, c, y);
  } else if (row.width == 5) {
    for (std::int64_t c = 0; c <= end; c += kLanes) sliding_tile<P, 5>(row, finish, position, c, y);
  } else {
    for (std::int64_t c = 0; c <= end; c += kLanes) depthwise_tile<P>(row, finish, position, c, y);
  }
}

// One position, V vectors of channels: a single sum would wait for itself.
template <int V>
[[gnu::always_inline]] inline void channels_tile(const DepthwiseRow& row, const TileFinish& finish, std::int64_t position,
                                                 std::int64_t channel, float* y) {
  Lanes sum[V];
  for (int v = 0; v < V; ++v) sum[v] = finish.bias != nullptr ? lanes_at(finish.bias + channel + v * kLanes) : Lanes{};
  for (const DepthwiseTap& tap : row.taps) {
    const float *w = tap.weight + channel, *from = row.x + position * row.step + tap.offset + channel;
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[v] += lanes_at(from + v * kLanes) * lanes_at(w + v * kLanes);
  }
  for (int v = 0; v < V; ++v) store_tile<1>(sum + v, finish, position, channel + v * kLanes, y, row.channels);
}

}  // namespace

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void depthwise_positions(const DepthwiseRow& row,
                                                                                               const TileFinish& finish, float* y) {
  constexpr int kWide = 4;
  const std::int64_t channels = row.channels;
  std::int64_t p = 0;
  for (; p + kPositions <= row.positions; p += kPositions) positions_tile<kPositions>(row, finish, p, y);
  // What is left, at most 5, of which rows of usual sizes have 1, 2 or 4.
  const std::int64_t left = row.positions - p;
  if ((left & 4) != 0) positions_tile<4>(row, finish, p, y), p += 4;
  if ((left & 2) != 0) positions_tile<2>(row, finish, p, y), p += 2;
  if ((left & 1) != 0) {
    std::int64_t c = 0;
    for (; c + kWide * kLanes <= channels; c += kWide * kLanes) channels_tile<kWide>(row, finish, p, c, y);
    for (; c + kLanes <= channels; c += kLanes) channels_tile<1>(row, finish, p, c, y);
  }
  for (p = 0; p < row.positions; ++p) {
    for (std::int64_t c = channels / kLanes * kLanes; c < channels; ++c) {
      float sum = finish.bias == nullptr ? 0.0f : finish.bias[c];
      for (const DepthwiseTap& tap : row.taps) sum += row.x[p * row.step + tap.offset + c] * tap.weight[c];
      if (finish.residual != nullptr) sum += finish.residual[p * channels + c];
      sum = sum < finish.low ? finish.low : sum;
      y[p * channels + c] = sum > finish.high ? finish.high : sum;
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

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void sum_positions(const float* x, std::int64_t positions,
                                                                                         std::int64_t step, std::int64_t channels,
                                                                                         float* y) {
  constexpr int kWide = 4;
  std::int64_t c = 0;
  for (; c + kWide * kLanes <= channels; c += kWide * kLanes) {
    Lanes sum[kWide] = {};
    for (std::int64_t p = 0; p < positions; ++p) {
#pragma GCC unroll 8
      for (int i = 0; i < kWide; ++i) sum[i] += lanes_at(x + p * step + c + i * kLanes);
    }
    for (int i = 0; i < kWide; ++i) *reinterpret_cast<LooseLanes*>(y + c + i * kLanes) = sum[i];
  }
  for (; c + kLanes <= channels; c += kLanes) {
    Lanes sum{}, other{};
    std::int64_t p = 0;
    for (; p + 1 < positions; p += 2) {
      sum += lanes_at(x + p * step + c);
      other += lanes_at(x + (p + 1) * step + c);
    }
    if (p < positions) sum += lanes_at(x + p * step + c);
    *reinterpret_cast<LooseLanes*>(y + c) = sum + other;
  }
  for (; c < channels; ++c) {
    y[c] = 0;
    for (std::int64_t p = 0; p < positions; ++p) y[c] += x[p * step + c];
  }
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void gate_positions(const float* x, std::int64_t positions,
                                                                                          std::int64_t channels, const float* gate,
                                                                                          float* y) {
  for (std::int64_t p = 0; p < positions; ++p) {
#pragma GCC ivdep
    for (std::int64_t c = 0; c < channels; ++c) y[p * channels + c] = x[p * channels + c] * gate[c];
  }
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void scale_rows(const float* x, std::int64_t rows, std::int64_t width,
                                                                                      const float* gate, float* y) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float factor = gate[r];
#pragma GCC ivdep
    for (std::int64_t j = 0; j < width; ++j) y[r * width + j] = x[r * width + j] * factor;
  }
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
