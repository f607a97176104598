// What was found out about constants by looking at their elements: a weight is read once, not whenever a rule meets it again.
#pragma once

#include <mutex>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "onnx_bridge/onnx_egraph.h"

namespace saturate {

// A note of an e-graph (OnnxEGraph::notes); safe from any thread.
template <typename T>
class KnownOfConstants {
 public:
  // What is known of the class, or what `look()` finds now: an optional T, of which only a value is kept.
  template <typename Look>
  static std::optional<T> of(const OnnxEGraph& g, Id id, const Look& look) {
    auto& known = g.notes<KnownOfConstants>();
    const std::lock_guard lock(known.mutex_);
    id = g.egraph().find(id);
    if (const auto it = known.of_.find(id); it != known.of_.end()) return it->second;
    std::optional<T> found = look();
    if (found) known.of_.emplace(id, *found);
    return found;
  }

 private:
  std::mutex mutex_;
  absl::flat_hash_map<Id, T> of_;
};

}  // namespace saturate
