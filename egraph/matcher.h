// E-matching of one pattern on the sorted index: a fixed order of binds found once (compile), then backtracking without recursion.
#pragma once

#include <algorithm>
#include <vector>

#include "egraph/egraph_impl.h"
#include "egraph/rewrite.h"

namespace saturate {

class Matcher {
 public:
  explicit Matcher(const Pattern& pattern);

  // Brings cached answers of accepts_op and the classes of ground subterms up to date. Before each search, by one thread.
  void prepare(const EGraph& egraph);

  // What a match looks like while it is found: valid during the call only.
  struct Found {
    std::span<const Id> classes;
    std::span<const NodeId> matched;
    std::span<const OpId> ops;
    std::uint32_t touched;  // newest stamp of the e-nodes; kNone for a pattern of one variable
  };

  // Places where matches may start: first..last-1 of `rows`, which are of the root's kind, or of all classes where the root is a variable.
  struct Starts {
    std::span<const std::uint32_t> rows;
    std::size_t first, last;
  };
  std::size_t num_starts(const EGraph::Impl& g, std::span<const std::uint32_t> rows) const;
  // Calls visit(Found) -> bool for the matches of these starts, in order. False where a visit ended the search, or halt() holds
  // before a start.
  template <class Visit, class Halt>
  bool match(const EGraph& egraph, const Index& index, const Starts& starts, Visit&& visit, Halt&& halt) const;

  bool has_variable_root() const { return steps_.empty(); }
  Kind root_kind() const { return steps_[0].kind; }

  std::size_t num_slots() const { return pattern_.nodes.size(); }
  bool has_guards() const { return has_guards_; }
  // Operators on the longest way down from the root (0: a variable), and whether the root reaches all of the pattern.
  std::uint32_t depth() const { return depth_; }
  bool connected() const { return connected_; }
  // Found::touched leaves out that the root's e-node moved to another class: it matches there as it did.
  void ignore_moves_of_root(bool ignore) { moves_of_root_ = !ignore; }
  const Pattern& pattern() const { return pattern_; }

 private:
  struct Child {
    std::uint32_t slot;
    bool bound;           // by an earlier step or child: compare
    bool tested;          // has a class predicate
    std::uint32_t kinds;  // bits of which the class must hold one, 0: any
    bool ground;          // known before the search
    std::uint32_t twin;   // place among the children where the same slot stands first
  };
  // Finds rows for an operator node whose class is known (or, `free`, unknown: a second component of the pattern).
  struct Step {
    std::uint32_t slot = 0;
    Kind kind = 0;
    OpId op = kNone;
    std::uint32_t cached = kNone;  // place in accepts_op_
    bool free = false;
    bool plain = false;   // one OpId, not commutative, at most three children, no test on it: the usual step has a loop of its own
    bool tested = false;  // some child has a class predicate
    std::vector<Child> children;
  };
  struct Frame {
    std::uint32_t next, last;  // rows (places in kind_rows where the step is free)
    bool swapped;              // the row before `next` is to be tried in the other order
  };
  struct State {
    std::vector<Id> classes;
    std::vector<NodeId> matched;
    std::vector<OpId> ops;
    std::vector<std::uint32_t> touched;  // by step: newest stamp of the rows up to this one
    std::vector<Frame> frames;
  };
  // An operator node without variables below: looked up once per search.
  struct Ground {
    std::uint32_t slot;
    Id id = kNone;
    NodeId node = kNone;
  };

  void compile();
  void find_ground();
  void schedule(std::uint32_t node, std::vector<bool>& bound);
  bool accepts(const EGraph& egraph, std::uint32_t slot, Id id) const {
    const auto& test = pattern_.nodes[slot].accepts;
    return !test || test(egraph, id);
  }
  State start_state() const;
  Id ground_class(std::uint32_t slot) const {
    return std::find_if(ground_.begin(), ground_.end(), [&](const Ground& ground) { return ground.slot == slot; })->id;
  }
  // Cheap test of a row for the root, which most rows fail.
  bool plausible(const EGraph::Impl& g, const Index& index, const PackedENode& rec) const {
    const Step& step = steps_[0];
    if (step.op != kNone && rec.op != step.op) return false;
    if (step.children.size() > 3 || rec.pooled() || g.ops[rec.op].commutative) return true;
    for (std::size_t i = 0; i < step.children.size(); ++i) {
      const Child& child = step.children[i];
      if (rec.c[i] == kNone) return false;
      if (child.kinds != 0 && (index.kinds[rec.c[i]] & child.kinds) == 0) return false;
      if (child.twin != i && rec.c[i] != rec.c[child.twin]) return false;
      if (child.ground && rec.c[i] != ground_class(child.slot)) return false;
    }
    return true;
  }
  Frame open(const EGraph::Impl& g, const Index& index, const Step& step, const State& state) const;
  void narrow(const EGraph::Impl& g, const Index& index, const Step& step, const State& state, Frame& frame) const;
  bool next(const EGraph& egraph, const EGraph::Impl& g, const Index& index, std::size_t level, State& state) const {
    return steps_[level].plain ? next_plain(egraph, index, level, state) : next_any(egraph, g, index, level, state);
  }
  bool next_plain(const EGraph& egraph, const Index& index, std::size_t level, State& state) const;
  bool next_any(const EGraph& egraph, const EGraph::Impl& g, const Index& index, std::size_t level, State& state) const;
  std::uint32_t newest(const Index& index, std::size_t level, std::uint32_t row, const State& state) const {
    if (level > 0) return std::max(index.seen_anew[row], state.touched[level - 1]);
    return std::max(moves_of_root_ ? index.seen_anew[row] : index.touched[row], ground_touched_);
  }
  bool tests_hold(const EGraph& egraph, const Step& step, const State& state) const;
  bool take(const EGraph& egraph, const Index& index, std::size_t level, std::uint32_t row, bool swapped, State& state) const;

  Pattern pattern_;
  std::vector<Step> steps_;
  std::vector<std::vector<std::int8_t>> accepts_op_;  // by OpId: 1 yes, 0 no, -1 not of the kind
  std::vector<Ground> ground_;
  std::vector<bool> is_ground_;
  std::uint32_t ground_touched_ = 0;
  bool ground_missing_ = false, impossible_ = false;
  bool has_guards_ = false, connected_ = true, moves_of_root_ = true;
  std::uint32_t depth_ = 0;
};

template <class Visit, class Halt>
bool Matcher::match(const EGraph& egraph, const Index& index, const Starts& starts, Visit&& visit, Halt&& halt) const {
  const auto [rows, first, last] = starts;
  const EGraph::Impl& g = egraph.impl();
  const auto root = pattern_.root();
  State state;  // filled by the first start that is worth it
  if (pattern_.nodes[root].type == PatternNode::Type::kVariable) {
    state = start_state();
    for (std::size_t c = first; c < last; ++c) {
      if (index.start[c] == index.start[c + 1]) continue;
      state.classes[root] = static_cast<Id>(c);
      if (accepts(egraph, root, static_cast<Id>(c)) && !visit(Found{state.classes, state.matched, state.ops, kNone})) return false;
    }
    return true;
  }
  const bool root_tested = static_cast<bool>(pattern_.nodes[root].accepts);
  const std::size_t top = steps_.size() - 1;
  for (std::size_t i = first; i < last; ++i) {
    if (halt()) return false;
    const std::uint32_t start = rows[i];
    if (!plausible(g, index, index.rows[start])) continue;
    if (state.classes.empty()) state = start_state();
    state.classes[root] = index.cls[start];
    if (root_tested && !accepts(egraph, root, index.cls[start])) continue;
    state.frames[0] = {start, start + 1, false};
    std::size_t level = 0;
    for (;;) {
      if (!next(egraph, g, index, level, state)) {
        if (level == 0) break;
        --level;
      } else if (level == top) {
        if (!visit(Found{state.classes, state.matched, state.ops, state.touched[top]})) return false;
      } else {
        ++level;
        state.frames[level] = open(g, index, steps_[level], state);
      }
    }
  }
  return true;
}

}  // namespace saturate
