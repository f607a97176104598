// Which values hold the heads of attention side by side, once rules have taken them apart.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

// A value in equal parts along an axis: it is the Concat of these.
struct HeadsApart {
  std::size_t axis = 0;
  std::vector<Id> parts;
};

// The values of an e-graph that have been taken apart, by class.
class HeadNotes {
 public:
  // Null: nobody has taken it apart. The answer stays valid: nothing is forgotten.
  const HeadsApart* find(const OnnxEGraph& g, Id id);
  void add(const OnnxEGraph& g, Id id, HeadsApart heads);

 private:
  std::mutex mutex_;
  std::uint64_t version_ = 0;
  std::deque<HeadsApart> kept_;
  absl::flat_hash_map<Id, const HeadsApart*> known_;
};

// How many heads an operator works on at once.
// A product counts its matrices: all dims but the first and the last two, or the first one where there is no other, if both factors have
// them. So does a Softmax of the last axis. Any other operator counts the heads of what it reads, where that has been taken apart on
// another axis than the last. 1 where nothing says more.
std::int64_t heads_at_once(const OnnxEGraph& g, const ENode& node);

}  // namespace saturate
