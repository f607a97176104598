#include "kernels/gemm.h"

#include <Eigen/Core>
#include <algorithm>

namespace saturate {
namespace {

constexpr std::int64_t kBlock = 256;      // of k: a block of a panel stays in the second-level cache
constexpr std::int64_t kBlockRows = 192;  // of A: a block of them too
constexpr std::int64_t kPackRows = 24;    // fewer rows do not pay for packing B
constexpr std::int64_t kTaskFlops = 1 << 20;

void tile_portable(int rows, int cols, std::int64_t k, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float* c,
                   std::int64_t ldc, bool accumulate) {
  for (int r = 0; r < rows; ++r) {
    float sum[16] = {};
    for (std::int64_t p = 0; p < k; ++p) {
      const float x = a[r * lda + p];
      for (int j = 0; j < cols; ++j) sum[j] += x * b[p * ldb + j];
    }
    for (int j = 0; j < cols; ++j) c[r * ldc + j] = accumulate ? c[r * ldc + j] + sum[j] : sum[j];
  }
}

// Where the panels of B lie: packed ones follow each other, unpacked ones are columns of the matrix itself.
struct Panels {
  const float* data;
  std::int64_t ldb, panel_step;
};

void run_block(const GemmKernel& kernel, std::int64_t row_begin, std::int64_t row_end, std::int64_t panel_begin, std::int64_t panel_end,
               std::int64_t n, std::int64_t k, const float* a, std::int64_t lda, const Panels& b, float* c, std::int64_t ldc) {
  // Rows of A far apart cost a page each: where several panels read them, a block is copied together.
  const bool gather = lda > 2 * kBlock && panel_end - panel_begin > 2;
  std::vector<float> block(gather ? static_cast<std::size_t>(kBlockRows * kBlock) : 0);
  for (std::int64_t k0 = 0; k0 < k || k0 == 0; k0 += kBlock) {
    const std::int64_t depth = std::min(kBlock, k - k0);
    for (std::int64_t r0 = row_begin; r0 < row_end; r0 += kBlockRows) {
      const std::int64_t r1 = std::min(row_end, r0 + kBlockRows);
      const float* from = a + r0 * lda + k0;
      std::int64_t step = lda;
      if (gather) {
        for (std::int64_t i = r0; i < r1; ++i) std::copy_n(a + i * lda + k0, depth, block.data() + (i - r0) * kBlock);
        from = block.data();
        step = kBlock;
      }
      for (std::int64_t panel = panel_begin; panel < panel_end; ++panel) {
        const int cols = static_cast<int>(std::min<std::int64_t>(kernel.nr, n - panel * kernel.nr));
        const float* pb = b.data + panel * b.panel_step + k0 * b.ldb;
        for (std::int64_t i = r0; i < r1; i += kernel.mr) {
          const int rows = static_cast<int>(std::min<std::int64_t>(kernel.mr, r1 - i));
          kernel.tile(rows, cols, depth, from + (i - r0) * step, step, pb, b.ldb, c + i * ldc + panel * kernel.nr, ldc, k0 > 0);
        }
      }
    }
  }
}

// Tasks are rectangles of C: whole panels times chunks of rows, so that few panels still feed all threads.
void run_panels(const KernelContext& ctx, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda, const Panels& b,
                float* c, std::int64_t ldc) {
  if (m == 0 || n == 0) return;
  const GemmKernel& kernel = gemm_kernel();
  const std::int64_t panels = (n + kernel.nr - 1) / kernel.nr;
  const bool serial = ctx.options.threads == 1 || 2 * m * n * k < 2 * kTaskFlops;
  if (serial) return run_block(kernel, 0, m, 0, panels, n, k, a, lda, b, c, ldc);
  const std::int64_t row_chunk = std::max<std::int64_t>(kernel.mr, (m + 3) / 4 / kernel.mr * kernel.mr);
  const std::int64_t chunks = panels >= 8 ? 1 : (m + row_chunk - 1) / row_chunk;
  const std::int64_t step = chunks == 1 ? m : row_chunk;
  parallel_for(ctx, panels * chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t panel = t / chunks, row = t % chunks * step;
      run_block(kernel, row, std::min(m, row + step), panel, panel + 1, n, k, a, lda, b, c, ldc);
    }
  });
}

// A with adjacent columns; a transposed one is copied.
struct RowMajor {
  std::vector<float> copy;
  const float* data;
  std::int64_t lda;
  RowMajor(std::int64_t m, std::int64_t k, MatrixView<float> a) : data(a.data), lda(a.row_stride) {
    if (a.col_stride == 1 || k <= 1) return;
    copy.resize(static_cast<std::size_t>(m * k));
    for (std::int64_t p = 0; p < k; ++p) {
      for (std::int64_t i = 0; i < m; ++i) copy[static_cast<std::size_t>(i * k + p)] = a.data[i * a.row_stride + p * a.col_stride];
    }
    data = copy.data();
    lda = k;
  }
};

}  // namespace

GemmKernel gemm_kernel_portable() { return {4, 16, tile_portable}; }

const GemmKernel& gemm_kernel() {
  static const GemmKernel kernel = [] {
    if (__builtin_cpu_supports("avx512f")) return gemm_kernel_avx512();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return gemm_kernel_avx2();
    return gemm_kernel_portable();
  }();
  return kernel;
}

PackedMatrix pack_matrix(std::int64_t k, std::int64_t n, MatrixView<float> b) {
  const std::int64_t nr = gemm_kernel().nr, panels = (n + nr - 1) / nr;
  PackedMatrix packed{k, n, std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(panels * nr * k))};
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    const std::int64_t cols = std::min(nr, n - panel * nr);
    float* to = packed.panels.get() + panel * nr * k;
    if (cols < nr) std::fill_n(to, nr * k, 0.0f);
    const float* from = b.data + panel * nr * b.col_stride;
    if (b.col_stride == 1) {
      for (std::int64_t p = 0; p < k; ++p) std::copy_n(from + p * b.row_stride, cols, to + p * nr);
    } else {
      for (std::int64_t j = 0; j < cols; ++j) {
        for (std::int64_t p = 0; p < k; ++p) to[p * nr + j] = from[p * b.row_stride + j * b.col_stride];
      }
    }
  }
  return packed;
}

void gemm_packed(const KernelContext& ctx, std::int64_t m, MatrixView<float> a, const PackedMatrix& b, float* c, std::int64_t ldc) {
  const RowMajor rows(m, b.k, a);
  const std::int64_t nr = gemm_kernel().nr;
  run_panels(ctx, m, b.n, b.k, rows.data, rows.lda, {b.panels.get(), nr, nr * b.k}, c, ldc);
}

void gemm(const KernelContext& ctx, std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<float> a, MatrixView<float> b, float* c,
          std::int64_t ldc) {
  if (b.col_stride != 1 || m >= kPackRows) return gemm_packed(ctx, m, a, pack_matrix(k, n, b), c, ldc);
  const RowMajor rows(m, k, a);
  run_panels(ctx, m, n, k, rows.data, rows.lda, {b.data, b.row_stride, gemm_kernel().nr}, c, ldc);
}

void gemm(const KernelContext&, std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<double> a, MatrixView<double> b, double* c,
          std::int64_t ldc) {
  if (m == 0 || n == 0) return;
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Strided = Eigen::Map<const Matrix, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;
  const Strided left(a.data, m, k, {a.row_stride, a.col_stride}), right(b.data, k, n, {b.row_stride, b.col_stride});
  Eigen::Map<Matrix, 0, Eigen::OuterStride<>> out(c, m, n, Eigen::OuterStride<>(ldc));
  if (k == 0)
    out.setZero();
  else
    out.noalias() = left * right;
}

}  // namespace saturate
