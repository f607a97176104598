// The geometry of sliding windows, shared by convolutions and pooling, and the copy of windows into matrix columns.
#pragma once

#include <span>

#include "kernels/core/registry.h"

namespace saturate {

// Per spatial axis. Output positions o read input o * stride - pad_begin + k * dilation.
struct Window {
  Shape input, kernel, strides, dilations, pad_begin, pad_end, output;
  std::int64_t input_size() const { return product(input); }
  std::int64_t kernel_size() const { return product(kernel); }
  std::int64_t output_size() const { return product(output); }
};

// From the attributes strides, dilations, pads, auto_pad of the node (ONNX spec, Conv and *Pool).
absl::StatusOr<Window> window_of(const KernelContext& ctx, Shape input, Shape kernel, bool ceil_mode = false);

// Output positions, flat.
struct Positions {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

// Calls f(first_output, count, first_input, input_step) for every run of output positions along the last axis, of those in `among`. Their
// inputs, by kernel element `k` (flat), lie inside the tensor. Runs that would read padding are left out.
template <typename F>
void for_each_window_run(const Window& w, std::int64_t k, const Positions& among, F&& f) {
  const std::size_t rank = w.input.size();
  if (among.size() <= 0) return;
  if (rank == 0) return f(std::int64_t{0}, std::int64_t{1}, std::int64_t{0}, std::int64_t{1});
  Shape shift(rank);  // input position of output 0
  for (std::size_t d = rank; d-- > 0; k /= w.kernel[d]) shift[d] = k % w.kernel[d] * w.dilations[d] - w.pad_begin[d];
  const std::size_t last = rank - 1;
  const std::int64_t stride = w.strides[last];
  const std::int64_t low = shift[last] >= 0 ? 0 : (-shift[last] + stride - 1) / stride;
  const std::int64_t room = w.input[last] - 1 - shift[last];
  const std::int64_t high = room < 0 ? 0 : std::min(w.output[last], room / stride + 1);
  if (low >= high) return;
  const std::int64_t width = w.output[last], rows = (among.end + width - 1) / width;
  Shape index(rank, 0);
  for (std::int64_t d = static_cast<std::int64_t>(last) - 1, row = among.begin / width; d >= 0; --d) {
    const std::size_t at = static_cast<std::size_t>(d);
    index[at] = row % w.output[at];
    row /= w.output[at];
  }
  for (std::int64_t row = among.begin / width; row < rows; ++row) {
    std::int64_t at = 0;
    bool inside = true;
    for (std::size_t d = 0; d < last; ++d) {
      const std::int64_t p = index[d] * w.strides[d] + shift[d];
      inside = inside && p >= 0 && p < w.input[d];
      at = at * w.input[d] + p;
    }
    const std::int64_t from = std::max(low, among.begin - row * width), to = std::min(high, among.end - row * width);
    if (inside && from < to) f(row * width + from, to - from, at * w.input[last] + from * stride + shift[last], stride);
    for (std::size_t d = last; d-- > 0;) {
      if (++index[d] < w.output[d]) break;
      index[d] = 0;
    }
  }
}
template <typename F>
void for_each_window_run(const Window& w, std::int64_t k, F&& f) {
  for_each_window_run(w, k, {0, w.output_size()}, f);
}

// A weight, and how far from an output's first input its factor lies.
struct RowTap {
  std::int64_t offset;
  float weight;
};
// y[i] = sum of weight * x[offset + i] in the order of the taps, i in [0, n).
void sum_taps(std::span<const RowTap> taps, const float* x, std::int64_t n, float* y);

// What ONNX Runtime's FusedConv knows, besides Clip; a longer list would let a model pass that it refuses.
bool is_conv_activation(std::string_view name);

void register_conv_transpose(Registry& registry);
void register_conv_other(Registry& registry);

}  // namespace saturate
