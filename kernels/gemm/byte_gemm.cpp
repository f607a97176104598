#include "kernels/gemm/byte_gemm.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "kernels/core/processor.h"

namespace saturate {
namespace {

constexpr std::int64_t kByteBlockRows = 256, kBlockBytes = 1 << 19;  // of A, made together
constexpr std::int64_t kTaskOperations = 1 << 21;

void tile_portable(const ByteTile& t) {
  for (int r = 0; r < t.rows; ++r) {
    std::array<std::int32_t, kBytePanel> sum{};
    for (std::int64_t p = 0; p < t.depth; ++p) {
      const std::int32_t x = t.a[r * t.lda + p];
      for (int j = 0; j < kBytePanel; ++j) sum[static_cast<std::size_t>(j)] += x * t.b[p / 4 * 256 + j * 4 + p % 4];
    }
    std::copy(sum.begin(), sum.end(), t.c + r * kBytePanel);
  }
}

// c -= row_zero * (sum of B's column - k * zero of B) + (sum of A's row) * zero of B; all modulo 2^32.
struct Correction {
  const std::uint32_t *row_zero, *row_sum;  // of the tile's rows
  const std::uint32_t *column, *zero;       // of the panel's columns
};

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] void correct(int rows, const Correction& by, std::uint32_t* c) {
  for (int r = 0; r < rows; ++r) {
    const std::uint32_t a = by.row_zero[r], s = by.row_sum[r];
#pragma GCC ivdep
    for (int j = 0; j < kBytePanel; ++j) c[r * kBytePanel + j] -= a * by.column[j] + s * by.zero[j];
  }
}

[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] std::uint32_t sum_of(const std::uint8_t* x, std::int64_t n) {
  std::uint32_t sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

bool any(std::span<const std::int32_t> values) {
  return std::any_of(values.begin(), values.end(), [](std::int32_t v) { return v != 0; });
}

struct ByteGemmProduct {
  const ByteRows& a;
  const PackedBytes& b;
  std::span<const std::int32_t> b_zero;
  const ByteFinish& finish;
  std::vector<std::uint32_t> columns, zeros;  // of Correction; empty where nothing is to be corrected
  bool row_sums = false;

  ByteGemmProduct(const ByteRows& rows, const PackedBytes& packed, std::span<const std::int32_t> zero, const ByteFinish& done)
      : a(rows), b(packed), b_zero(zero), finish(done), row_sums(any(zero)) {
    if (!row_sums && !any(rows.zero)) return;
    columns.resize(b.column_sums.size());
    zeros.resize(columns.size());
    for (std::size_t j = 0; j < columns.size(); ++j) {
      if (!b_zero.empty() && static_cast<std::int64_t>(j) < b.n) zeros[j] = static_cast<std::uint32_t>(b_zero[b_zero.size() == 1 ? 0 : j]);
      columns[j] = static_cast<std::uint32_t>(b.column_sums[j]) - static_cast<std::uint32_t>(b.k) * zeros[j];
    }
  }
  std::uint32_t row_zero(std::int64_t r) const {
    return a.zero.empty() ? 0u : static_cast<std::uint32_t>(a.zero[a.zero.size() == 1 ? 0 : static_cast<std::size_t>(r)]);
  }
};

// A few rows under one panel.
struct ByteTile {
  std::int64_t row;
  int rows;
  std::int64_t panel;
  const std::uint8_t* a;
  const std::uint32_t* row_sums;
  const std::int8_t* ahead;  // what later tiles read, null: nothing
  std::int64_t ahead_step;
};

void run_tile(const ByteKernel& kernel, const ByteGemmProduct& p, const ByteTile& tile) {
  const auto [row, rows, panel, a, row_sums, ahead, ahead_step] = tile;
  alignas(64) std::int32_t c[kMostByteRows * kBytePanel];
  kernel.tile({rows, p.b.depth, a, p.b.depth, p.b.panel(panel), c, ahead, ahead_step});
  const std::int64_t column = panel * kBytePanel;
  if (!p.columns.empty()) {
    std::array<std::uint32_t, kMostByteRows> zero;
    for (int r = 0; r < rows; ++r) zero[static_cast<std::size_t>(r)] = p.row_zero(row + r);
    correct(rows, {zero.data(), row_sums, p.columns.data() + column, p.zeros.data() + column}, reinterpret_cast<std::uint32_t*>(c));
  }
  p.finish(row, rows, column, static_cast<int>(std::min<std::int64_t>(kBytePanel, p.b.n - column)), c);
}

void run_block(const KernelContext& ctx, const ByteKernel& kernel, const ByteGemmProduct& p, const TileRange& range) {
  const auto [row_begin, row_end, panel_begin, panel_end] = range;
  const std::int64_t depth = p.b.depth;
  const std::int64_t block =
      std::min(row_end - row_begin, std::clamp<std::int64_t>(kBlockBytes / std::max<std::int64_t>(1, depth) / kMostByteRows * kMostByteRows,
                                                             kMostByteRows, kByteBlockRows));
  const std::shared_ptr<std::byte> buffer = ctx.host.buffer(static_cast<std::size_t>(std::max<std::int64_t>(1, block * depth)));
  if (buffer == nullptr) throw std::bad_alloc();
  auto* rows = reinterpret_cast<std::uint8_t*>(buffer.get());
  std::vector<std::uint32_t> sums(static_cast<std::size_t>(block));
  for (std::int64_t r0 = row_begin; r0 < row_end; r0 += block) {
    const std::int64_t r1 = std::min(row_end, r0 + block);
    p.a.fill(r0, r1, rows, depth);
    for (std::int64_t r = 0; r < r1 - r0; ++r) {
      std::fill(rows + r * depth + p.b.k, rows + (r + 1) * depth, std::uint8_t{0});
      if (p.row_sums) sums[static_cast<std::size_t>(r)] = sum_of(rows + r * depth, p.b.k);
    }
    for (std::int64_t panel = panel_begin; panel < panel_end; ++panel) {
      // The next panel, a part of it during each tile.
      const std::int64_t tiles = (r1 - r0 + kernel.rows - 1) / kernel.rows, step = (kByteDepth * kBytePanel / tiles + 63) / 64 * 64;
      for (std::int64_t t = 0; t < tiles; ++t) {
        const std::int64_t r = r0 + t * kernel.rows, part = t * step * (depth / kByteDepth);
        const bool more = panel + 1 < panel_end && part + step * (depth / kByteDepth) <= depth * kBytePanel;
        run_tile(kernel, p,
                 {r, static_cast<int>(std::min<std::int64_t>(kernel.rows, r1 - r)), panel, rows + (r - r0) * depth, sums.data() + (r - r0),
                  more ? p.b.panel(panel + 1) + part : nullptr, more ? step : 0});
      }
    }
  }
}

}  // namespace

ByteKernel byte_kernel_portable() { return {8, tile_portable}; }

std::vector<ByteKernel> byte_kernels() {
  std::vector<ByteKernel> out{byte_kernel_portable()};
  if (SATURATE_X86_HAS("avx2")) out.push_back(byte_kernel_avx2());
  if (SATURATE_X86_HAS("avx512f") && SATURATE_X86_HAS("avx512vnni")) {
    out.push_back(byte_kernel_vnni());
    if (amx_granted()) out.push_back(byte_kernel_amx());
  }
  return out;
}

const ByteKernel& byte_kernel() {
  static const ByteKernel kernel = byte_kernels().back();
  return kernel;
}

PackedBytes pack_bytes(std::int64_t k, std::int64_t n, const std::uint8_t* b, std::int64_t row_stride, std::int64_t col_stride,
                       bool is_signed) {
  const std::int64_t depth = (k + kByteDepth - 1) / kByteDepth * kByteDepth, panels = (n + kBytePanel - 1) / kBytePanel;
  const std::int64_t floats = panels * kBytePanel * depth / static_cast<std::int64_t>(sizeof(float));
  PackedBytes packed{k,         n, depth, aligned_floats(floats), std::vector<std::int32_t>(static_cast<std::size_t>(panels * kBytePanel)),
                     !is_signed};
  std::memset(packed.panels.get(), 0, static_cast<std::size_t>(floats) * sizeof(float));
  auto* bytes = reinterpret_cast<std::uint8_t*>(packed.panels.get());
  const std::uint8_t flip = is_signed ? 0 : 0x80;
  for (std::int64_t j = 0; j < n; ++j) {
    std::uint8_t* to = bytes + j / kBytePanel * depth * kBytePanel + j % kBytePanel * 4;
    std::int32_t sum = 0;
    for (std::int64_t p = 0; p < k; ++p) {
      const auto value = static_cast<std::uint8_t>(b[p * row_stride + j * col_stride] ^ flip);
      to[p / 4 * kBytePanel * 4 + p % 4] = value;
      sum += static_cast<std::int8_t>(value);
    }
    packed.column_sums[static_cast<std::size_t>(j)] = sum;
  }
  return packed;
}

void byte_gemm(const KernelContext& ctx, const ByteRows& a, const PackedBytes& b, std::span<const std::int32_t> b_zero,
               const ByteFinish& finish) {
  if (a.m == 0 || b.n == 0) return;
  const ByteKernel& kernel = byte_kernel();
  const ByteGemmProduct p(a, b, b_zero, finish);
  const std::int64_t panels = (b.n + kBytePanel - 1) / kBytePanel, blocks = (a.m + kByteBlockRows - 1) / kByteBlockRows;
  if (ctx.options.threads == 1 || 2 * a.m * b.n * b.k < kTaskOperations) return run_block(ctx, kernel, p, {0, a.m, 0, panels});
  if (blocks >= 4 || panels < 4) {
    const std::int64_t piece = blocks >= 4 ? kByteBlockRows : std::max<std::int64_t>(kMostByteRows, (a.m + 3) / 4);
    return parallel_for(ctx, (a.m + piece - 1) / piece, 1, [&](std::int64_t begin, std::int64_t end) {
      run_block(ctx, kernel, p, {begin * piece, std::min(a.m, end * piece), 0, panels});
    });
  }
  // Every task makes the rows of A anew: few tasks.
  const std::int64_t run = std::max<std::int64_t>(1, (panels + 7) / 8);
  parallel_for(ctx, (panels + run - 1) / run, 1, [&](std::int64_t begin, std::int64_t end) {
    run_block(ctx, kernel, p, {0, a.m, begin * run, std::min(panels, end * run)});
  });
}

}  // namespace saturate
