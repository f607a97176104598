// Operators of a session's own, over images with channels last, [N, H, W, C]: windows and rows of channels are then adjacent, and a
// convolution is a matrix product with packed weights. Made by kernels/session/layout.cpp; a model can't name them.
#pragma once

#include <limits>

#include "kernels/conv/conv.h"
#include "kernels/gemm/gemm.h"

namespace saturate {

// Functions of one float that a convolution can apply to its result while it is in the cache.
enum class Epilogue : std::uint8_t { kNone, kRelu, kClip, kSwish, kSigmoid, kTanh, kHardSwish, kGelu };
struct EpilogueCall {
  Epilogue kind = Epilogue::kNone;
  float low = 0, high = 0;  // of kClip
  // Relu and Clip are bounds, which a product applies in its registers; no function has none.
  bool is_clip() const { return kind == Epilogue::kNone || kind == Epilogue::kRelu || kind == Epilogue::kClip; }
  float clip_low() const {
    return kind == Epilogue::kRelu ? 0.0f : kind == Epilogue::kClip ? low : -std::numeric_limits<float>::infinity();
  }
  float clip_high() const { return kind == Epilogue::kClip ? high : std::numeric_limits<float>::infinity(); }
};
void apply_epilogue(const EpilogueCall& call, float* y, std::int64_t n);
// From the attributes `activation`, `low` and `high`.
EpilogueCall epilogue_of(const KernelContext& ctx);
// The kind of the operator that it stands for, kNone: there is none.
Epilogue epilogue_named(std::string_view op_type);

// One row of output positions of a depthwise convolution.
struct DepthwiseTap {
  std::int64_t offset;  // into x
  const float* weight;  // [channels]
};
struct DepthwiseRow {
  const float* x;     // first input of the first position
  std::int64_t step;  // floats from one position's input to the next one's
  std::span<const DepthwiseTap> taps;
  int width;  // > 0: the taps are rows of this many neighbours, and `step` is a neighbour's distance
  std::int64_t channels, positions;
};
// y[position][channel] = finish(sum over taps of x * weight).
void depthwise_positions(const DepthwiseRow& row, const TileFinish& finish, float* y);
// y[c] = max(y[c], x[c]) with NaN kept; y[c] += x[c]; y[c] = y[c] * factor.
void max_channels(const float* x, float* y, std::int64_t channels);
void add_channels(const float* x, float* y, std::int64_t channels);
void scale_channels(float factor, float* y, std::int64_t channels);
// y[c] = sum of x[position * step + c].
void sum_positions(const float* x, std::int64_t positions, std::int64_t step, std::int64_t channels, float* y);
// y[position][c] = x[position][c] * gate[c].
void gate_positions(const float* x, std::int64_t positions, std::int64_t channels, const float* gate, float* y);
// y[row][j] = x[row][j] * gate[row], j < width.
void scale_rows(const float* x, std::int64_t rows, std::int64_t width, const float* gate, float* y);
}  // namespace saturate
