#include "kernels/gemm/gemm.h"

#include <sys/mman.h>

#include <Eigen/Core>
#include <algorithm>
#include <cstring>
#include <new>

#include "kernels/core/processor.h"
#include "kernels/core/team_scope.h"

namespace saturate {
namespace {

constexpr std::int64_t kBlockDepth = 768;         // of k: a piece of a panel stays in the second-level cache
constexpr std::int64_t kBlockRows = 288;          // of A, that read a panel one after another
constexpr std::int64_t kBlockFloats = 1 << 20;    // of A, copied together
constexpr std::int64_t kNearFloats = 1 << 18;     // of A, that stay in the second-level cache from one panel to the next
constexpr std::int64_t kGroupFloats = 1 << 17;    // of C, beside A and B there
constexpr std::int64_t kFarRows = 512;            // floats from one row to the next
constexpr std::int64_t kParts = 4;                // of a panel: what a tile can ask for, 16 floats each step of k
constexpr std::int64_t kPassingFloats = 1 << 20;  // of B, packed or converted for one product: weights may be as large as memory
constexpr std::int64_t kPackRows = 24;            // fewer rows do not pay for packing B
constexpr std::int64_t kCopyGrain = 1 << 16;      // elements that make up for waking another thread
constexpr std::int64_t kDotRows = 4;              // nor for packing a transposed one
constexpr std::int64_t kTaskFlops = 1 << 20;
constexpr std::int64_t kThreadRows = 96;  // of C: so many make up for reading all of B
constexpr std::int64_t kReadFlops = 40;   // what reading an element of B from memory takes as long as

void tile_portable(const TileCall& t) {
  for (int r = 0; r < t.rows; ++r) {
    float sum[16] = {};
    const std::int64_t piece = t.taps == nullptr ? t.k : t.piece;
    for (std::int64_t p = 0; p < t.k; ++p) {
      const float x = t.row(r, p / piece)[p % piece];
      for (int j = 0; j < t.cols; ++j) sum[j] += x * t.b[p * t.ldb + j];
    }
    for (int j = 0; j < t.cols; ++j) {
      float& c = t.c[r * t.ldc + j];
      c = t.accumulate ? c + sum[j] : sum[j];
      if (t.finish == nullptr) continue;
      if (t.finish->bias != nullptr) c += t.finish->bias[j];
      if (t.finish->residual != nullptr) c += t.finish->residual[r * t.finish->residual_step + j];
      c = c < t.finish->low ? t.finish->low : c > t.finish->high ? t.finish->high : c;
    }
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
  const ScatteredRows* scattered;  // where not null, it says where they lie
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

// The tile whose first element is C[row, column].
// (By reference: a copy of what has just been written waits for the writes.)
void run_tile(const GemmKernel& kernel, TileCall& call, const GemmFinish* finish, std::int64_t row, std::int64_t column) {
  if (finish == nullptr) return kernel.tile(call);
  TileFinish here = finish->tile;
  if (here.bias != nullptr) here.bias += column;
  if (here.residual != nullptr) here.residual += row * here.residual_step + column;
  call.finish = &here;
  kernel.tile(call);
  call.finish = nullptr;
  if (finish->rest) finish->rest(row, row + call.rows, column, column + call.cols);
}

// Rows [row_begin, row_end) of A with adjacent columns and little between them: as they lie, or copied together.
struct RowBlock {
  std::shared_ptr<std::byte> copy;  // of the session's buffers: fresh memory would be paid for page by page, at every call
  const float* data = nullptr;
  std::int64_t step = 0;
  std::vector<const float*> taps;
  std::int64_t tap_step = 0;

  void take(const KernelContext& ctx, const Product& p, std::int64_t begin, std::int64_t end, bool gather) {
    if (p.scattered != nullptr) {
      tap_step = p.k / p.scattered->piece;
      taps.resize(static_cast<std::size_t>((end - begin) * tap_step));
      return p.scattered->fill(begin, end, taps.data());
    }
    if (!gather) {
      data = p.a + begin * p.lda;
      step = p.lda;
      return;
    }
    if (copy == nullptr) copy = ctx.host.buffer(static_cast<std::size_t>((end - begin) * p.k) * sizeof(float));
    if (copy == nullptr) throw std::bad_alloc();
    auto* to = reinterpret_cast<float*>(copy.get());
    data = to;
    step = p.k;
    for (std::int64_t i = begin; i < end; ++i) std::copy_n(p.a + i * p.lda, p.k, to + (i - begin) * p.k);
  }
};

// Rows [k0, k0 + depth) of a panel of B.
struct PanelPiece {
  std::int64_t panel, k0, depth;
  const float* next;  // what is read of B afterwards, null: nothing that follows on
};

// Rows [r0, r1) of C, as far as one piece of a panel makes them.
void run_piece(const GemmKernel& kernel, const Product& p, const RowBlock& block, std::int64_t r0, std::int64_t r1, const PanelPiece& of) {
  const auto [panel, k0, depth, next] = of;
  const std::int64_t c0 = panel * kernel.nr;
  const int cols = static_cast<int>(std::min<std::int64_t>(kernel.nr, p.n - c0));
  const float* pb = p.b.data + panel * p.b.panel_step + k0 * p.b.ldb;
  // Tiles of about equal height: one of a single row would read all of the panel for little.
  const std::int64_t most = kernel.rows(cols, p.scattered != nullptr), tiles = (r1 - r0 + most - 1) / most, low = (r1 - r0) / tiles,
                     higher = (r1 - r0) % tiles;
  const std::int64_t part = depth * (kernel.nr / kParts);
  const GemmFinish* finish = k0 + depth >= p.k ? p.finish : nullptr;
  const std::int64_t piece = p.scattered != nullptr ? p.scattered->piece : 1;
  for (std::int64_t t = 0, i = r0; t < tiles; ++t) {
    const std::int64_t rows = low + (t < higher);
    const float* ahead = next != nullptr && (t + 1) * part <= depth * kernel.nr ? next + t * part : pb;
    const bool tapped = p.scattered != nullptr;
    const float* a = tapped ? nullptr : block.data + (i - r0) * block.step + k0;
    const float* const* taps = tapped ? block.taps.data() + (i - r0) * block.tap_step + k0 / piece : nullptr;
    TileCall call{
        static_cast<int>(rows), cols, depth, a, block.step, pb, p.b.ldb, p.c + i * p.ldc + c0, p.ldc, k0 > 0, nullptr, ahead, taps,
        block.tap_step,         piece};
    run_tile(kernel, call, finish, i, c0);
    i += rows;
  }
}

// Rows [r0, r1) under panels [begin, end), a few panels at a time, which are few enough for their part of C to stay in the cache from one
// piece of k to the next: where the rows of A take more than the cache, each piece of them is read once for all these panels.
void run_rows(const GemmKernel& kernel, const Product& p, const RowBlock& block, const TileRange& range) {
  const auto [r0, r1, begin, end] = range;
  const std::int64_t unit = p.scattered != nullptr ? p.scattered->piece : 1;
  const std::int64_t block_depth = even_piece(p.k, std::max(unit, kBlockDepth / unit * unit), unit);
  const bool far = p.scattered == nullptr && (r1 - r0) * p.k > kNearFloats;
  const std::int64_t group = far ? std::max<std::int64_t>(1, kGroupFloats / ((r1 - r0) * kernel.nr)) : 1;
  for (std::int64_t first = begin; first < end; first += group) {
    const std::int64_t last = std::min(end, first + group);
    for (std::int64_t k0 = 0; k0 < p.k || k0 == 0; k0 += block_depth) {
      const std::int64_t depth = std::min(block_depth, p.k - k0);
      for (std::int64_t panel = first; panel < last; ++panel) {
        // Asked for while there is time: the next panel's piece, the next piece of the first panel, the next group.
        const bool more_panels = panel + 1 < last, more_k = k0 + depth < p.k;
        const std::int64_t next_panel = more_panels ? panel + 1
                                        : more_k    ? first
                                                    : last,
                           next_k = more_panels ? k0
                                    : more_k    ? k0 + depth
                                                : 0;
        const bool follows = p.b.ldb == kernel.nr && next_panel < end;
        const float* next = follows ? p.b.data + next_panel * p.b.panel_step + next_k * p.b.ldb : nullptr;
        run_piece(kernel, p, block, r0, r1, {panel, k0, depth, next});
      }
    }
  }
}

void run_block(const KernelContext& ctx, const GemmKernel& kernel, const TileRange& range, const Product& p) {
  // Rows of A far apart cost a page each: where several panels read them, a block is copied together.
  const bool gather =
      p.scattered == nullptr && p.lda > p.k && p.lda > kFarRows && range.panel_end - range.panel_begin > 2 && range.rows() > kernel.mr;
  const std::int64_t most_rows =
      gather ? std::clamp<std::int64_t>(kBlockFloats / std::max<std::int64_t>(1, p.k), 8 * kernel.mr, kBlockRows) : kBlockRows;
  const std::int64_t block_rows = even_piece(range.rows(), most_rows, kernel.mr);
  RowBlock block;
  for (std::int64_t r0 = range.row_begin; r0 < range.row_end; r0 += block_rows) {
    const std::int64_t r1 = std::min(range.row_end, r0 + block_rows);
    block.take(ctx, p, r0, r1, gather);
    run_rows(kernel, p, block, {r0, r1, range.panel_begin, range.panel_end});
  }
}

// The tiles of rows [begin, end) of C in the order in which one thread goes through them: blocks of rows, in these panel by panel, rows
// from the top.
class TileOrder {
 public:
  TileOrder(const GemmKernel& kernel, const Product& p, std::int64_t begin, std::int64_t end)
      : begin_(begin),
        rows_(end - begin),
        panels_((p.n + kernel.nr - 1) / kernel.nr),
        tiles_((rows_ + kernel.mr - 1) / kernel.mr),
        blocks_((rows_ + kBlockRows - 1) / kBlockRows) {}

  std::int64_t size() const { return panels_ * tiles_; }
  // run(range) for rectangles that make up tiles [begin, end).
  template <typename Run>
  void visit(std::int64_t begin, std::int64_t end, const Run& run) const {
    for (std::int64_t b = 0; b < blocks_; ++b) {
      const std::int64_t above = tiles_ * b / blocks_, count = tiles_ * (b + 1) / blocks_ - above, start = panels_ * above;
      const std::int64_t last = std::min(end - start, panels_ * count);
      for (std::int64_t at = std::max<std::int64_t>(0, begin - start); at < last;) {
        const std::int64_t panel = at / count, top = at % count, whole = top == 0 ? (last - at) / count : 0,
                           bottom = whole > 0 ? count : std::min(count, top + last - at);
        run(TileRange{row(above + top), row(above + bottom), panel, panel + std::max<std::int64_t>(1, whole)});
        at += whole > 0 ? whole * count : bottom - top;
      }
    }
  }

 private:
  std::int64_t row(std::int64_t tile) const { return begin_ + rows_ * tile / tiles_; }

  std::int64_t begin_, rows_, panels_, tiles_, blocks_;
};

// Each thread has its rows of C, as it has them of what comes before and after, so that they stay in its cache; where rows are few, panels:
// each is read by one thread only then.
void run_panels(const KernelContext& ctx, const Product& p) {
  if (p.m == 0 || p.n == 0) return;
  const GemmKernel& kernel = gemm_kernel();
  const std::int64_t panels = (p.n + kernel.nr - 1) / kernel.nr, threads = team_size(ctx);
  if (threads == 1 || (2 * p.m + kReadFlops) * p.n * p.k < 2 * kTaskFlops) return run_block(ctx, kernel, {0, p.m, 0, panels}, p);
  const bool by_rows = p.m >= kThreadRows * threads || p.m >= p.n;
  const std::int64_t most = std::min<std::int64_t>(threads, by_rows ? (p.m + kernel.mr - 1) / kernel.mr : threads);
  std::vector<TileOrder> orders;
  std::vector<Band> bands;
  for (std::int64_t i = 0; i < most; ++i) {
    orders.push_back(by_rows ? TileOrder(kernel, p, p.m * i / most, p.m * (i + 1) / most) : TileOrder(kernel, p, 0, p.m));
    const std::int64_t size = orders.back().size();
    bands.push_back(by_rows ? Band{0, size} : Band{size * i / most, size * (i + 1) / most});
  }
  constexpr std::int64_t kShare = 16;  // of a band: smaller pieces read too much of the other operand
  parallel_bands(ctx, bands, 1 + (bands[0].end - bands[0].begin) / kShare, [&](std::size_t band, std::int64_t begin, std::int64_t end) {
    orders[band].visit(begin, end, [&](const TileRange& range) { run_block(ctx, kernel, range, p); });
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

// f(begin, count) for columns of B that make up all of it, as many at a time as may be copied for one product.
template <typename F>
void for_column_groups(const GemmSize& size, const F& f) {
  const std::int64_t nr = gemm_kernel().nr, width = std::max(nr, kPassingFloats / std::max<std::int64_t>(1, size.k) / nr * nr);
  for (std::int64_t begin = 0; begin < size.n; begin += width) f(begin, std::min(width, size.n - begin));
}

// Asks for what is read next: by itself the processor does not look beyond a page, and rows of weights lie in pages of their own.
template <typename T>
void fetch(const T* from, std::int64_t n) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (std::int64_t i = 0; i < n; i += kLine) __builtin_prefetch(from + i);
}

// to[i * cols + j] = from[i, j]
template <typename T>
void copy_as_floats(const KernelContext& ctx, std::int64_t rows, std::int64_t cols, MatrixView<T> from, float* to) {
  parallel_for(ctx, rows, std::max<std::int64_t>(1, kCopyGrain / std::max<std::int64_t>(1, cols)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const T* row = from.data + i * from.row_stride;
                   if (from.col_stride == 1) {
                     if (i + 1 < end) fetch(row + from.row_stride, cols);
                     to_floats(row, cols, to + i * cols);
                     continue;
                   }
                   for (std::int64_t j = 0; j < cols; ++j) to[i * cols + j] = static_cast<float>(row[j * from.col_stride]);
                 }
               });
}

}  // namespace

GemmKernel gemm_kernel_portable() { return {4, 16, tile_portable}; }

const GemmKernel& gemm_kernel() {
  static const GemmKernel kernel = [] {
    if (SATURATE_X86_HAS("avx512f")) return gemm_kernel_avx512();
    if (SATURATE_X86_HAS("avx2") && SATURATE_X86_HAS("fma")) return gemm_kernel_avx2();
    return gemm_kernel_portable();
  }();
  return kernel;
}

// Large ones in large pages where the system has some: weights are read from end to end, and each page that is new to the processor costs a
// walk through tables (Linux, Documentation/admin-guide/mm/transhuge.rst).
AlignedFloats aligned_floats(std::int64_t n) {
  constexpr std::size_t kLine = 64, kLargePage = std::size_t{1} << 21;
  const std::size_t bytes = (static_cast<std::size_t>(std::max<std::int64_t>(n, 1)) * sizeof(float) + kLine - 1) / kLine * kLine;
  const bool large = bytes >= kLargePage;
  void* room = nullptr;  // std::aligned_alloc wants whole multiples of the alignment, which sanitizers insist on
  if (::posix_memalign(&room, large ? kLargePage : kLine, bytes) != 0) throw std::bad_alloc();
  auto* data = static_cast<float*>(room);
  if (large) ::madvise(data, bytes / kLargePage * kLargePage, MADV_HUGEPAGE);  // a wish: nothing is lost where it is refused
  return AlignedFloats(data);
}

namespace {

// Of weights that lie in a file as they come, at any address.
float load(const float* at) {
  float value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

PackedMatrix pack_matrix(std::int64_t k, std::int64_t n, MatrixView<float> b) {
  PackedMatrix packed;
  pack_matrix(k, n, b, packed);
  return packed;
}

void pack_matrix(std::int64_t k, std::int64_t n, MatrixView<float> b, PackedMatrix& packed) {
  const std::int64_t nr = gemm_kernel().nr, panels = (n + nr - 1) / nr;
  packed.k = k;
  packed.n = n;
  if (packed.panels == nullptr || packed.room < panels * nr * k) {
    packed.room = panels * nr * k;
    packed.panels = aligned_floats(packed.room);
  }
  constexpr std::int64_t kFarColumns = 1 << 26;
  const bool gathers = b.row_stride == 1 && b.col_stride < kFarColumns;
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    const std::int64_t cols = std::min(nr, n - panel * nr);
    float* to = packed.panels.get() + panel * nr * k;
    if (cols < nr) std::fill_n(to, nr * k, 0.0f);
    const float* from = b.data + panel * nr * b.col_stride;
    if (b.col_stride == 1) {
      for (std::int64_t p = 0; p < k; ++p)
        std::memcpy(to + p * nr, from + p * b.row_stride, static_cast<std::size_t>(cols) * sizeof(float));
    } else if (SATURATE_X86_HAS("avx512f") && gathers) {
      pack_transposed_avx512(k, cols, from, b.col_stride, nr, to);
    } else {
      for (std::int64_t j = 0; j < cols; ++j) {
        for (std::int64_t p = 0; p < k; ++p) to[p * nr + j] = load(from + p * b.row_stride + j * b.col_stride);
      }
    }
  }
}

void gemm_packed(const KernelContext& ctx, std::int64_t m, MatrixView<float> a, const PackedMatrix& b, MatrixRows<float> c,
                 const GemmFinish& finish) {
  gemm_panels(ctx, {m, b.n, b.k}, a, b.panels.get(), c, finish);
}

void gemm_panels(const KernelContext& ctx, GemmSize size, MatrixView<float> a, const float* panels, MatrixRows<float> c,
                 const GemmFinish& finish) {
  const auto [m, n, k] = size;
  const RowMajor rows(m, k, a);
  const std::int64_t nr = gemm_kernel().nr;
  run_panels(ctx, {m, n, k, rows.data, rows.lda, nullptr, {panels, nr, nr * k}, c.data, c.step, &finish});
}

void gemm_scattered(const KernelContext& ctx, std::int64_t m, const ScatteredRows& a, const PackedMatrix& b, MatrixRows<float> c,
                    const GemmFinish& finish) {
  const std::int64_t nr = gemm_kernel().nr;
  run_panels(ctx, {m, b.n, b.k, nullptr, 0, &a, {b.panels.get(), nr, nr * b.k}, c.data, c.step, &finish});
}

void gemm(const KernelContext& ctx, GemmSize size, MatrixView<float> a, MatrixView<float> b, MatrixRows<float> c) {
  const std::int64_t m = size.m, n = size.n, k = size.k;
  if (m <= kDotRows && b.row_stride == 1 && b.col_stride != 1 && a.col_stride == 1) {
    return parallel_for(ctx, n, std::max<std::int64_t>(1, kTaskFlops / (2 * kReadFlops * std::max<std::int64_t>(1, k))),
                        [&](std::int64_t begin, std::int64_t end) {
                          for (std::int64_t j = begin; j < end; ++j)
                            for (std::int64_t i = 0; i < m; ++i)
                              c.data[i * c.step + j] = dot_floats(a.data + i * a.row_stride, b.data + j * b.col_stride, k);
                        });
  }
  const RowMajor rows(m, k, a);
  if (b.col_stride != 1 || m >= kPackRows) {
    PackedMatrix packed;
    return for_column_groups(size, [&](std::int64_t begin, std::int64_t columns) {
      pack_matrix(k, columns, {b.data + begin * b.col_stride, b.row_stride, b.col_stride}, packed);
      gemm_packed(ctx, m, {rows.data, rows.lda, 1}, packed, {c.data + begin, c.step});
    });
  }
  run_panels(ctx, {m, n, k, rows.data, rows.lda, nullptr, {b.data, b.row_stride, gemm_kernel().nr}, c.data, c.step, nullptr});
}

template <typename T>
void gemm_through_floats(const KernelContext& ctx, GemmSize size, MatrixView<T> a, MatrixView<T> b, MatrixRows<T> c) {
  const std::int64_t m = size.m, k = size.k;
  const bool by_rows = b.col_stride == 1;  // the other way the columns of B, which are longer runs in memory then
  const AlignedFloats left = aligned_floats(m * k);
  copy_as_floats(ctx, m, k, a, left.get());
  AlignedFloats right, made;
  for_column_groups(size, [&](std::int64_t begin, std::int64_t columns) {
    if (right == nullptr) {  // the first group is the widest
      right = aligned_floats(k * columns);
      made = aligned_floats(m * columns);
    }
    const T* from = b.data + begin * b.col_stride;
    if (by_rows)
      copy_as_floats<T>(ctx, k, columns, {from, b.row_stride, 1}, right.get());
    else
      copy_as_floats<T>(ctx, columns, k, {from, b.col_stride, b.row_stride}, right.get());
    gemm(ctx, {m, columns, k}, {left.get(), k, 1}, {right.get(), by_rows ? columns : 1, by_rows ? 1 : k}, {made.get(), columns});
    for (std::int64_t i = 0; i < m; ++i) from_floats(made.get() + i * columns, columns, c.data + i * c.step + begin);
  });
}

template void gemm_through_floats(const KernelContext&, GemmSize, MatrixView<Half>, MatrixView<Half>, MatrixRows<Half>);
template void gemm_through_floats(const KernelContext&, GemmSize, MatrixView<BFloat16>, MatrixView<BFloat16>, MatrixRows<BFloat16>);

void gemm(const KernelContext&, GemmSize size, MatrixView<double> a, MatrixView<double> b, MatrixRows<double> c) {
  const auto [m, n, k] = size;
  if (m == 0 || n == 0) return;
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Strided = Eigen::Map<const Matrix, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;
  const Strided left(a.data, m, k, {a.row_stride, a.col_stride}), right(b.data, k, n, {b.row_stride, b.col_stride});
  Eigen::Map<Matrix, 0, Eigen::OuterStride<>> out(c.data, m, n, Eigen::OuterStride<>(c.step));
  if (k == 0)
    out.setZero();
  else
    out.noalias() = left * right;
}

}  // namespace saturate
