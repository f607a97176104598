// What a measured choice found, for reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace saturate {

// The median of the ratios of pairs of runs, and its interval of 95 %.
struct MeasuredRatio {
  double median = 1, low = 1, high = 1;
};

struct Measured {
  struct Graph {
    std::string name;
    std::size_t nodes = 0, runs = 0;
    double seconds = 0;           // median of a run
    MeasuredRatio original = {};  // over the original in the same round
    std::string why_not = {};     // one that was not timed: the reason
  };
  std::string runtime, version, processor;  // "ONNX Runtime 1.31", "1.31.1"
  int threads = 1;
  std::string sizes;          // "batch=1, seq=128"; several with their weights
  std::vector<Graph> graphs;  // the original first
  std::string taken;          // the name of a graph
  bool unchanged = false;     // it is the original
  bool remembered = false;    // the answer was in the file
  MeasuredRatio ratio;        // of what was taken
  std::size_t timed = 0;      // graphs
  double seconds = 0;         // that it took
  double budget = 0;
};

}  // namespace saturate
