// What is asked of a class and found by looking at the e-nodes below it: whether a mask is a triangle, which fills it holds. An answer that
// proves something stays, since e-graphs only gain e-nodes. One that proves nothing is given again until a class that was looked at
// changes; the class that was asked about counts as one with new facts then, and rules look at it again.
#pragma once

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

// Reads classes for one question, and keeps in mind which.
class Look {
 public:
  explicit Look(const OnnxEGraph& g) : g_(g) {}
  const OnnxEGraph& graph() const { return g_; }
  const Facts& facts(Id id) {
    note(id);
    return g_.facts(id);
  }
  std::vector<NodeId> nodes(Id id) {
    note(id);
    return g_.egraph().class_nodes(id);
  }
  const std::vector<Id>& seen() const { return seen_; }

 private:
  void note(Id id) {
    id = g_.egraph().find(id);
    if (seen_.empty() || seen_.back() != id) seen_.push_back(id);
  }
  const OnnxEGraph& g_;
  std::vector<Id> seen_;
};

// Answers to one question, of type optional<T>; `Question` tells it from others. A note of an e-graph, safe from any thread: who asks waits
// for the one who is looking, so that a large weight is read once. `find` must not ask the same question.
template <typename Question, typename T>
class Answers {
 public:
  // The answer about a class: that given before, or what `find(look)` gives.
  template <typename Find>
  static std::optional<T> of(const OnnxEGraph& g, Id id, const Find& find) {
    auto& answers = g.notes<Answers>();
    const std::lock_guard lock(answers.mutex_);
    id = g.egraph().find(id);
    const std::uint64_t changes = g.changes_seen_from(id) + g.dims().knowledge();  // neither ever falls
    const auto it = answers.given_.find(id);
    if (it != answers.given_.end() && (it->second.first || it->second.second == changes)) return it->second.first;
    Look look(g);
    std::optional<T> found = find(look);
    if (!found) g.watch_from(id, look.seen());
    answers.given_[id] = {found, changes};
    return found;
  }

 private:
  std::mutex mutex_;
  absl::flat_hash_map<Id, std::pair<std::optional<T>, std::uint64_t>> given_;  // and the changes seen until then
};

// What a search through classes has found of each. A class is looked at once, and so many in all: classes read each other through views
// that undo each other.
template <typename T, std::size_t kMost>
class FoundOnce {
 public:
  // `look()`, or what it gave before; nothing while the class is looked at.
  template <typename Look>
  std::optional<T> of(Id id, const Look& look) {
    if (const auto it = known_.find(id); it != known_.end()) return it->second;
    if (known_.size() == kMost) return std::nullopt;
    known_[id] = std::nullopt;
    const std::optional<T> found = look();
    return known_[id] = found;
  }

 private:
  absl::flat_hash_map<Id, std::optional<T>> known_;
};

// Of a question that an answer says yes to.
struct Proven {};
inline std::optional<Proven> proven_if(bool holds) { return holds ? std::optional<Proven>(Proven{}) : std::nullopt; }

}  // namespace saturate
