#include "kernels/quant_conv_fast.h"

#include <algorithm>
#include <array>

#include "kernels/quant_fast.h"

namespace saturate {
namespace {

bool is_byte(DType t) { return t == DType::kInt8 || t == DType::kUint8; }
const std::uint8_t* bytes_of(const Tensor& t) { return reinterpret_cast<const std::uint8_t*>(t.bytes().data()); }

// [filters, channels, taps] as a matrix of [taps, channels] rows and filters columns.
PackedBytes pack_filters(const Tensor& w) {
  const std::int64_t filters = w.dims()[0], channels = w.dims()[1], taps = w.dims()[2] * w.dims()[3];
  const std::uint8_t* from = bytes_of(w);
  std::vector<std::uint8_t> moved(static_cast<std::size_t>(w.size()));
  for (std::int64_t f = 0; f < filters; ++f)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t t = 0; t < taps; ++t)
        moved[static_cast<std::size_t>((f * taps + t) * channels + c)] = from[(f * channels + c) * taps + t];
  return pack_bytes(taps * channels, filters, moved.data(), 1, taps * channels, w.dtype() == DType::kInt8);
}

// [channels, positions] made unsigned as [positions, channels].
void channels_last(const std::uint8_t* x, std::int64_t channels, std::int64_t positions, bool flip, std::uint8_t* y) {
  transpose_bytes(x, channels, positions, positions, y, channels);
  if (flip) flip_signs(y, channels * positions, y);
}

}  // namespace

absl::StatusOr<std::optional<ByteConv>> ByteConv::make(const KernelContext& ctx, const Tensor& x, const Tensor* x_zero, std::size_t weight,
                                                       const Tensor* w_zero) {
  const Tensor& w = ctx.tensor(weight);
  if (ctx.options.reference || x.rank() != 4 || w.rank() != 4 || !is_byte(x.dtype()) || !is_byte(w.dtype()) || w.size() == 0 ||
      x.size() == 0)
    return std::nullopt;
  const std::int64_t groups = ctx.attr_i("group", 1), filters = w.dims()[0];
  const bool depthwise = groups > 1 && groups == filters && groups == x.dims()[1] && w.dims()[1] == 1;
  if ((groups != 1 && !depthwise) || x.dims()[1] != w.dims()[1] * groups) return std::nullopt;
  auto window = window_of(ctx, {x.dims()[2], x.dims()[3]}, {w.dims()[2], w.dims()[3]});
  if (!window.ok()) return window.status();
  ByteConv conv;
  conv.window_ = *std::move(window);
  conv.dims_ = {x.dims()[0], filters, conv.window_.output[0], conv.window_.output[1]};
  conv.x_ = &x;
  conv.w_ = &w;
  conv.channels_ = x.dims()[1];
  conv.x_zero_ = x.dtype() == DType::kInt8 ? 128 : 0;
  const std::int32_t moved = w.dtype() == DType::kUint8 ? -128 : 0;
  conv.w_zero_ = {moved};
  if (x_zero != nullptr) {
    const auto value = quantized_values(ctx, *x_zero);
    if (!value.ok()) return value.status();
    if (value->size() != 1) return std::nullopt;
    conv.x_zero_ += (*value)[0];
  }
  if (w_zero != nullptr) {
    auto values = quantized_values(ctx, *w_zero);
    if (!values.ok()) return values.status();
    if (values->size() != 1 && (w_zero->rank() != 1 || w_zero->size() != filters)) return std::nullopt;
    for (std::int32_t& v : *values) v += moved;
    conv.w_zero_ = *std::move(values);
  }
  if (depthwise) return std::optional(std::move(conv));
  if (ctx.is_constant(weight)) conv.packed_ = ctx.prepared<PackedBytes>([&] { return pack_filters(w); });
  if (conv.packed_ == nullptr) conv.packed_ = std::make_shared<const PackedBytes>(pack_filters(w));
  return std::optional(std::move(conv));
}

void ByteConv::run(const KernelContext& ctx, const std::function<void(const Sums&)>& finish) const {
  packed_ == nullptr ? run_depthwise(ctx, finish) : run_product(ctx, finish);
}

void ByteConv::run_product(const KernelContext& ctx, const std::function<void(const Sums&)>& finish) const {
  const Window& w = window_;
  const std::int64_t channels = channels_, height = w.input[0], width = w.input[1], images = dims_[0], plane = w.output_size();
  std::vector<std::uint8_t> last(static_cast<std::size_t>(x_->size()));
  parallel_for(ctx, images, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n)
      channels_last(bytes_of(*x_) + n * channels * height * width, channels, height * width, x_->dtype() == DType::kInt8,
                    last.data() + n * channels * height * width);
  });
  const auto fill = [&](std::int64_t begin, std::int64_t end, std::uint8_t* to, std::int64_t step) {
    for (std::int64_t r = begin; r < end; ++r, to += step) {
      const std::int64_t y0 = r % plane / w.output[1] * w.strides[0] - w.pad_begin[0], x0 = r % w.output[1] * w.strides[1] - w.pad_begin[1];
      const std::uint8_t* image = last.data() + r / plane * height * width * channels;
      std::uint8_t* out = to;
      for (std::int64_t i = 0; i < w.kernel[0]; ++i) {
        const std::int64_t y = y0 + i * w.dilations[0];
        for (std::int64_t j = 0; j < w.kernel[1]; ++j, out += channels) {
          const std::int64_t x = x0 + j * w.dilations[1];
          if (y >= 0 && y < height && x >= 0 && x < width)
            std::copy_n(image + (y * width + x) * channels, channels, out);
          else
            std::fill_n(out, channels, static_cast<std::uint8_t>(x_zero_));
        }
      }
    }
  };
  byte_gemm(ctx, {images * plane, fill, std::span(&x_zero_, 1)}, *packed_, w_zero_,
            [&](std::int64_t row, int rows, std::int64_t column, int columns, const std::int32_t* values) {
              for (int done = 0; done < rows;) {  // a tile may go on in the next image
                const std::int64_t position = (row + done) % plane;
                const int here = static_cast<int>(std::min<std::int64_t>(rows - done, plane - position));
                finish({(row + done) / plane, position, column, here, columns, values + done * kBytePanel});
                done += here;
              }
            });
}

// Every filter over its channel, 64 positions at a time given on.
void ByteConv::run_depthwise(const KernelContext& ctx, const std::function<void(const Sums&)>& finish) const {
  const Window& w = window_;
  const std::int64_t filters = dims_[1], plane = w.output_size(), inputs = w.input_size(), taps = w.kernel_size();
  const bool flip_x = x_->dtype() == DType::kInt8, flip_w = w_->dtype() == DType::kUint8;
  parallel_for(ctx, dims_[0] * filters, std::max<std::int64_t>(1, (1 << 16) / std::max<std::int64_t>(1, plane * taps)),
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<std::int32_t> sums(static_cast<std::size_t>(plane));
                 std::vector<std::uint8_t> image(static_cast<std::size_t>(inputs));
                 std::array<std::int32_t, kMostByteRows * kBytePanel> tile;
                 for (std::int64_t at = begin; at < end; ++at) {
                   const std::int64_t f = at % filters;
                   const std::uint8_t* x = bytes_of(*x_) + at * inputs;
                   if (flip_x) {
                     flip_signs(x, inputs, image.data());
                     x = image.data();
                   }
                   std::fill(sums.begin(), sums.end(), 0);
                   const std::int32_t w_zero = w_zero_[w_zero_.size() == 1 ? 0 : static_cast<std::size_t>(f)];
                   for (std::int64_t e = 0; e < taps; ++e) {
                     const auto code = static_cast<std::uint8_t>(bytes_of(*w_)[f * taps + e] ^ (flip_w ? 0x80 : 0));
                     const std::int32_t weight = static_cast<std::int8_t>(code) - w_zero;
                     for_each_window_run(w, e, [&](std::int64_t first, std::int64_t count, std::int64_t from, std::int64_t step) {
                       add_weighted_bytes(x + from, count, step, x_zero_, weight, sums.data() + first);
                     });
                   }
                   for (std::int64_t p = 0; p < plane; p += kMostByteRows) {
                     const int rows = static_cast<int>(std::min<std::int64_t>(kMostByteRows, plane - p));
                     for (int r = 0; r < rows; ++r) tile[static_cast<std::size_t>(r * kBytePanel)] = sums[static_cast<std::size_t>(p + r)];
                     finish({at / filters, p, f, rows, 1, tile.data()});
                   }
                 }
               });
}

}  // namespace saturate
