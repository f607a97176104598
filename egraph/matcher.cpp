#include "egraph/matcher.h"

#include <algorithm>

namespace saturate {

Matcher::Matcher(const Pattern& pattern) : pattern_(pattern) { compile(); }

void Matcher::find_ground() {
  is_ground_.assign(num_slots(), false);
  for (std::size_t i = 0; i + 1 < num_slots(); ++i) {
    const PatternNode& node = pattern_.nodes[i];
    if (node.type != PatternNode::Type::kOperator || node.op == kNone || node.accepts_op || node.accepts) continue;
    if (!std::all_of(node.children.begin(), node.children.end(), [&](std::uint32_t child) { return is_ground_[child]; })) continue;
    is_ground_[i] = true;
    ground_.push_back({static_cast<std::uint32_t>(i)});
  }
}

void Matcher::schedule(std::uint32_t root, std::vector<bool>& bound) {
  std::vector<std::uint32_t> todo{root};  // operator nodes whose class is bound
  while (!todo.empty()) {
    const std::uint32_t node = todo.back();
    todo.pop_back();
    const PatternNode& p = pattern_.nodes[node];
    Step step;
    step.slot = node;
    step.kind = p.kind;
    step.op = p.op;
    step.free = !bound[node];
    bound[node] = true;
    if (p.accepts_op) {
      step.cached = static_cast<std::uint32_t>(accepts_op_.size());
      accepts_op_.emplace_back();
    }
    std::vector<std::uint32_t> opened;
    for (const std::uint32_t child : p.children) {
      const PatternNode& q = pattern_.nodes[child];
      const bool is_operator = q.type == PatternNode::Type::kOperator;
      const auto twin = static_cast<std::uint32_t>(std::find(p.children.begin(), p.children.end(), child) - p.children.begin());
      step.children.push_back({child, bound[child], static_cast<bool>(q.accepts), is_operator && !bound[child] ? 1u << (q.kind % 32) : 0,
                               is_ground_[child], twin});
      step.tested |= static_cast<bool>(q.accepts);
      if (!bound[child] && is_operator) opened.push_back(child);
      bound[child] = true;
    }
    todo.insert(todo.end(), opened.rbegin(), opened.rend());
    steps_.push_back(std::move(step));
  }
}

void Matcher::compile() {
  if (num_slots() == 0) return;
  std::vector<std::uint32_t> depth(num_slots(), 0);
  for (std::size_t i = 0; i < num_slots(); ++i) {
    if (pattern_.nodes[i].type == PatternNode::Type::kOperator) depth[i] = 1;
    for (const std::uint32_t child : pattern_.nodes[i].children) depth[i] = std::max(depth[i], depth[child] + 1);
  }
  depth_ = depth.back();
  for (const PatternNode& node : pattern_.nodes) has_guards_ |= static_cast<bool>(node.accepts);
  if (pattern_.nodes.back().type == PatternNode::Type::kVariable) {
    // A variable as the root stands alone: nothing ties further operators to it.
    impossible_ = std::any_of(pattern_.nodes.begin(), pattern_.nodes.end(),
                              [](const PatternNode& n) { return n.type == PatternNode::Type::kOperator; });
    return;
  }
  find_ground();
  std::vector<bool> bound = is_ground_;
  bound[pattern_.root()] = true;
  schedule(pattern_.root(), bound);
  // Operator nodes that the root does not reach (a second root): later ones first, so that each component starts at its own root.
  for (std::size_t i = num_slots(); i-- > 0;) {
    if (!bound[i] && pattern_.nodes[i].type == PatternNode::Type::kOperator) {
      connected_ = false;
      schedule(static_cast<std::uint32_t>(i), bound);
    }
  }
}

void Matcher::prepare(const EGraph& egraph) {
  const EGraph::Impl& g = egraph.impl();
  const OpTable& ops = g.ops;
  for (Step& step : steps_) {
    step.plain = !step.free && step.cached == kNone && step.children.size() <= 3 && step.op < ops.size() &&
                 ops[step.op].kind == step.kind && !ops[step.op].commutative;
    if (step.cached == kNone) continue;
    std::vector<std::int8_t>& answers = accepts_op_[step.cached];
    const std::size_t known = answers.size();
    if (known == ops.size()) continue;
    answers.resize(ops.size(), -1);
    const std::span<const OpId> of_kind = ops.of_kind(step.kind);
    for (auto op = std::lower_bound(of_kind.begin(), of_kind.end(), known); op != of_kind.end(); ++op) {
      answers[*op] = pattern_.nodes[step.slot].accepts_op(*op) ? 1 : 0;
    }
  }
  ground_missing_ = false;
  ground_touched_ = 0;
  std::vector<Id> children;
  for (Ground& ground : ground_) {
    const PatternNode& p = pattern_.nodes[ground.slot];
    children.clear();
    for (const std::uint32_t child : p.children) {
      children.push_back(std::find_if(ground_.begin(), ground_.end(), [&](const Ground& other) { return other.slot == child; })->id);
    }
    ground.node = p.op < ops.size() && ops[p.op].kind == p.kind ? g.find_node(p.op, children) : kNone;
    if (ground.node == kNone) {
      ground_missing_ = true;
      return;
    }
    ground.id = g.find(ground.node);
    ground_touched_ = std::max({ground_touched_, g.touched[ground.node], g.moved[ground.node]});
  }
}

Matcher::State Matcher::start_state() const {
  const std::size_t n = num_slots();
  State state{std::vector<Id>(n, kNone), std::vector<NodeId>(n, kNone), std::vector<OpId>(n, kNone),
              std::vector<std::uint32_t>(steps_.size(), 0), std::vector<Frame>(steps_.size())};
  for (const Ground& ground : ground_) {
    state.classes[ground.slot] = ground.id;
    state.matched[ground.slot] = ground.node;
    state.ops[ground.slot] = pattern_.nodes[ground.slot].op;
  }
  return state;
}

std::size_t Matcher::num_starts(const EGraph::Impl& g, std::span<const std::uint32_t> rows) const {
  if (num_slots() == 0 || ground_missing_ || impossible_) return 0;
  return has_variable_root() ? g.recs.size() : rows.size();
}

Matcher::Frame Matcher::open(const EGraph::Impl& g, const Index& index, const Step& step, const State& state) const {
  if (step.free) {
    const auto [first, last] = index.places(step.kind);
    return {first, last, false};
  }
  const Id c = state.classes[step.slot];
  Frame frame{index.start[c], index.start[c + 1], false};
  if (frame.last - frame.next > 8) narrow(g, index, step, state, frame);
  return frame;
}

// Rows of a class are sorted by kind, then operator, then children: binary search.
void Matcher::narrow(const EGraph::Impl& g, const Index& index, const Step& step, const State& state, Frame& frame) const {
  const PackedENode* rows = index.rows.data();
  const auto search = [&](auto before, auto after) {
    frame.next = static_cast<std::uint32_t>(std::partition_point(rows + frame.next, rows + frame.last, before) - rows);
    frame.last = static_cast<std::uint32_t>(std::partition_point(rows + frame.next, rows + frame.last, after) - rows);
  };
  search([&](const PackedENode& row) { return g.ops[row.op].kind < step.kind; },
         [&](const PackedENode& row) { return g.ops[row.op].kind == step.kind; });
  if (step.op == kNone) return;
  search([&](const PackedENode& row) { return row.op < step.op; }, [&](const PackedENode& row) { return row.op == step.op; });
  if (step.children.empty() || !step.children[0].bound || g.ops[step.op].commutative || frame.last - frame.next <= 4) return;
  const Id wanted = state.classes[step.children[0].slot] + 1;
  const Id* pool = g.pool.data();
  // One more than the first child, so that rows without children come first, where they are sorted to.
  const auto first_child = [pool](const PackedENode& row) { return (row.pooled() ? pool[row.c[0]] : row.c[0]) + 1; };
  search([&](const PackedENode& row) { return first_child(row) < wanted; },
         [&](const PackedENode& row) { return first_child(row) == wanted; });
}

bool Matcher::tests_hold(const EGraph& egraph, const Step& step, const State& state) const {
  return std::all_of(step.children.begin(), step.children.end(), [&](const Child& child) {
    return child.bound || !child.tested || accepts(egraph, child.slot, state.classes[child.slot]);
  });
}

bool Matcher::take(const EGraph& egraph, const Index& index, std::size_t level, std::uint32_t row, bool swapped, State& state) const {
  const Step& step = steps_[level];
  const PackedENode& rec = index.rows[row];
  const Id* children = rec.child_data(egraph.impl().pool.data());
  const std::size_t n = step.children.size();
  Id* classes = state.classes.data();
  for (std::size_t i = 0; i < n; ++i) {
    const Child& child = step.children[i];
    const Id id = children[swapped ? 1 - i : i];
    if (child.bound) {
      if (classes[child.slot] != id) return false;
      continue;
    }
    if (child.kinds != 0 && (index.kinds[id] & child.kinds) == 0) return false;
    classes[child.slot] = id;
  }
  if (step.tested && !tests_hold(egraph, step, state)) return false;
  state.matched[step.slot] = index.node[row];
  state.ops[step.slot] = rec.op;
  state.touched[level] = newest(index, level, row, state);
  return true;
}

bool Matcher::next_plain(const EGraph& egraph, const Index& index, std::size_t level, State& state) const {
  const Step& step = steps_[level];
  Frame& frame = state.frames[level];
  const PackedENode* const rows = index.rows.data();
  const Child* const children = step.children.data();
  const std::size_t n = step.children.size();
  Id* const classes = state.classes.data();
  for (std::uint32_t row = frame.next; row != frame.last; ++row) {
    const PackedENode& rec = rows[row];
    if (rec.op != step.op || !rec.has_inline(n)) continue;
    bool fits = true;
    for (std::size_t i = 0; i < n && fits; ++i) {
      const Child& child = children[i];
      const Id id = rec.c[i];
      if (child.bound) {
        fits = classes[child.slot] == id;
      } else {
        fits = child.kinds == 0 || (index.kinds[id] & child.kinds) != 0;
        classes[child.slot] = id;
      }
    }
    if (!fits || (step.tested && !tests_hold(egraph, step, state))) continue;
    frame.next = row + 1;
    state.matched[step.slot] = index.node[row];
    state.ops[step.slot] = rec.op;
    state.touched[level] = newest(index, level, row, state);
    return true;
  }
  frame.next = frame.last;
  return false;
}

bool Matcher::next_any(const EGraph& egraph, const EGraph::Impl& g, const Index& index, std::size_t level, State& state) const {
  const Step& step = steps_[level];
  Frame& frame = state.frames[level];
  for (;;) {
    if (frame.swapped) {
      frame.swapped = false;
      const std::uint32_t row = step.free ? index.kind_rows[frame.next - 1] : frame.next - 1;
      if (take(egraph, index, level, row, true, state)) return true;
      continue;
    }
    if (frame.next == frame.last) return false;
    const std::uint32_t row = step.free ? index.kind_rows[frame.next] : frame.next;
    ++frame.next;
    const PackedENode& rec = index.rows[row];
    if (step.op != kNone && rec.op != step.op) continue;
    const OpTraits& traits = g.ops[rec.op];
    if (traits.kind != step.kind || rec.arity() != step.children.size()) continue;
    if (step.cached != kNone && accepts_op_[step.cached][rec.op] != 1) continue;
    if (step.free) {
      state.classes[step.slot] = index.cls[row];
      if (!accepts(egraph, step.slot, index.cls[row])) continue;
    }
    frame.swapped = traits.commutative && step.children.size() == 2 && rec.c[0] != rec.c[1];
    if (take(egraph, index, level, row, false, state)) return true;
  }
}

std::vector<OwnedMatch> search(const EGraph& egraph, const Pattern& pattern, std::size_t limit) {
  std::vector<OwnedMatch> out;
  if (limit == 0) return out;
  const Index& index = egraph.impl().sorted_index();
  Matcher matcher(pattern);
  matcher.prepare(egraph);
  const auto visit = [&](const Matcher::Found& found) {
    out.push_back(
        {{found.classes.begin(), found.classes.end()}, {found.matched.begin(), found.matched.end()}, {found.ops.begin(), found.ops.end()}});
    return out.size() < limit;
  };
  const auto rows = matcher.has_variable_root() ? std::span<const std::uint32_t>() : index.of_kind(matcher.root_kind());
  matcher.match(egraph, index, {rows, 0, matcher.num_starts(egraph.impl(), rows)}, visit, [] { return false; });
  return out;
}

}  // namespace saturate
