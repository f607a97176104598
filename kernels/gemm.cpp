#include "kernels/gemm.h"

#include <Eigen/Core>
#include <algorithm>

namespace saturate {
namespace {

constexpr std::int64_t kBlock = 288;      // of k: a block of a panel stays in the second-level cache
constexpr std::int64_t kBlockRows = 288;  // of A: a block of them too
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

struct Product {
  std::int64_t m, n, k;
  const float* a;
  std::int64_t lda;
  const RowSource* rows;  // where not null, it makes the rows of A
  Panels b;
  float* c;
  std::int64_t ldc;
  const GemmFinish* finish;
};

// Pieces of at most `most`, about equal, in multiples of `step`: a short last one would read all of the other operand for little.
std::int64_t even_piece(std::int64_t n, std::int64_t most, std::int64_t step) {
  const std::int64_t pieces = std::max<std::int64_t>(1, (n + most - 1) / most), piece = (n + pieces - 1) / pieces;
  return std::max<std::int64_t>(step, (piece + step - 1) / step * step);
}

void run_block(const GemmKernel& kernel, std::int64_t row_begin, std::int64_t row_end, std::int64_t panel_begin, std::int64_t panel_end,
               const Product& p) {
  // Rows of A far apart cost a page each: where several panels read them, a block is copied together.
  const bool gather = p.rows != nullptr || (p.lda > 2 * kBlock && panel_end - panel_begin > 2 && row_end - row_begin > kernel.mr);
  const std::int64_t block_rows = even_piece(row_end - row_begin, kBlockRows, kernel.mr);
  // Few rows read B once: the longer the run the better.
  const std::int64_t block_depth =
      !gather && row_end - row_begin <= kernel.mr ? std::max<std::int64_t>(1, p.k) : even_piece(p.k, kBlock, 1);
  std::vector<float> block(gather ? static_cast<std::size_t>(block_rows * block_depth) : 0);
  for (std::int64_t r0 = row_begin; r0 < row_end; r0 += block_rows) {
    const std::int64_t r1 = std::min(row_end, r0 + block_rows);
    for (std::int64_t k0 = 0; k0 < p.k || k0 == 0; k0 += block_depth) {
      const std::int64_t depth = std::min(block_depth, p.k - k0);
      const float* from = gather ? nullptr : p.a + r0 * p.lda + k0;
      std::int64_t step = p.lda;
      if (gather) {
        if (p.rows != nullptr) {
          (*p.rows)(r0, r1, k0, depth, block.data(), block_depth);
        } else {
          for (std::int64_t i = r0; i < r1; ++i) std::copy_n(p.a + i * p.lda + k0, depth, block.data() + (i - r0) * block_depth);
        }
        from = block.data();
        step = block_depth;
      }
      for (std::int64_t panel = panel_begin; panel < panel_end; ++panel) {
        const int cols = static_cast<int>(std::min<std::int64_t>(kernel.nr, p.n - panel * kernel.nr));
        const float* pb = p.b.data + panel * p.b.panel_step + k0 * p.b.ldb;
        for (std::int64_t i = r0; i < r1; i += kernel.mr) {
          const int rows = static_cast<int>(std::min<std::int64_t>(kernel.mr, r1 - i));
          kernel.tile(rows, cols, depth, from + (i - r0) * step, step, pb, p.b.ldb, p.c + i * p.ldc + panel * kernel.nr, p.ldc, k0 > 0);
        }
      }
    }
    if (p.finish != nullptr && *p.finish) (*p.finish)(r0, r1, panel_begin * kernel.nr, std::min(p.n, panel_end * kernel.nr));
  }
}

// Tasks are rectangles of C: chunks of rows over all panels where there are many rows, else runs of panels over all rows.
void run_panels(const KernelContext& ctx, const Product& p) {
  if (p.m == 0 || p.n == 0) return;
  const GemmKernel& kernel = gemm_kernel();
  const std::int64_t panels = (p.n + kernel.nr - 1) / kernel.nr;
  if (ctx.options.threads == 1 || 2 * p.m * p.n * p.k < 2 * kTaskFlops) return run_block(kernel, 0, p.m, 0, panels, p);
  if (p.m >= 4 * kBlockRows || panels < 4) {
    const std::int64_t chunk =
        p.m >= 4 * kBlockRows ? kBlockRows : std::max<std::int64_t>(kernel.mr, (p.m + 3) / 4 / kernel.mr * kernel.mr);
    parallel_for(ctx, (p.m + chunk - 1) / chunk, 1,
                 [&](std::int64_t begin, std::int64_t end) { run_block(kernel, begin * chunk, std::min(p.m, end * chunk), 0, panels, p); });
    return;
  }
  const std::int64_t run = std::clamp<std::int64_t>(panels / 16, 1, 4);
  parallel_for(ctx, (panels + run - 1) / run, 1,
               [&](std::int64_t begin, std::int64_t end) { run_block(kernel, 0, p.m, begin * run, std::min(panels, end * run), p); });
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

void gemm_packed(const KernelContext& ctx, std::int64_t m, MatrixView<float> a, const PackedMatrix& b, float* c, std::int64_t ldc,
                 const GemmFinish& finish) {
  const RowMajor rows(m, b.k, a);
  const std::int64_t nr = gemm_kernel().nr;
  run_panels(ctx, {m, b.n, b.k, rows.data, rows.lda, nullptr, {b.panels.get(), nr, nr * b.k}, c, ldc, &finish});
}

void gemm_rows(const KernelContext& ctx, std::int64_t m, const RowSource& a, const PackedMatrix& b, float* c, std::int64_t ldc,
               const GemmFinish& finish) {
  const std::int64_t nr = gemm_kernel().nr;
  run_panels(ctx, {m, b.n, b.k, nullptr, 0, &a, {b.panels.get(), nr, nr * b.k}, c, ldc, &finish});
}

void gemm(const KernelContext& ctx, std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<float> a, MatrixView<float> b, float* c,
          std::int64_t ldc) {
  if (b.col_stride != 1 || m >= kPackRows) return gemm_packed(ctx, m, a, pack_matrix(k, n, b), c, ldc);
  const RowMajor rows(m, k, a);
  run_panels(ctx, {m, n, k, rows.data, rows.lda, nullptr, {b.data, b.row_stride, gemm_kernel().nr}, c, ldc, nullptr});
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
