// DFT and STFT (ONNX Operators: DFT versions 17 and 20, STFT).
#include <algorithm>

#include "kernels/signal/families.h"
#include "kernels/signal/fft.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 28;

// The line cut or filled with zeros to `length`, transformed; one half of the spectrum if `onesided`.
std::vector<Complex> transform(std::vector<Complex> line, std::int64_t length, bool inverse, bool onesided) {
  const auto n = static_cast<std::size_t>(length);
  if (inverse && onesided) {  // the half is completed to a Hermitian whole
    line.resize(n / 2 + 1);
    line.resize(n);
    line[0] = line[0].real();
    if (n % 2 == 0) line[n / 2] = line[n / 2].real();
    for (std::size_t k = n / 2 + 1; k < n; ++k) line[k] = std::conj(line[n - k]);
  } else {
    line.resize(n);
  }
  fourier(line, inverse);
  for (Complex& v : line) v = inverse ? v / static_cast<double>(length) : v;
  if (onesided && !inverse) line.resize(n / 2 + 1);
  return line;
}

absl::StatusOr<std::int64_t> dft_length(const KernelContext& ctx, std::int64_t in, bool inverse, bool onesided) {
  std::int64_t length = inverse && onesided ? 2 * (in - 1) : in;
  if (ctx.has_input(1)) {
    const auto given = one_integer(ctx, ctx.tensor(1));
    if (!given.ok()) return given;
    length = *given;
  }
  if (length <= 0 || length > kLongest) return ctx.invalid("the length of the transform is out of range");
  return length;
}

Outputs dft(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  const bool inverse = ctx.attr_i("inverse", 0) != 0, onesided = ctx.attr_i("onesided", 0) != 0;
  std::int64_t given = ctx.attr_i("axis", ctx.opset < 20 ? 1 : -2);
  if (ctx.has_input(2)) {
    const auto value = one_integer(ctx, ctx.tensor(2));
    if (!value.ok()) return value.status();
    given = *value;
  }
  const std::optional<int> axis = normalize_axis(given, x.rank());
  if (!axis || *axis == x.rank() - 1) return ctx.invalid("the axis is out of range");
  const std::int64_t parts = x.dims().back(), n = x.dims()[*axis];
  if (parts != 1 && parts != 2) return ctx.invalid("the last axis must hold real numbers or pairs");
  const auto length = dft_length(ctx, n, inverse, onesided);
  if (!length.ok()) return length.status();
  const auto values = to_doubles(ctx, x);
  if (!values.ok()) return values.status();
  const bool real_result = inverse && onesided;
  Shape dims = x.dims();
  dims[*axis] = onesided && !inverse ? *length / 2 + 1 : *length;
  dims.back() = real_result ? 1 : 2;
  if (const auto room = ctx.allocate(DType::kComplex128, dims); !room.ok()) return room.status();
  std::vector<double> out(static_cast<std::size_t>(product(dims)));
  const std::int64_t inner = strides_of(x.dims())[*axis] / parts, lines = n == 0 ? 0 : x.size() / (n * parts), bins = dims[*axis],
                     width = dims.back();
  parallel_for(ctx, lines, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t l = begin; l < end; ++l) {
      std::vector<Complex> line(static_cast<std::size_t>(n));
      for (std::int64_t i = 0; i < n; ++i) {
        const double* p = values->data() + ((l / inner * n + i) * inner + l % inner) * parts;
        line[static_cast<std::size_t>(i)] = {p[0], parts == 2 ? p[1] : 0.0};
      }
      const std::vector<Complex> result = transform(std::move(line), *length, inverse, onesided);
      for (std::int64_t i = 0; i < bins; ++i) {
        double* p = out.data() + ((l / inner * bins + i) * inner + l % inner) * width;
        p[0] = result[static_cast<std::size_t>(i)].real();
        if (width == 2) p[1] = result[static_cast<std::size_t>(i)].imag();
      }
    }
  });
  return one_output(from_doubles(ctx, x.dtype(), dims, out));
}

Outputs stft(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  if (x.rank() != 2 && x.rank() != 3) return ctx.invalid("a signal of shape [batch, length, 1 or 2] is expected");
  const std::int64_t parts = x.rank() == 3 ? x.dims()[2] : 1, batch = x.dims()[0], samples = x.dims()[1];
  const auto step = one_integer(ctx, ctx.tensor(1));
  if (!step.ok()) return step.status();
  std::int64_t length = ctx.has_input(2) ? ctx.tensor(2).size() : samples;
  if (ctx.has_input(3)) {
    const auto given = one_integer(ctx, ctx.tensor(3));
    if (!given.ok()) return given.status();
    length = *given;
  }
  if (*step <= 0 || length <= 0 || length > std::min(samples, kLongest) || (parts != 1 && parts != 2))
    return ctx.invalid("the frame does not fit the signal");
  std::vector<double> window(static_cast<std::size_t>(length), 1.0);
  if (ctx.has_input(2)) {
    const auto given = to_doubles(ctx, ctx.tensor(2));
    if (!given.ok()) return given.status();
    if (static_cast<std::int64_t>(given->size()) > length) return ctx.invalid("the window is longer than the frame");
    std::fill(window.begin(), window.end(), 0.0);
    std::copy(given->begin(), given->end(), window.begin());
  }
  const auto values = to_doubles(ctx, x);
  if (!values.ok()) return values.status();
  const bool onesided = ctx.attr_i("onesided", 1) != 0 && parts == 1;
  const std::int64_t frames = 1 + (samples - length) / *step, bins = onesided ? length / 2 + 1 : length;
  const Shape dims = {batch, frames, bins, 2};
  if (const auto room = ctx.allocate(DType::kDouble, dims); !room.ok()) return room.status();
  std::vector<double> out(static_cast<std::size_t>(product(dims)));
  parallel_for(ctx, batch * frames, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t f = begin; f < end; ++f) {
      std::vector<Complex> line(static_cast<std::size_t>(length));
      const double* from = values->data() + (f / frames * samples + f % frames * *step) * parts;
      for (std::int64_t i = 0; i < length; ++i) {
        line[static_cast<std::size_t>(i)] =
            Complex(from[i * parts], parts == 2 ? from[i * parts + 1] : 0.0) * window[static_cast<std::size_t>(i)];
      }
      const std::vector<Complex> result = transform(std::move(line), length, false, onesided);
      for (std::int64_t i = 0; i < bins; ++i) {
        out[static_cast<std::size_t>((f * bins + i) * 2)] = result[static_cast<std::size_t>(i)].real();
        out[static_cast<std::size_t>((f * bins + i) * 2 + 1)] = result[static_cast<std::size_t>(i)].imag();
      }
    }
  });
  return one_output(from_doubles(ctx, x.dtype(), dims, out));
}

// Determinants of the last two axes' matrices by elimination with pivots.
Outputs det(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  if (x.rank() < 2 || x.dims().back() != x.dims()[x.dims().size() - 2]) return ctx.invalid("square matrices are expected");
  auto values = to_doubles(ctx, x);
  if (!values.ok()) return values.status();
  const std::int64_t n = x.dims().back();
  const Shape dims(x.dims().begin(), x.dims().end() - 2);
  std::vector<double> out(static_cast<std::size_t>(product(dims)), 1.0);
  for (std::size_t m = 0; m < out.size(); ++m) {
    double* a = values->data() + static_cast<std::int64_t>(m) * n * n;
    for (std::int64_t k = 0; k < n && out[m] != 0; ++k) {
      std::int64_t pivot = k;
      for (std::int64_t r = k + 1; r < n; ++r) pivot = std::abs(a[r * n + k]) > std::abs(a[pivot * n + k]) ? r : pivot;
      if (pivot != k) {
        std::swap_ranges(a + k * n, a + (k + 1) * n, a + pivot * n);
        out[m] = -out[m];
      }
      out[m] *= a[k * n + k];
      for (std::int64_t r = k + 1; r < n && a[k * n + k] != 0; ++r) {
        const double factor = a[r * n + k] / a[k * n + k];
        for (std::int64_t c = k + 1; c < n; ++c) a[r * n + c] -= factor * a[k * n + c];
      }
    }
  }
  return one_output(from_doubles(ctx, x.dtype(), dims, out));
}

}  // namespace

void register_signal_dft(Registry& registry) {
  registry.add("", "DFT", dft);
  registry.add("", "STFT", stft);
  registry.add("", "Det", det);
}

}  // namespace saturate
