// Products of 8-bit integers, exact in 32-bit integers that wrap as ONNX's do. A is made unsigned and B signed (by ^ 0x80, which moves the
// zero point along), as the instructions want them: VPDPBUSD and TDPBUSD (Intel Software Developer's Manual, volume 2). Both are padded
// with zeros in k; B lies in panels of 64 columns, four neighbours of k together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/gemm/gemm.h"

namespace saturate {

inline constexpr int kBytePanel = 64;           // columns
inline constexpr std::int64_t kByteDepth = 64;  // k is padded to a multiple
inline constexpr int kMostByteRows = 32;        // of a tile

// c[r * 64 + j] = sum over p < depth of a[r * lda + p] * b[p / 4 * 256 + j * 4 + p % 4], j < 64.
struct ByteTile {
  int rows;
  std::int64_t depth;  // a multiple of kByteDepth
  const std::uint8_t* a;
  std::int64_t lda;
  const std::int8_t* b;
  std::int32_t* c;
  // What later tiles read of B, and how many bytes of it to ask for with every 64 of k.
  const std::int8_t* ahead = nullptr;
  std::int64_t ahead_step = 0;
};
struct ByteKernel {
  int rows = 0;  // at most this many a tile
  void (*tile)(const ByteTile& call) = nullptr;
};
ByteKernel byte_kernel_portable();
ByteKernel byte_kernel_avx2();
ByteKernel byte_kernel_vnni();
ByteKernel byte_kernel_amx();
bool amx_granted();  // whether this process may use AMX
// The kernels that this processor has, the best one last.
std::vector<ByteKernel> byte_kernels();
const ByteKernel& byte_kernel();

struct PackedBytes {
  std::int64_t k = 0, n = 0, depth = 0;
  AlignedFloats panels;                   // bytes: [ceil(n / 64)][depth / 4][64][4]
  std::vector<std::int32_t> column_sums;  // of B made signed, padded to whole panels
  bool was_unsigned = false;
  const std::int8_t* panel(std::int64_t i) const { return reinterpret_cast<const std::int8_t*>(panels.get()) + i * depth * kBytePanel; }
};
PackedBytes pack_bytes(std::int64_t k, std::int64_t n, const std::uint8_t* b, std::int64_t row_stride, std::int64_t col_stride,
                       bool is_signed);

// A[m, k]: rows [begin, end) made unsigned, to `to` with `step` bytes a row; its zero points (of A made unsigned), one for all rows or one
// a row.
struct ByteRows {
  std::int64_t m = 0;
  std::function<void(std::int64_t begin, std::int64_t end, std::uint8_t* to, std::int64_t step)> fill;
  std::span<const std::int32_t> zero;
};
// Given each finished rectangle of (A - zero)(B - zero): its first row and column, its size, and the values with 64 from row to row.
using ByteFinish = std::function<void(std::int64_t row, int rows, std::int64_t column, int columns, const std::int32_t* values)>;

// `b_zero`: of B made signed, one for all columns or one a column. Parallel as the context allows.
void byte_gemm(const KernelContext& ctx, const ByteRows& a, const PackedBytes& b, std::span<const std::int32_t> b_zero,
               const ByteFinish& finish);

}  // namespace saturate
