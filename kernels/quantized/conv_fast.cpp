#include "kernels/quantized/conv_fast.h"

#include <algorithm>
#include <array>
#include <new>

#include "kernels/quantized/fast.h"
#include "kernels/quantized/util.h"

namespace saturate {
namespace {

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

}  // namespace

// Every filter over its channel: the weights of 64 channels by pairs of taps, and their sums.
struct ByteConv::Depthwise {
  std::int64_t pairs;
  std::vector<std::int16_t> weights;  // [panels][pairs][64][2]
  std::vector<std::int32_t> sums;     // [panels][64]
};

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
  if (depthwise) {
    if (ctx.is_constant(weight) && (w_zero == nullptr || ctx.is_constant(weight + 2)))
      conv.depthwise_ = ctx.prepared<Depthwise>([&] { return conv.depthwise_weights(); });
    if (conv.depthwise_ == nullptr) conv.depthwise_ = std::make_shared<const Depthwise>(conv.depthwise_weights());
    return std::optional(std::move(conv));
  }
  if (ctx.is_constant(weight)) conv.packed_ = ctx.prepared<PackedBytes>([&] { return pack_filters(w); });
  if (conv.packed_ == nullptr) conv.packed_ = std::make_shared<const PackedBytes>(pack_filters(w));
  return std::optional(std::move(conv));
}

void ByteConv::run(const KernelContext& ctx, const std::function<void(const Sums&)>& finish) const {
  packed_ == nullptr ? run_depthwise(ctx, finish) : run_product(ctx, finish);
}

// The images made unsigned, channels last, and room to read 64 bytes from any channel on.
std::shared_ptr<std::byte> ByteConv::images_channels_last(const KernelContext& ctx) const {
  constexpr std::int64_t kStripe = 256, kTaskBytes = 1 << 15;  // of positions
  const std::int64_t positions = window_.input_size(), image = channels_ * positions, stripes = (positions + kStripe - 1) / kStripe;
  const std::shared_ptr<std::byte> last = ctx.host.buffer(static_cast<std::size_t>(x_->size() + kDepthwiseChannels));
  if (last == nullptr) throw std::bad_alloc();
  auto* to = reinterpret_cast<std::uint8_t*>(last.get());
  std::fill_n(to + x_->size(), kDepthwiseChannels, std::uint8_t{0});
  parallel_for(ctx, dims_[0] * stripes, std::max<std::int64_t>(1, kTaskBytes / (kStripe * channels_)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t s = begin; s < end; ++s) {
                   const std::int64_t first = s % stripes * kStripe, count = std::min(kStripe, positions - first);
                   const std::uint8_t* from = bytes_of(*x_) + s / stripes * image + first;
                   std::uint8_t* y = to + s / stripes * image + first * channels_;
                   transpose_bytes(from, channels_, count, positions, y, channels_);
                   if (x_->dtype() == DType::kInt8) flip_signs(y, channels_ * count, y);
                 }
               });
  return last;
}

// Gives `f` where each tap's channels lie, null where it is padding.
template <typename F>
void ByteConv::for_each_tap(std::int64_t position, const std::uint8_t* image, F&& f) const {
  const Window& w = window_;
  const std::int64_t y0 = position / w.output[1] * w.strides[0] - w.pad_begin[0],
                     x0 = position % w.output[1] * w.strides[1] - w.pad_begin[1];
  for (std::int64_t i = 0; i < w.kernel[0]; ++i) {
    const std::int64_t y = y0 + i * w.dilations[0];
    for (std::int64_t j = 0; j < w.kernel[1]; ++j) {
      const std::int64_t x = x0 + j * w.dilations[1];
      f(y >= 0 && y < w.input[0] && x >= 0 && x < w.input[1] ? image + (y * w.input[1] + x) * channels_ : nullptr);
    }
  }
}

void ByteConv::run_product(const KernelContext& ctx, const std::function<void(const Sums&)>& finish) const {
  const Window& w = window_;
  const std::int64_t channels = channels_, images = dims_[0], plane = w.output_size(), image_size = channels * w.input_size();
  const std::shared_ptr<std::byte> store = images_channels_last(ctx);
  const auto* last = reinterpret_cast<const std::uint8_t*>(store.get());
  const auto fill = [&](std::int64_t begin, std::int64_t end, std::uint8_t* to, std::int64_t step) {
    for (std::int64_t r = begin; r < end; ++r, to += step) {
      std::uint8_t* out = to;
      for_each_tap(r % plane, last + r / plane * image_size, [&](const std::uint8_t* tap) {
        if (tap != nullptr)
          std::copy_n(tap, channels, out);
        else
          std::fill_n(out, channels, static_cast<std::uint8_t>(x_zero_));
        out += channels;
      });
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

ByteConv::Depthwise ByteConv::depthwise_weights() const {
  const std::int64_t taps = window_.kernel_size(), pairs = (taps + 1) / 2,
                     panels = (channels_ + kDepthwiseChannels - 1) / kDepthwiseChannels;
  const bool flip = w_->dtype() == DType::kUint8;
  Depthwise d{pairs, std::vector<std::int16_t>(static_cast<std::size_t>(panels * pairs * kDepthwiseChannels * 2)),
              std::vector<std::int32_t>(static_cast<std::size_t>(panels * kDepthwiseChannels))};
  for (std::int64_t f = 0; f < channels_; ++f) {
    const std::int32_t zero = w_zero_[w_zero_.size() == 1 ? 0 : static_cast<std::size_t>(f)];
    const std::int64_t panel = f / kDepthwiseChannels, lane = f % kDepthwiseChannels;
    for (std::int64_t t = 0; t < taps; ++t) {
      const auto code = static_cast<std::uint8_t>(bytes_of(*w_)[f * taps + t] ^ (flip ? 0x80 : 0));
      const std::int32_t weight = static_cast<std::int8_t>(code) - zero;
      d.weights[static_cast<std::size_t>(((panel * pairs + t / 2) * kDepthwiseChannels + lane) * 2 + t % 2)] =
          static_cast<std::int16_t>(weight);
      d.sums[static_cast<std::size_t>(f)] += weight;
    }
  }
  return d;
}

void ByteConv::run_depthwise(const KernelContext& ctx, const std::function<void(const Sums&)>& finish) const {
  const std::int64_t plane = window_.output_size(), image_size = channels_ * window_.input_size();
  const std::int64_t tiles = (plane + kMostByteRows - 1) / kMostByteRows;
  const std::shared_ptr<std::byte> store = images_channels_last(ctx);
  const auto* last = reinterpret_cast<const std::uint8_t*>(store.get());
  const std::vector<std::uint8_t> padding(static_cast<std::size_t>(channels_ + kDepthwiseChannels), static_cast<std::uint8_t>(x_zero_));
  const Depthwise& by = *depthwise_;
  std::vector<std::int32_t> start(by.sums.size());
  std::transform(by.sums.begin(), by.sums.end(), start.begin(), [&](std::int32_t sum) { return -x_zero_ * sum; });
  const auto run_tile = [&](std::int64_t image, std::int64_t position, std::span<const std::uint8_t*> from, std::int32_t* sums) {
    const int rows = static_cast<int>(std::min<std::int64_t>(kMostByteRows, plane - position));
    for (int r = 0; r < rows; ++r) {
      auto next = from.begin() + r * 2 * by.pairs;
      for_each_tap(position + r, last + image * image_size,
                   [&](const std::uint8_t* tap) { *next++ = tap == nullptr ? padding.data() : tap; });
    }
    for (std::int64_t c = 0; c < channels_; c += kDepthwiseChannels) {
      for (int r = 0; r < rows; ++r)
        sum_weighted_bytes(from.data() + r * 2 * by.pairs, by.pairs, c, by.weights.data() + 2 * by.pairs * c, start.data() + c,
                           sums + r * kBytePanel);
      finish({image, position, c, rows, static_cast<int>(std::min<std::int64_t>(kDepthwiseChannels, channels_ - c)), sums});
    }
  };
  const std::int64_t work = kMostByteRows * 2 * by.pairs * channels_;  // of a tile
  parallel_for(ctx, dims_[0] * tiles, std::max<std::int64_t>(1, (1 << 16) / work), [&](std::int64_t begin, std::int64_t end) {
    std::vector<const std::uint8_t*> from(static_cast<std::size_t>(kMostByteRows * 2 * by.pairs), padding.data());
    std::array<std::int32_t, kMostByteRows * kBytePanel> sums;
    for (std::int64_t t = begin; t < end; ++t) run_tile(t / tiles, t % tiles * kMostByteRows, from, sums.data());
  });
}

}  // namespace saturate
