// Operators of a session's own, over images with channels last, [N, H, W, C]: windows and rows of channels are then adjacent, and a
// convolution is a matrix product with packed weights. Made by kernels/session_layout.cpp; a model can't name them.
#pragma once

#include "kernels/conv.h"
#include "kernels/gemm.h"

namespace saturate {

// Functions of one float that a convolution can apply to its result while it is in the cache.
enum class Epilogue : std::uint8_t { kNone, kRelu, kClip, kSwish, kSigmoid, kTanh, kHardSwish, kGelu };
struct EpilogueCall {
  Epilogue kind = Epilogue::kNone;
  float low = 0, high = 0;  // of kClip
};
void apply_epilogue(const EpilogueCall& call, float* y, std::int64_t n);
// From the attributes `activation`, `low` and `high`.
EpilogueCall epilogue_of(const KernelContext& ctx);
// The kind of the operator that it stands for, kNone: there is none.
Epilogue epilogue_named(std::string_view op_type);

// y[i] = x[i] * w[i] summed over taps: one row of output positions of a depthwise convolution.
// x: first input of the first position; taps: offsets into x and rows of w [taps][channels]; step: floats from one position's input to the next one's.
struct DepthwiseTap {
  std::int64_t offset;
  const float* weight;
};
void depthwise_positions(const float* x, std::int64_t step, const DepthwiseTap* taps, std::size_t tap_count, std::int64_t channels,
                         std::int64_t positions, const float* bias, float* y);
// y[c] = max(y[c], x[c]) with NaN kept; y[c] += x[c]; y[c] = y[c] * factor.
void max_channels(const float* x, float* y, std::int64_t channels);
void add_channels(const float* x, float* y, std::int64_t channels);
void scale_channels(float factor, float* y, std::int64_t channels);


}  // namespace saturate
