// Tiles of 8-bit products by AVX2, AVX-512 VNNI and AMX.
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "kernels/gemm/byte_gemm.h"

namespace saturate {
namespace {

constexpr std::int64_t kStep = kBytePanel * 4;  // bytes of a panel for four neighbours of k

std::int32_t four_at(const std::uint8_t* from) {
  std::int32_t x;
  std::memcpy(&x, from, sizeof(x));
  return x;
}

// 16 columns: sums of neighbours 0, 1 and of 2, 3 beside each other until the end. (VPMADDUBSW would saturate.)
template <int R>
[[gnu::target("avx2")]] void tile_avx2(const ByteTile& t, int column) {
  __m256i sum[R][4];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < 4; ++v) sum[r][v] = _mm256_setzero_si256();
  }
  const std::int8_t* b = t.b + column * 4;
  for (std::int64_t p = 0; p < t.depth; p += 4, b += kStep) {
    __m256i row[4];
#pragma GCC unroll 8
    for (int v = 0; v < 4; ++v) row[v] = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + v * 16)));
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m256i x = _mm256_cvtepu8_epi16(_mm_set1_epi32(four_at(t.a + r * t.lda + p)));
#pragma GCC unroll 8
      for (int v = 0; v < 4; ++v) sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(x, row[v]));
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < 4; v += 2) {
      const __m256i pairs = _mm256_permute4x64_epi64(_mm256_hadd_epi32(sum[r][v], sum[r][v + 1]), 0b11011000);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(t.c + r * kBytePanel + column + v * 4), pairs);
    }
  }
}

void run_avx2(const ByteTile& t) {
  constexpr std::array<void (*)(const ByteTile&, int), 3> kTiles{tile_avx2<1>, tile_avx2<2>, tile_avx2<3>};
  for (int column = 0; column < kBytePanel; column += 16) kTiles[static_cast<std::size_t>(t.rows - 1)](t, column);
}

template <int R>
[[gnu::target("avx512f,avx512vnni")]] void tile_vnni(const ByteTile& t) {
  __m512i sum[R][4];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < 4; ++v) sum[r][v] = _mm512_setzero_si512();
  }
  const std::int8_t* b = t.b;
  for (std::int64_t p = 0; p < t.depth; p += 4, b += kStep) {
    __m512i row[4];
#pragma GCC unroll 8
    for (int v = 0; v < 4; ++v) {
      row[v] = _mm512_loadu_si512(b + v * 64);
      _mm_prefetch(reinterpret_cast<const char*>(b + 8 * kStep + v * 64), _MM_HINT_T0);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512i x = _mm512_set1_epi32(four_at(t.a + r * t.lda + p));
#pragma GCC unroll 8
      for (int v = 0; v < 4; ++v) sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], x, row[v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < 4; ++v) _mm512_storeu_si512(t.c + r * kBytePanel + v * 16, sum[r][v]);
  }
}

void run_vnni(const ByteTile& t) {
  constexpr std::array<void (*)(const ByteTile&), 6> kTiles{tile_vnni<1>, tile_vnni<2>, tile_vnni<3>,
                                                            tile_vnni<4>, tile_vnni<5>, tile_vnni<6>};
  kTiles[static_cast<std::size_t>(t.rows - 1)](t);
}

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes[16] = {};
  std::uint8_t rows[16] = {};
};

void ask_for(const ByteTile& t, std::int64_t p) {
  const std::int8_t* from = t.ahead + p / kByteDepth * t.ahead_step;
  for (std::int64_t i = 0; i < t.ahead_step; i += 64) __builtin_prefetch(from + i, 0, 2);
}

// Tiles 0 to 3: sums. With up to 16 rows the four quarters of the panel, tile 4 is A, 5 to 7 B; else two halves of the rows by two
// quarters, tiles 4 and 5 are A, 6 and 7 B.
[[gnu::target("amx-tile,amx-int8")]] void run_amx(const ByteTile& t) {
  const bool two = t.rows > 16;
  const int upper = two ? 16 : t.rows, lower = two ? t.rows - 16 : 0;
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    const bool second = two && (i == 2 || i == 3 || i == 5), of_b = i >= (two ? 6 : 5);
    config.bytes[i] = 64;
    config.rows[i] = static_cast<std::uint8_t>(of_b ? 16 : second ? lower : upper);
  }
  _tile_loadconfig(&config);
  if (!two) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    const std::int8_t* b = t.b;
    for (std::int64_t p = 0; p < t.depth; p += 64, b += 16 * kStep) {
      ask_for(t, p);
      _tile_loadd(4, t.a + p, t.lda);
      _tile_loadd(5, b, kStep);
      _tile_loadd(6, b + 64, kStep);
      _tile_dpbusd(0, 4, 5);
      _tile_loadd(7, b + 128, kStep);
      _tile_dpbusd(1, 4, 6);
      _tile_loadd(5, b + 192, kStep);
      _tile_dpbusd(2, 4, 7);
      _tile_dpbusd(3, 4, 5);
    }
    _tile_stored(0, t.c, kBytePanel * 4);
    _tile_stored(1, t.c + 16, kBytePanel * 4);
    _tile_stored(2, t.c + 32, kBytePanel * 4);
    _tile_stored(3, t.c + 48, kBytePanel * 4);
  } else {
    for (int half = 0; half < 2; ++half) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      const std::int8_t* b = t.b + half * 128;
      const std::uint8_t* below = t.a + 16 * t.lda;
      for (std::int64_t p = 0; p < t.depth; p += 64, b += 16 * kStep) {
        if (half == 0) ask_for(t, p);
        _tile_loadd(4, t.a + p, t.lda);
        _tile_loadd(6, b, kStep);
        _tile_loadd(5, below + p, t.lda);
        _tile_loadd(7, b + 64, kStep);
        _tile_dpbusd(0, 4, 6);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(1, 4, 7);
        _tile_dpbusd(3, 5, 7);
      }
      std::int32_t* c = t.c + half * 32;
      _tile_stored(0, c, kBytePanel * 4);
      _tile_stored(1, c + 16, kBytePanel * 4);
      _tile_stored(2, c + 16 * kBytePanel, kBytePanel * 4);
      _tile_stored(3, c + 16 * kBytePanel + 16, kBytePanel * 4);
    }
  }
  _tile_release();
}

}  // namespace

// The kernel of the operating system lets a process use the tiles only if it asks (Linux, Documentation/arch/x86/xstate.rst).
bool amx_granted() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & (1u << 24)) == 0 || (d & (1u << 25)) == 0) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

ByteKernel byte_kernel_avx2() { return {3, run_avx2}; }
ByteKernel byte_kernel_vnni() { return {6, run_vnni}; }
ByteKernel byte_kernel_amx() { return {32, run_amx}; }

}  // namespace saturate
