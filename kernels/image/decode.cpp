// ImageDecoder (ONNX Operators) for BMP, PNG, PNM and TIFF without compression. JPEG, JPEG 2000 and WebP are refused by name.
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "kernels/image/util.h"
#include "kernels/tensor/util.h"

namespace saturate {
namespace {

using Bytes = std::span<const std::uint8_t>;

struct DecodedImage {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> rgb;
};

constexpr std::int64_t kWidest = 1 << 20;

std::uint32_t little(Bytes b, std::size_t at, int n) {
  std::uint32_t v = 0;
  for (int k = n; k-- > 0;) v = (v << 8) | (at + static_cast<std::size_t>(k) < b.size() ? b[at + static_cast<std::size_t>(k)] : 0u);
  return v;
}
std::uint32_t big(Bytes b, std::size_t at, int n) {
  std::uint32_t v = 0;
  for (int k = 0; k < n; ++k) v = (v << 8) | (at + static_cast<std::size_t>(k) < b.size() ? b[at + static_cast<std::size_t>(k)] : 0u);
  return v;
}
bool starts(Bytes b, std::string_view magic) { return b.size() >= magic.size() && std::memcmp(b.data(), magic.data(), magic.size()) == 0; }

// 24 or 32 bits a pixel, lines padded to four bytes, bottom line first unless the height is negative.
std::optional<DecodedImage> decode_bmp(Bytes b) {
  const std::size_t start = little(b, 10, 4), depth = little(b, 28, 2) / 8;
  const auto width = static_cast<std::int32_t>(little(b, 18, 4)), rows = static_cast<std::int32_t>(little(b, 22, 4));
  const std::int64_t height = std::abs(static_cast<std::int64_t>(rows));
  if (b.size() < 54 || (depth != 3 && depth != 4) || little(b, 30, 4) != 0 || width <= 0 || width > kWidest || height > kWidest)
    return std::nullopt;
  const std::size_t line = (static_cast<std::size_t>(width) * depth + 3) / 4 * 4;
  if (start > b.size() || (b.size() - start) / line < static_cast<std::size_t>(height)) return std::nullopt;
  DecodedImage image{height, width, {}};
  for (std::int64_t r = 0; r < height; ++r) {
    const std::uint8_t* p = b.data() + start + static_cast<std::size_t>(rows > 0 ? height - 1 - r : r) * line;
    for (std::int64_t c = 0; c < width; ++c, p += depth) image.rgb.insert(image.rgb.end(), {p[2], p[1], p[0]});
  }
  return image;
}

// P5 (grey) and P6 (colour), 8 bits.
std::optional<DecodedImage> decode_pnm(Bytes b) {
  std::size_t at = 2;
  const auto number = [&]() -> std::int64_t {
    while (at < b.size() && (b[at] == '#' || b[at] <= ' ')) {
      if (b[at] == '#') {
        while (at < b.size() && b[at] != '\n') ++at;
      } else {
        ++at;
      }
    }
    std::int64_t v = -1;
    while (at < b.size() && b[at] >= '0' && b[at] <= '9' && v <= kWidest) v = std::max<std::int64_t>(v, 0) * 10 + (b[at++] - '0');
    return v;
  };
  const std::size_t channels = b[1] == '6' ? 3 : 1;
  const std::int64_t width = number(), height = number(), top = number();
  ++at;
  if (width <= 0 || height <= 0 || width > kWidest || height > kWidest || top != 255) return std::nullopt;
  const std::size_t pixels = static_cast<std::size_t>(width * height);
  if (at > b.size() || b.size() - at < pixels * channels) return std::nullopt;
  DecodedImage image{height, width, {}};
  for (std::size_t p = 0; p < pixels; ++p) {
    const std::uint8_t* v = b.data() + at + p * channels;
    image.rgb.insert(image.rgb.end(), {v[0], v[channels == 3 ? 1 : 0], v[channels == 3 ? 2 : 0]});
  }
  return image;
}

int paeth(int left, int up, int corner) {
  const int guess = left + up - corner, a = std::abs(guess - left), b = std::abs(guess - up), c = std::abs(guess - corner);
  return a <= b && a <= c ? left : b <= c ? up : corner;
}

// 8 bits a channel, not interlaced: grey, colour, palette, with or without alpha (dropped).
std::optional<DecodedImage> decode_png(Bytes b, std::size_t limit) {
  std::vector<std::uint8_t> packed, palette;
  for (std::size_t at = 8; at + 12 <= b.size();) {
    const std::size_t length = big(b, at, 4);
    if (length > b.size() - at - 12) return std::nullopt;
    const Bytes body = b.subspan(at + 8, length);
    if (starts(b.subspan(at + 4), "IDAT")) packed.insert(packed.end(), body.begin(), body.end());
    if (starts(b.subspan(at + 4), "PLTE")) palette.assign(body.begin(), body.end());
    at += length + 12;
  }
  const std::int64_t width = big(b, 16, 4), height = big(b, 20, 4);
  const std::uint32_t depth = big(b, 24, 1), kind = big(b, 25, 1), interlaced = big(b, 28, 1);
  const std::size_t channels = kind == 0 || kind == 3 ? 1 : kind == 2 ? 3 : kind == 4 ? 2 : 4;
  if (depth != 8 || interlaced != 0 || kind == 1 || kind == 5 || kind > 6 || width <= 0 || height <= 0 || width > kWidest ||
      height > kWidest)
    return std::nullopt;
  const std::size_t line = static_cast<std::size_t>(width) * channels, total = (line + 1) * static_cast<std::size_t>(height);
  constexpr std::size_t kMostFromAByte = 1032;  // of deflate: few bytes must not make us allocate many
  if (total > limit || total / kMostFromAByte > packed.size()) return std::nullopt;
  std::vector<std::uint8_t> raw(total);
  uLongf made = total;
  if (uncompress(raw.data(), &made, packed.data(), packed.size()) != Z_OK || made != total) return std::nullopt;
  DecodedImage image{height, width, {}};
  std::vector<std::uint8_t> above(line, 0);
  for (std::int64_t r = 0; r < height; ++r) {
    std::uint8_t* row = raw.data() + static_cast<std::size_t>(r) * (line + 1);
    const std::uint8_t filter = *row++;
    for (std::size_t i = 0; i < line; ++i) {
      const int left = i >= channels ? row[i - channels] : 0, up = above[i], corner = i >= channels ? above[i - channels] : 0;
      const int add = filter == 1 ? left : filter == 2 ? up : filter == 3 ? (left + up) / 2 : filter == 4 ? paeth(left, up, corner) : 0;
      row[i] = static_cast<std::uint8_t>(row[i] + add);
    }
    above.assign(row, row + line);
    for (std::size_t c = 0; c < static_cast<std::size_t>(width); ++c) {
      const std::uint8_t* p = row + c * channels;
      if (kind == 3) {
        if (static_cast<std::size_t>(*p) * 3 + 2 >= palette.size()) return std::nullopt;
        p = palette.data() + static_cast<std::size_t>(*p) * 3;
      }
      const bool colour = kind != 0 && kind != 4;
      image.rgb.insert(image.rgb.end(), {p[0], p[colour ? 1 : 0], p[colour ? 2 : 0]});
    }
  }
  return image;
}

// Colour without compression, 8 bits, strips one after the other.
std::optional<DecodedImage> decode_tiff(Bytes b) {
  const bool is_little = b[0] == 'I';
  const auto number = [&](std::size_t at, int n) { return is_little ? little(b, at, n) : big(b, at, n); };
  const std::size_t directory = number(4, 4), count = number(directory, 2);
  std::int64_t width = 0, height = 0;
  std::size_t strips_at = 0, strips = 0, samples = 1, compression = 1, strip_kind = 4, rows_per_strip = ~std::size_t{0};
  for (std::size_t k = 0; k < count && directory + 2 + 12 * (k + 1) <= b.size(); ++k) {
    const std::size_t at = directory + 2 + 12 * k, tag = number(at, 2), kind = number(at + 2, 2), n = number(at + 4, 4),
                      value = number(at + 8, kind == 3 && n == 1 ? 2 : 4);
    if (tag == 256) width = static_cast<std::int64_t>(value);
    if (tag == 257) height = static_cast<std::int64_t>(value);
    if (tag == 259) compression = value;
    if (tag == 277) samples = value;
    if (tag == 278) rows_per_strip = value;
    if (tag == 273) {
      strips = n;
      strip_kind = kind == 3 ? 2 : 4;
      strips_at = n * strip_kind <= 4 ? at + 8 : value;
    }
  }
  if (compression != 1 || samples != 3 || strips == 0 || rows_per_strip == 0 || width <= 0 || height <= 0 || width > kWidest ||
      height > kWidest)
    return std::nullopt;
  DecodedImage image{height, width, {}};
  const std::size_t line = static_cast<std::size_t>(width) * 3;
  for (std::size_t r = 0; r < static_cast<std::size_t>(height); ++r) {
    const std::size_t strip = r / rows_per_strip;
    if (strip >= strips) return std::nullopt;
    const std::size_t from = number(strips_at + strip * strip_kind, static_cast<int>(strip_kind)) + r % rows_per_strip * line;
    if (from > b.size() || b.size() - from < line) return std::nullopt;
    image.rgb.insert(image.rgb.end(), b.begin() + static_cast<std::ptrdiff_t>(from), b.begin() + static_cast<std::ptrdiff_t>(from + line));
  }
  return image;
}

// Luma of ITU-R BT.601, in the fixed point that common decoders use.
std::uint8_t grey(const std::uint8_t* p) { return static_cast<std::uint8_t>((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16); }

Outputs image_decoder(KernelContext& ctx) {
  const Tensor& x = ctx.tensor(0);
  if (x.dtype() != DType::kUint8 || x.rank() != 1) return ctx.invalid("a vector of bytes is expected");
  const Bytes b = x.span<std::uint8_t>();
  std::optional<DecodedImage> image;
  if (starts(b, "BM"))
    image = decode_bmp(b);
  else if (starts(b, "P6") || starts(b, "P5"))
    image = decode_pnm(b);
  else if (starts(b, "\x89PNG\r\n\x1a\n"))
    image = decode_png(b, ctx.options.memory_limit);
  else if (starts(b, "II*") || starts(b, "MM"))
    image = decode_tiff(b);
  else
    return ctx.unsupported("this image format");
  if (!image) return ctx.invalid("the image is damaged or of a kind that is not supported");
  const std::string format = ctx.attr_s("pixel_format", "RGB");
  const std::size_t pixels = image->rgb.size() / 3;
  auto out = ctx.allocate(DType::kUint8, {image->height, image->width, format == "Grayscale" ? 1 : 3});
  if (!out.ok()) return out.status();
  auto* y = write<std::uint8_t>(*out);
  for (std::size_t p = 0; p < pixels; ++p) {
    const std::uint8_t* v = image->rgb.data() + p * 3;
    if (format == "Grayscale") {
      y[p] = grey(v);
    } else {
      for (std::size_t c = 0; c < 3; ++c) y[p * 3 + c] = v[format == "BGR" ? 2 - c : c];
    }
  }
  return outputs_of(*std::move(out));
}

}  // namespace

void register_image_decode(Registry& registry) { registry.add("", "ImageDecoder", image_decoder); }

}  // namespace saturate
