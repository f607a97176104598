#include "egraph/index.h"

#include <algorithm>

#include "egraph/impl.h"

namespace saturate {
namespace {

struct RowOrder {
  const OpTable& ops;
  const Arena<Rec>& recs;
  const Id* pool;
  bool operator()(NodeId a, NodeId b) const {
    const Rec &x = recs[a], &y = recs[b];
    if (x.op != y.op) {
      const Kind kx = ops[x.op].kind, ky = ops[y.op].kind;
      return kx != ky ? kx < ky : x.op < y.op;
    }
    const auto cx = x.children(pool), cy = y.children(pool);
    return std::lexicographical_compare(cx.begin(), cx.end(), cy.begin(), cy.end());
  }
};

void sort_rows(const EGraph::Impl& g, Index& index) {
  const RowOrder order{g.ops, g.recs, g.pool.data()};
  for (std::size_t c = 0; c < g.parent.size(); ++c) {
    NodeId* first = index.node.data() + index.start[c];
    NodeId* last = index.node.data() + index.start[c + 1];
    if (last - first < 2) continue;
    if (last - first > 16) {
      std::sort(first, last, order);
      continue;
    }
    for (NodeId* i = first + 1; i < last; ++i) {
      const NodeId x = *i;
      NodeId* j = i;
      for (; j > first && order(x, j[-1]); --j) *j = j[-1];
      *j = x;
    }
  }
}

void index_kinds(const EGraph::Impl& g, Index& index) {
  const std::size_t kinds = g.ops.num_kinds();
  index.kind_start.assign(kinds + 2, 0);
  for (const Rec& row : index.rows) ++index.kind_start[g.ops[row.op].kind + 2];
  for (std::size_t k = 2; k < kinds + 2; ++k) index.kind_start[k] += index.kind_start[k - 1];
  index.kind_rows.resize(index.rows.size());
  for (std::size_t r = 0; r < index.rows.size(); ++r) {
    index.kind_rows[index.kind_start[g.ops[index.rows[r].op].kind + 1]++] = static_cast<std::uint32_t>(r);
  }
}

// Counting sort by class, then each class by itself.
void build(EGraph::Impl& g, Index& index) {
  g.compress();
  const std::size_t n = g.recs.size();
  index.start.assign(n + 2, 0);
  for (std::size_t i = 0; i < n; ++i) {
    if ((g.flags[i] & EGraph::Impl::kDead) != 0) continue;
    const Id c = g.parent[i];
    ++index.start[c + 2];
    if (g.row_class[i] != c) {
      if (g.row_class[i] != kNone) g.touched[i] = g.stamp;
      g.row_class[i] = c;
    }
  }
  for (std::size_t c = 2; c < n + 2; ++c) index.start[c] += index.start[c - 1];
  index.node.resize(g.live_nodes);
  for (std::size_t i = 0; i < n; ++i) {
    if ((g.flags[i] & EGraph::Impl::kDead) == 0) index.node[index.start[g.parent[i] + 1]++] = static_cast<NodeId>(i);
  }
  sort_rows(g, index);
  const std::size_t rows = g.live_nodes;
  index.kinds.assign(n, 0);
  index.rows.resize(rows);
  index.cls.resize(rows);
  index.touched.resize(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    const NodeId node = index.node[r];
    index.rows[r] = g.recs[node];
    index.cls[r] = g.parent[node];
    index.kinds[g.parent[node]] |= 1u << (g.ops[g.recs[node].op].kind % 32);
    index.touched[r] = g.touched[node];
  }
  index_kinds(g, index);
  index.version = g.version;
}

}  // namespace

const Index& EGraph::Impl::sorted_index() const {
  const std::lock_guard lock(index_mutex);
  // The index is a cache: building it compresses paths and marks moved rows, but changes nothing that can be seen.
  if (index.version != version) build(const_cast<Impl&>(*this), index);
  return index;
}

}  // namespace saturate
