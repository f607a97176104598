#include "kernels/image/inflate.h"

#include <array>

namespace saturate {
namespace {

class Bits {
 public:
  explicit Bits(std::span<const std::uint8_t> data) : data_(data) {}
  // Past the end: zeros, and failed().
  std::uint32_t take(int n) {
    std::uint32_t out = 0;
    for (int k = 0; k < n; ++k, ++at_) {
      if ((at_ >> 3) < data_.size())
        out |= static_cast<std::uint32_t>((data_[at_ >> 3] >> (at_ & 7)) & 1) << k;
      else
        failed_ = true;
    }
    return out;
  }
  void to_byte() { at_ = (at_ + 7) & ~std::size_t{7}; }
  bool failed() const { return failed_; }

 private:
  std::span<const std::uint8_t> data_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

// Canonical Huffman codes: how many codes have each length, and the symbols in order of their codes.
struct Huffman {
  std::array<int, 16> count{};
  std::vector<int> symbols;

  explicit Huffman(std::span<const std::uint8_t> lengths) {
    for (std::uint8_t n : lengths) ++count[n];
    count[0] = 0;
    for (int length = 1; length < 16; ++length) {
      for (std::size_t s = 0; s < lengths.size(); ++s) {
        if (lengths[s] == length) symbols.push_back(static_cast<int>(s));
      }
    }
  }
  // -1: no such code.
  int next(Bits& bits) const {
    int code = 0, first = 0, index = 0;
    for (int length = 1; length < 16; ++length) {
      code |= static_cast<int>(bits.take(1));
      if (code - first < count[length]) {
        const auto at = static_cast<std::size_t>(index + code - first);
        return code >= first && at < symbols.size() ? symbols[at] : -1;
      }
      index += count[length];
      first = (first + count[length]) << 1;
      code <<= 1;
    }
    return -1;
  }
};

constexpr int kLengthBase[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr int kLengthBits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr int kDistanceBase[30] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
                                   193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr int kDistanceBits[30] = {0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

bool stored_block(Bits& bits, std::vector<std::uint8_t>& out, std::size_t limit) {
  bits.to_byte();
  const std::uint32_t length = bits.take(16), inverse = bits.take(16);
  if ((length ^ inverse) != 0xffff || bits.failed() || length > limit - out.size()) return false;
  for (std::uint32_t k = 0; k < length; ++k) out.push_back(static_cast<std::uint8_t>(bits.take(8)));
  return !bits.failed();
}

bool coded_block(Bits& bits, const Huffman& literals, const Huffman& distances, std::vector<std::uint8_t>& out, std::size_t limit) {
  while (!bits.failed()) {
    const int symbol = literals.next(bits);
    if (symbol == 256) return true;
    if (symbol < 0 || symbol > 285 || out.size() >= limit) return false;
    if (symbol < 256) {
      out.push_back(static_cast<std::uint8_t>(symbol));
      continue;
    }
    const std::size_t length = static_cast<std::size_t>(kLengthBase[symbol - 257]) + bits.take(kLengthBits[symbol - 257]);
    const int code = distances.next(bits);
    if (code < 0 || code > 29) return false;
    const std::size_t distance = static_cast<std::size_t>(kDistanceBase[code]) + bits.take(kDistanceBits[code]);
    if (distance > out.size() || length > limit - out.size()) return false;
    for (std::size_t k = 0; k < length; ++k) out.push_back(out[out.size() - distance]);  // may overlap what it writes
  }
  return false;
}

bool dynamic_block(Bits& bits, std::vector<std::uint8_t>& out, std::size_t limit) {
  constexpr int kOrder[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  const std::size_t literals = bits.take(5) + 257, distances = bits.take(5) + 1, codes = bits.take(4) + 4;
  std::array<std::uint8_t, 19> code_lengths{};
  for (std::size_t k = 0; k < codes; ++k) code_lengths[static_cast<std::size_t>(kOrder[k])] = static_cast<std::uint8_t>(bits.take(3));
  const Huffman lengths_code(code_lengths);
  std::vector<std::uint8_t> lengths;
  while (lengths.size() < literals + distances && !bits.failed()) {
    const int symbol = lengths_code.next(bits);
    if (symbol < 0 || (symbol == 16 && lengths.empty())) return false;
    if (symbol < 16) {
      lengths.push_back(static_cast<std::uint8_t>(symbol));
      continue;
    }
    const std::uint8_t value = symbol == 16 ? lengths.back() : std::uint8_t{0};
    const std::uint32_t times = symbol == 16 ? 3 + bits.take(2) : symbol == 17 ? 3 + bits.take(3) : 11 + bits.take(7);
    lengths.insert(lengths.end(), times, value);
  }
  if (bits.failed() || lengths.size() != literals + distances) return false;
  const std::span<const std::uint8_t> all(lengths);
  return coded_block(bits, Huffman(all.first(literals)), Huffman(all.subspan(literals)), out, limit);
}

bool fixed_block(Bits& bits, std::vector<std::uint8_t>& out, std::size_t limit) {
  std::array<std::uint8_t, 288> literals{};
  for (std::size_t s = 0; s < literals.size(); ++s) literals[s] = s < 144 ? 8 : s < 256 ? 9 : s < 280 ? 7 : 8;
  std::array<std::uint8_t, 30> distances{};
  distances.fill(5);
  return coded_block(bits, Huffman(literals), Huffman(distances), out, limit);
}

}  // namespace

std::optional<std::vector<std::uint8_t>> inflate_zlib(std::span<const std::uint8_t> stream, std::size_t limit) {
  if (stream.size() < 2 || (stream[0] & 15) != 8 || (stream[0] * 256 + stream[1]) % 31 != 0 || (stream[1] & 32) != 0) return std::nullopt;
  Bits bits(stream.subspan(2));
  std::vector<std::uint8_t> out;
  bool last = false;
  while (!last) {
    last = bits.take(1) != 0;
    const std::uint32_t kind = bits.take(2);
    const bool fine = kind == 0   ? stored_block(bits, out, limit)
                      : kind == 1 ? fixed_block(bits, out, limit)
                                  : kind == 2 && dynamic_block(bits, out, limit);
    if (!fine || bits.failed()) return std::nullopt;
  }
  return out;
}

}  // namespace saturate
