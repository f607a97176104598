// One e-node in 16 bytes. Up to three children stand inside, more in a pool.
#pragma once

#include <span>

#include "egraph/egraph.h"

namespace saturate {

struct alignas(16) PackedENode {
  static constexpr Id kPooled = 0xfffffffeu;  // in c[2]: c[0] is the place in the pool, c[1] the number of children

  OpId op;
  Id c[3];  // unused ones are kNone

  bool pooled() const { return c[2] == kPooled; }
  std::uint32_t arity() const {
    if (pooled()) return c[1];
    return static_cast<std::uint32_t>(c[0] != kNone) + static_cast<std::uint32_t>(c[1] != kNone) +
           static_cast<std::uint32_t>(c[2] != kNone);
  }
  // Whether it has exactly n <= 3 children.
  bool has_inline(std::size_t n) const {
    if (n == 3) return c[2] < kPooled;
    return c[n] == kNone && (n == 0 || c[n - 1] != kNone) && (n == 2 || c[2] == kNone);
  }
  std::span<const Id> children(const Id* pool) const { return pooled() ? std::span(pool + c[0], c[1]) : std::span(c, arity()); }
  const Id* child_data(const Id* pool) const { return pooled() ? pool + c[0] : c; }
};

}  // namespace saturate
