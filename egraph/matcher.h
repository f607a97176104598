// E-matching of one pattern on the sorted index: a fixed order of binds found once (compile), then backtracking without recursion.
#pragma once

#include <functional>
#include <vector>

#include "egraph/impl.h"
#include "egraph/rewrite.h"

namespace saturate {

class Matcher {
 public:
  explicit Matcher(const Pattern& pattern);

  // Brings cached answers of accepts_op up to date with the operators that exist. Before each search, by one thread.
  void prepare(const EGraph& egraph);

  // What a match looks like while it is found: valid during the call only.
  struct Found {
    std::span<const Id> classes;
    std::span<const NodeId> matched;
    std::span<const OpId> ops;
    std::uint32_t touched;  // newest stamp of the e-nodes
  };
  // Returns false to end the search.
  using Sink = std::function<bool(const Found&)>;

  // Places where matches may start: rows of the root's kind, or all classes where the root is a variable.
  std::size_t num_starts(const EGraph::Impl& g, const Index& index) const;
  // Matches of starts first..last-1, in order. False where the sink ended it.
  template <class Visit>
  bool match(const EGraph& egraph, const Index& index, std::size_t first, std::size_t last, Visit&& visit) const;

  std::size_t num_slots() const { return pattern_.nodes.size(); }
  bool has_guards() const { return has_guards_; }
  const Pattern& pattern() const { return pattern_; }
  std::uint32_t depth() const { return depth_; }

 private:
  struct Child {
    std::uint32_t slot;
    bool bound;  // by an earlier step or child: compare
  };
  // Finds rows for an operator node whose class is known (or, `free`, unknown: a second component of the pattern).
  struct Step {
    std::uint32_t slot = 0;
    Kind kind = 0;
    OpId op = kNone;
    std::uint32_t cached = kNone;  // place in accepts_op_
    bool free = false;
    std::vector<Child> children;
  };
  struct Frame {
    std::uint32_t next, last;  // rows (of kind_rows where the step is free)
    bool swapped;              // the row before `next` is to be tried in the other order
  };
  struct State {
    std::vector<Id> classes;
    std::vector<NodeId> matched;
    std::vector<OpId> ops;
    std::vector<std::uint32_t> touched;
    std::vector<Frame> frames;
  };

  void compile();
  void schedule(std::uint32_t node, std::vector<bool>& bound);
  bool accepts(const EGraph& egraph, std::uint32_t slot, Id id) const {
    const auto& test = pattern_.nodes[slot].accepts;
    return !test || test(egraph, id);
  }
  Frame open(const EGraph::Impl& g, const Index& index, const Step& step, const State& state) const;
  bool next(const EGraph& egraph, const Index& index, std::size_t level, State& state) const;
  bool take(const EGraph& egraph, const Index& index, const Step& step, std::uint32_t row, bool swapped, State& state) const;

  Pattern pattern_;
  std::vector<Step> steps_;
  std::vector<std::vector<std::int8_t>> accepts_op_;  // by OpId: 1 yes, 0 no, -1 not of the kind
  bool has_guards_ = false;
  std::uint32_t depth_ = 0;
};

template <class Visit>
bool Matcher::match(const EGraph& egraph, const Index& index, std::size_t first, std::size_t last, Visit&& visit) const {
  const EGraph::Impl& g = egraph.impl();
  const std::size_t n = num_slots();
  State state{std::vector<Id>(n, kNone), std::vector<NodeId>(n, kNone), std::vector<OpId>(n, kNone), std::vector<std::uint32_t>(n, 0),
              std::vector<Frame>(steps_.size() + 1)};
  const auto found = [&] {
    std::uint32_t touched = 0;
    for (const Step& step : steps_) touched = std::max(touched, state.touched[step.slot]);
    return visit(Found{state.classes, state.matched, state.ops, touched});
  };
  if (pattern_.nodes.back().type == PatternNode::Type::kVariable) {
    for (std::size_t c = first; c < last; ++c) {
      if (index.start[c] == index.start[c + 1]) continue;
      state.classes[n - 1] = static_cast<Id>(c);
      if (accepts(egraph, static_cast<std::uint32_t>(n - 1), static_cast<Id>(c)) && !visit(Found{state.classes, state.matched, state.ops, kNone})) return false;
    }
    return true;
  }
  const std::uint32_t base = index.kind_start[steps_[0].kind];
  for (std::size_t i = first; i < last; ++i) {
    const std::uint32_t start = index.kind_rows[base + i];
    state.classes[n - 1] = index.cls[start];
    if (!accepts(egraph, static_cast<std::uint32_t>(n - 1), index.cls[start])) continue;
    state.frames[0] = {start, start + 1, false};
    std::size_t level = 0;
    for (;;) {
      if (!next(egraph, index, level, state)) {
        if (level == 0) break;
        --level;
        continue;
      }
      if (level + 1 == steps_.size()) {
        if (!found()) return false;
        continue;
      }
      ++level;
      state.frames[level] = open(g, index, steps_[level], state);
    }
  }
  return true;
}

}  // namespace saturate
