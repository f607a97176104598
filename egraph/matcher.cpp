#include "egraph/matcher.h"

#include <algorithm>

namespace saturate {

Matcher::Matcher(const Pattern& pattern) : pattern_(pattern) { compile(); }

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
      step.children.push_back({child, bound[child]});
      if (!bound[child] && pattern_.nodes[child].type == PatternNode::Type::kOperator) opened.push_back(child);
      bound[child] = true;
    }
    todo.insert(todo.end(), opened.rbegin(), opened.rend());
    steps_.push_back(std::move(step));
  }
}

void Matcher::compile() {
  std::vector<bool> bound(num_slots(), false);
  std::vector<std::uint32_t> depth(num_slots(), 0);
  for (std::size_t i = 0; i < num_slots(); ++i) {
    has_guards_ |= static_cast<bool>(pattern_.nodes[i].accepts);
    for (const std::uint32_t child : pattern_.nodes[i].children) depth[i] = std::max(depth[i], depth[child] + 1);
    depth_ = std::max(depth_, depth[i]);
  }
  if (num_slots() == 0) return;
  if (pattern_.nodes.back().type == PatternNode::Type::kVariable) return;
  bound[pattern_.root()] = true;
  schedule(pattern_.root(), bound);
  // Operator nodes that the root does not reach (a second root): later ones first, so that each component starts at its own root.
  for (std::size_t i = num_slots(); i-- > 0;) {
    if (!bound[i] && pattern_.nodes[i].type == PatternNode::Type::kOperator) schedule(static_cast<std::uint32_t>(i), bound);
  }
}

void Matcher::prepare(const EGraph& egraph) {
  const OpTable& ops = egraph.impl().ops;
  for (const Step& step : steps_) {
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
}

std::size_t Matcher::num_starts(const EGraph::Impl& g, const Index& index) const {
  if (num_slots() == 0) return 0;
  if (pattern_.nodes.back().type == PatternNode::Type::kVariable) return g.recs.size();
  const Kind kind = steps_[0].kind;
  if (kind + std::size_t{2} >= index.kind_start.size()) return 0;
  return index.kind_start[kind + 1] - index.kind_start[kind];
}

Matcher::Frame Matcher::open(const EGraph::Impl& g, const Index& index, const Step& step, const State& state) const {
  if (step.free) {
    if (step.kind + std::size_t{2} >= index.kind_start.size()) return {0, 0, false};
    return {index.kind_start[step.kind], index.kind_start[step.kind + 1], false};
  }
  const Id c = state.classes[step.slot];
  std::uint32_t first = index.start[c], last = index.start[c + 1];
  if (last - first > 8) {
    // Rows of a class are sorted by kind, then operator, then children.
    const auto before = [&](const Rec& row, Kind kind) { return g.ops[row.op].kind < kind; };
    const auto after = [&](Kind kind, const Rec& row) { return kind < g.ops[row.op].kind; };
    const Rec* rows = index.rows.data();
    first = static_cast<std::uint32_t>(std::lower_bound(rows + first, rows + last, step.kind, before) - rows);
    last = static_cast<std::uint32_t>(std::upper_bound(rows + first, rows + last, step.kind, after) - rows);
    if (step.op != kNone) {
      first = static_cast<std::uint32_t>(std::lower_bound(rows + first, rows + last, step.op, [](const Rec& row, OpId op) { return row.op < op; }) - rows);
      last = static_cast<std::uint32_t>(std::upper_bound(rows + first, rows + last, step.op, [](OpId op, const Rec& row) { return op < row.op; }) - rows);
      if (!step.children.empty() && step.children[0].bound && step.children.size() <= 3 && !g.ops[step.op].commutative && last - first > 8) {
        // Rows of other arity are among them, but pooled ones compare by their place: only exact where all have few children.
        const Id child = state.classes[step.children[0].slot];
        bool pooled = false;
        for (std::uint32_t r = first; r < last && !pooled; ++r) pooled = rows[r].pooled();
        if (!pooled) {
          first = static_cast<std::uint32_t>(std::lower_bound(rows + first, rows + last, child, [](const Rec& row, Id id) { return row.c[0] + 1 < id + 1; }) - rows);
          last = static_cast<std::uint32_t>(std::upper_bound(rows + first, rows + last, child, [](Id id, const Rec& row) { return id + 1 < row.c[0] + 1; }) - rows);
        }
      }
    }
  }
  return {first, last, false};
}

bool Matcher::take(const EGraph& egraph, const Index& index, const Step& step, std::uint32_t row, bool swapped, State& state) const {
  const EGraph::Impl& g = egraph.impl();
  const Rec& rec = index.rows[row];
  const Id* children = rec.child_data(g.pool.data());
  for (std::size_t i = 0; i < step.children.size(); ++i) {
    const Child& child = step.children[i];
    const Id id = children[swapped ? 1 - i : i];
    if (child.bound) {
      if (state.classes[child.slot] != id) return false;
    } else {
      state.classes[child.slot] = id;
    }
  }
  for (const Child& child : step.children) {
    if (!child.bound && !accepts(egraph, child.slot, state.classes[child.slot])) return false;
  }
  state.matched[step.slot] = index.node[row];
  state.ops[step.slot] = rec.op;
  state.touched[step.slot] = index.touched[row];
  return true;
}

bool Matcher::next(const EGraph& egraph, const Index& index, std::size_t level, State& state) const {
  const EGraph::Impl& g = egraph.impl();
  const Step& step = steps_[level];
  Frame& frame = state.frames[level];
  for (;;) {
    if (frame.swapped) {
      frame.swapped = false;
      const std::uint32_t row = step.free ? index.kind_rows[frame.next - 1] : frame.next - 1;
      if (take(egraph, index, step, row, true, state)) return true;
      continue;
    }
    if (frame.next == frame.last) return false;
    const std::uint32_t row = step.free ? index.kind_rows[frame.next] : frame.next;
    ++frame.next;
    const Rec& rec = index.rows[row];
    const OpTraits& traits = g.ops[rec.op];
    if (traits.kind != step.kind || (step.op != kNone && rec.op != step.op) || rec.arity() != step.children.size()) continue;
    if (step.cached != kNone && accepts_op_[step.cached][rec.op] != 1) continue;
    if (step.free) {
      state.classes[step.slot] = index.cls[row];
      if (!accepts(egraph, step.slot, index.cls[row])) continue;
    }
    frame.swapped = traits.commutative && step.children.size() == 2 && rec.c[0] != rec.c[1];
    if (take(egraph, index, step, row, false, state)) return true;
  }
}

std::vector<OwnedMatch> search(const EGraph& egraph, const Pattern& pattern, std::size_t limit) {
  std::vector<OwnedMatch> out;
  if (limit == 0) return out;
  Matcher matcher(pattern);
  matcher.prepare(egraph);
  const Index& index = egraph.impl().sorted_index();
  matcher.match(egraph, index, 0, matcher.num_starts(egraph.impl(), index), [&](const Matcher::Found& found) {
    out.push_back({{found.classes.begin(), found.classes.end()}, {found.matched.begin(), found.matched.end()}, {found.ops.begin(), found.ops.end()}});
    return out.size() < limit;
  });
  return out;
}

}  // namespace saturate
