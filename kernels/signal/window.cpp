// Window functions and the mel filter bank (ONNX Operators: HannWindow, HammingWindow, BlackmanWindow, MelWeightMatrix).
#include <cmath>
#include <numbers>

#include "kernels/core/registry.h"
#include "kernels/signal/families.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

// sum over k of coefficients[k] * cos(2 pi k n / N).
Outputs cosine_window(KernelContext& ctx, std::span<const double> coefficients) {
  const auto size = one_integer(ctx, ctx.tensor(0));
  if (!size.ok()) return size.status();
  if (*size < 0) return ctx.invalid("the window's size is negative");
  const auto dtype = static_cast<DType>(ctx.attr_i("output_datatype", static_cast<std::int64_t>(DType::kFloat)));
  if (const auto room = ctx.allocate(DType::kDouble, {*size}); !room.ok()) return room.status();
  const bool periodic = ctx.attr_i("periodic", 1) != 0;
  const double period = static_cast<double>(periodic ? *size : *size - 1);
  std::vector<double> values(static_cast<std::size_t>(*size));
  // A symmetric window of one element is 0/0 in the functions that define these operators: NaN.
  for (std::size_t n = 0; n < values.size(); ++n) {
    double sum = 0;
    for (std::size_t k = 0; k < coefficients.size(); ++k) {
      sum += coefficients[k] * std::cos(2 * std::numbers::pi * static_cast<double>(k) * static_cast<double>(n) / period);
    }
    values[n] = sum;
  }
  return one_output(from_doubles(ctx, dtype, {*size}, values));
}

Outputs hann(KernelContext& ctx) { return cosine_window(ctx, std::array{0.5, -0.5}); }
Outputs hamming(KernelContext& ctx) { return cosine_window(ctx, std::array{25.0 / 46.0, -21.0 / 46.0}); }
Outputs blackman(KernelContext& ctx) { return cosine_window(ctx, std::array{0.42, -0.5, 0.08}); }

double to_mel(double hertz) { return 2595.0 * std::log10(1.0 + hertz / 700.0); }
double to_hertz(double mel) { return 700.0 * (std::pow(10.0, mel / 2595.0) - 1.0); }

Outputs mel_weight_matrix(KernelContext& ctx) {
  const auto bins = one_integer(ctx, ctx.tensor(0)), length = one_integer(ctx, ctx.tensor(1)), rate = one_integer(ctx, ctx.tensor(2));
  const auto low = to_doubles(ctx, ctx.tensor(3)), high = to_doubles(ctx, ctx.tensor(4));
  if (!bins.ok() || !length.ok() || !rate.ok() || !low.ok() || !high.ok() || low->size() != 1 || high->size() != 1)
    return ctx.invalid("each input must be one number");
  if (*bins <= 0 || *length <= 0 || *rate <= 0) return ctx.invalid("number of bins, length and rate must be positive");
  const std::int64_t rows = *length / 2 + 1;
  const auto room = ctx.allocate(DType::kDouble, {rows, *bins});
  if (!room.ok()) return room.status();
  // Edges of the triangles as spectrogram bins, evenly spaced on the mel scale.
  const double mel_low = to_mel((*low)[0]), mel_step = (to_mel((*high)[0]) - mel_low) / static_cast<double>(*bins + 2);
  const auto edge = [&](std::int64_t i) {
    const double hertz = to_hertz(mel_low + static_cast<double>(i) * mel_step);
    return static_cast<std::int64_t>(std::floor(static_cast<double>(*length + 1) * hertz / static_cast<double>(*rate)));
  };
  std::vector<double> values(static_cast<std::size_t>(rows * *bins), 0.0);
  const auto set = [&](std::int64_t row, std::int64_t bin, double v) {
    if (row >= 0 && row < rows) values[static_cast<std::size_t>(row * *bins + bin)] = v;
  };
  for (std::int64_t b = 0; b < *bins; ++b) {
    const std::int64_t left = edge(b), centre = edge(b + 1), right = edge(b + 2);
    if (left == centre) set(centre, b, 1.0);
    for (std::int64_t r = std::max<std::int64_t>(left, 0); left != centre && r <= std::min(centre, rows - 1); ++r) {
      set(r, b, static_cast<double>(r - left) / static_cast<double>(centre - left));
    }
    for (std::int64_t r = std::max<std::int64_t>(centre, 0); centre != right && r < std::min(right, rows); ++r) {
      set(r, b, static_cast<double>(right - r) / static_cast<double>(right - centre));
    }
  }
  const auto dtype = static_cast<DType>(ctx.attr_i("output_datatype", static_cast<std::int64_t>(DType::kFloat)));
  return one_output(from_doubles(ctx, dtype, {rows, *bins}, values));
}

}  // namespace

void register_signal_window(Registry& registry) {
  registry.add("", "HannWindow", hann);
  registry.add("", "HammingWindow", hamming);
  registry.add("", "BlackmanWindow", blackman);
  registry.add("", "MelWeightMatrix", mel_weight_matrix);
}

}  // namespace saturate
