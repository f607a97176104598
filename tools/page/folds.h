// The nodes of a graph as a tree of folds, so that no picture of it is large: repeated blocks, and runs of nodes that belong together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace saturate {

struct FoldInput {
  struct Node {
    std::string kind;        // the same for nodes that do the same
    std::string scope;       // of its module; "" where nothing tells
    std::vector<int> reads;  // nodes that make what it reads, each once
  };
  std::vector<Node> nodes;  // each behind those that it reads
};

struct Fold {
  enum class Kind : std::uint8_t { kPart, kRepeats, kBlock };  // kRepeats: its parts are blocks that are alike
  Kind kind = Kind::kPart;
  struct Part {
    bool is_fold = false;
    int index = 0;  // of a node, or of another fold
  };
  std::vector<Part> parts;  // each behind those that it reads
  std::vector<int> nodes;   // of all parts
};

// The last is the whole; the others come before what holds them. No fold has more than kMostParts parts, but for those of repeats.
std::vector<Fold> fold(const FoldInput& graph);

inline constexpr int kMostParts = 36;

}  // namespace saturate
