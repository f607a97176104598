// Where the boxes of a small acyclic graph stand: values flow downwards, a row a layer. The same for pages and for SVG.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace saturate {

struct LayoutBox {
  enum class Kind : std::uint8_t { kInside, kFrom, kTo };  // kFrom, kTo: values that come from outside and that go there
  int width = 0;
  Kind kind = Kind::kInside;
};

struct Layout {
  struct Edge {
    int from = 0, to = 0;
    std::vector<int> bends;  // x in each row between the two
  };
  std::vector<int> row, x;  // of each box; x is its middle
  std::vector<Edge> edges;
  int width = 0, rows = 0;
};

// `edges` lead from a box to one that comes later in the order kFrom, kInside, kTo, each kind in the order of `boxes`.
Layout lay_out(const std::vector<LayoutBox>& boxes, const std::vector<std::pair<int, int>>& edges);

inline constexpr int kLayoutGap = 16;

}  // namespace saturate
