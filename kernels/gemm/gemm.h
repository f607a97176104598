// Matrix products. Matrices are given by pointer, row stride and column stride, so that transposed ones need no copy by the caller.
// Method: B in panels of the micro-kernel's width, k in blocks, rows of A broadcast. Source: Goto and van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication", 2008; here A is not packed.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/core/kernel.h"
#include "kernels/core/wrapping.h"

namespace saturate {

template <typename T>
struct MatrixView {
  const T* data = nullptr;
  std::int64_t row_stride = 0, col_stride = 1;
};

// Where a product goes: rows of adjacent elements, `step` from one to the next. What was there is overwritten.
template <typename T>
struct MatrixRows {
  T* data = nullptr;
  std::int64_t step = 0;
};

// C has m rows and n columns, each element of it is a sum of k products.
struct GemmSize {
  std::int64_t m = 0, n = 0, k = 0;
};

// A rectangle of C: rows, and panels of B as wide as a tile.
struct TileRange {
  std::int64_t row_begin = 0, row_end = 0, panel_begin = 0, panel_end = 0;
  std::int64_t rows() const { return row_end - row_begin; }
};

// What happens to an element of C while it is in a register: c = clip(c + bias[column] + residual[row][column]), NaN kept.
struct TileFinish {
  const float* bias = nullptr;      // null: none
  const float* residual = nullptr;  // null: none
  std::int64_t residual_step = 0;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
};

// One tile: C[rows, cols] (+)= A[rows, k] B[k, cols], rows <= mr, cols <= nr; columns of A and of B adjacent.
struct TileCall {
  int rows, cols;
  std::int64_t k;
  const float* a;
  std::int64_t lda;
  const float* b;
  std::int64_t ldb;
  float* c;
  std::int64_t ldc;
  bool accumulate;
  const TileFinish* finish;      // null: none; its pointers are at the tile's first element
  const float* ahead = nullptr;  // what later tiles read, 16 floats each step of k; null: nothing
  // Where not null, rows of A lie in pieces: element p of row r at taps[r * tap_step + p / piece][p % piece]; a and lda are not read.
  const float* const* taps = nullptr;
  std::int64_t tap_step = 0, piece = 0;
  const float* row(int r, std::int64_t part) const { return taps == nullptr ? a + r * lda : taps[r * tap_step + part]; }
};
struct GemmKernel {
  int mr = 0, nr = 0;
  void (*tile)(const TileCall& call) = nullptr;
  int narrow_mr = mr, narrow_nr = 0;  // at most this many rows where there are at most narrow_nr columns and no taps
  int rows(std::int64_t cols, bool taps) const { return !taps && cols <= narrow_nr ? narrow_mr : mr; }
};
GemmKernel gemm_kernel_portable();
GemmKernel gemm_kernel_avx2();
GemmKernel gemm_kernel_avx512();
// The best that this processor has.
const GemmKernel& gemm_kernel();
// to[p * nr + j] = b[p + j * col_stride], p < k, j < cols; col_stride below 2^26.
void pack_transposed_avx512(std::int64_t k, std::int64_t cols, const float* b, std::int64_t col_stride, std::int64_t nr, float* to);

// Floats that begin where a cache line does: a vector that straddles two lines is read twice.
struct FreeFloats {
  void operator()(float* p) const { std::free(p); }
};
using AlignedFloats = std::unique_ptr<float[], FreeFloats>;
AlignedFloats aligned_floats(std::int64_t n);  // not initialized

struct PackedMatrix {
  std::int64_t k = 0, n = 0;
  AlignedFloats panels;   // [ceil(n / nr)][k][nr], the last panel padded with zeros
  std::int64_t room = 0;  // of `panels`, in floats
};
PackedMatrix pack_matrix(std::int64_t k, std::int64_t n, MatrixView<float> b);  // b may begin at any address
void pack_matrix(std::int64_t k, std::int64_t n, MatrixView<float> b,
                 PackedMatrix& packed);  // in the memory that it has, where that suffices

// Rows of A in pieces that lie anywhere, e.g. the windows of a convolution, one piece a tap: where the pieces of rows [begin, end) begin, k
// / piece a row.
struct ScatteredRows {
  std::int64_t piece = 0;
  std::function<void(std::int64_t begin, std::int64_t end, const float** to)> fill;
};
// What happens to C as it is finished. `rest`, where not empty, is called once for every rectangle: rows [r0, r1) and columns [c0, c1).
// That is after the additions and the clip, while the rectangle is in the first-level cache.
struct GemmFinish {
  TileFinish tile;
  std::function<void(std::int64_t r0, std::int64_t r1, std::int64_t c0, std::int64_t c1)> rest;
};

// The sum of products of two rows, in any order.
float dot_floats(const float* x, const float* y, std::int64_t n);

// C = A B. Parallel as the context allows.
void gemm_packed(const KernelContext& ctx, std::int64_t m, MatrixView<float> a, const PackedMatrix& b, MatrixRows<float> c,
                 const GemmFinish& finish = {});
// The same with the panels anywhere, laid out as pack_matrix lays them out.
void gemm_panels(const KernelContext& ctx, GemmSize size, MatrixView<float> a, const float* panels, MatrixRows<float> c,
                 const GemmFinish& finish = {});
void gemm_scattered(const KernelContext& ctx, std::int64_t m, const ScatteredRows& a, const PackedMatrix& b, MatrixRows<float> c,
                    const GemmFinish& finish = {});
// Of a B that is packed for this once some columns are at a time.
void gemm(const KernelContext& ctx, GemmSize size, MatrixView<float> a, MatrixView<float> b, MatrixRows<float> c);
void gemm(const KernelContext& ctx, GemmSize size, MatrixView<double> a, MatrixView<double> b, MatrixRows<double> c);

// Of 16-bit floats, in float: of B some columns are converted at a time.
template <typename T>
void gemm_through_floats(const KernelContext& ctx, GemmSize size, MatrixView<T> a, MatrixView<T> b, MatrixRows<T> c);
extern template void gemm_through_floats(const KernelContext&, GemmSize, MatrixView<Half>, MatrixView<Half>, MatrixRows<Half>);
extern template void gemm_through_floats(const KernelContext&, GemmSize, MatrixView<BFloat16>, MatrixView<BFloat16>, MatrixRows<BFloat16>);

// The same by plain loops for any element type; sums in Accumulator<T>.
template <typename T>
void gemm_reference(GemmSize size, MatrixView<T> a, MatrixView<T> b, MatrixRows<T> c) {
  const auto [m, n, k] = size;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      using A = Accumulator<T>;
      A sum = 0;
      const T* x = a.data + i * a.row_stride;
      const T* y = b.data + j * b.col_stride;
      for (std::int64_t p = 0; p < k; ++p)
        sum = added(sum, multiplied(static_cast<A>(x[p * a.col_stride]), static_cast<A>(y[p * b.row_stride])));
      c.data[i * c.step + j] = static_cast<T>(sum);
    }
  }
}

// Element type T by the fastest way the context allows: floats as above, 16-bit floats through float, the rest by plain loops.
template <typename T>
void gemm_any(const KernelContext& ctx, GemmSize size, MatrixView<T> a, MatrixView<T> b, MatrixRows<T> c) {
  if (ctx.options.reference) return gemm_reference(size, a, b, c);
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    gemm(ctx, size, a, b, c);
  } else if constexpr (is_small_float_v<T>) {
    gemm_through_floats(ctx, size, a, b, c);
  } else {
    gemm_reference(size, a, b, c);
  }
}

}  // namespace saturate
