// The read-only index for matching, built on a clean e-graph: rows sorted by class, then kind, operator and children.
#pragma once

#include <span>
#include <utility>

#include "egraph/packed_enode.h"
#include "egraph/reserved_array.h"

namespace saturate {

struct Index {
  std::uint64_t version = 0;               // of the e-graph when it was built
  ReservedArray<PackedENode> rows;         // copies of the live records
  ReservedArray<NodeId> node;              // row -> e-node
  ReservedArray<Id> cls;                   // row -> class
  ReservedArray<std::uint32_t> touched;    // row -> stamp of its last change
  ReservedArray<std::uint32_t> seen_anew;  // row -> the same, where a move to another class counts, too
  ReservedArray<std::uint32_t>
      start;  // class id -> first row; rows of class c are start[c] .. start[c+1]-1 (none where c is not canonical)
  ReservedArray<std::uint32_t> kinds;       // class id -> bits of the kinds that it holds (kind modulo 32)
  ReservedArray<std::uint32_t> kind_start;  // kind -> place in kind_rows
  ReservedArray<std::uint32_t> kind_rows;   // rows by kind, ascending

  // First and last place (not included) of a kind in kind_rows.
  std::pair<std::uint32_t, std::uint32_t> places(Kind kind) const {
    if (kind + std::size_t{2} >= kind_start.size()) return {0, 0};
    return {kind_start[kind], kind_start[kind + std::size_t{1}]};
  }
  std::span<const std::uint32_t> of_kind(Kind kind) const {
    const auto [first, last] = places(kind);
    return {kind_rows.data() + first, last - first};
  }

  std::size_t bytes() const {
    return rows.bytes() + node.bytes() + cls.bytes() + touched.bytes() + seen_anew.bytes() + start.bytes() + kinds.bytes() +
           kind_start.bytes() + kind_rows.bytes();
  }
};

}  // namespace saturate
