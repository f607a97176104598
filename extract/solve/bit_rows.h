// A square matrix of bits, a row per class.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace saturate {

class BitRows {
 public:
  BitRows(std::size_t rows, std::size_t columns) : words_((columns + 63) / 64), bits_(rows * words_) {}
  static std::size_t bytes(std::size_t rows, std::size_t columns) { return rows * ((columns + 63) / 64) * 8; }
  std::span<std::uint64_t> row(std::size_t r) { return {bits_.data() + r * words_, words_}; }
  std::span<const std::uint64_t> row(std::size_t r) const { return {bits_.data() + r * words_, words_}; }
  std::size_t words() const { return words_; }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

inline bool has_bit(std::span<const std::uint64_t> row, std::uint32_t bit) { return row[bit / 64] >> (bit % 64) & 1; }
inline void set_bit(std::span<std::uint64_t> row, std::uint32_t bit) { row[bit / 64] |= std::uint64_t{1} << (bit % 64); }

template <class Visit>
void for_each_bit(std::span<const std::uint64_t> row, Visit visit) {
  for (std::size_t w = 0; w < row.size(); ++w)
    for (std::uint64_t rest = row[w]; rest; rest &= rest - 1)
      visit(static_cast<std::uint32_t>(w * 64 + static_cast<std::size_t>(std::countr_zero(rest))));
}

}  // namespace saturate
