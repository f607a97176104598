// The nodes of two graphs whose values are matched: pairs that are equal, and regions of the others.
#pragma once

#include <string>
#include <vector>

#include "tools/diff/diff.h"
#include "tools/diff/matching.h"

namespace saturate {

// Of one pair of graphs. Positions are those of the graphs' nodes.
struct NodeRegions {
  struct Region {
    std::vector<std::string> outputs;  // of the first graph, by name
    bool shared = false, unproven = false;
    std::vector<std::size_t> nodes[2];
    std::string shape;
  };
  std::vector<Region> regions;
  std::vector<std::pair<std::size_t, std::size_t>> equal;
  std::size_t constants[2] = {0, 0};  // Constant nodes whose value the other graph has, too
};
NodeRegions node_regions(const LoweredGraph& first, const LoweredGraph& second, const Matching& matching);

}  // namespace saturate
