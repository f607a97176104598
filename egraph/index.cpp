#include "egraph/index.h"

#include <algorithm>
#include <atomic>

#include "egraph/egraph_impl.h"
#include "egraph/parallel.h"

namespace saturate {
namespace {

struct RowOrder {
  const OpTable& ops;
  const ReservedArray<PackedENode>& recs;
  const Id* pool;
  bool operator()(NodeId a, NodeId b) const {
    const PackedENode &x = recs[a], &y = recs[b];
    if (x.op != y.op) {
      const Kind kx = ops[x.op].kind, ky = ops[y.op].kind;
      return kx != ky ? kx < ky : x.op < y.op;
    }
    const auto cx = x.children(pool), cy = y.children(pool);
    return std::lexicographical_compare(cx.begin(), cx.end(), cy.begin(), cy.end());
  }
};

// Builds the index in passes over stretches of ids or classes, each stretch by one thread. Within a class the order of rows is total
// (no two live e-nodes of a class are equal), so it does not matter which thread counts or places a row first.
template <bool kShared>
class IndexBuilder {
 public:
  IndexBuilder(EGraph::Impl& g, Index& index) : g_(g), index_(index), ids_(g.recs.size()) {}

  void build() {
    index_.start.assign(ids_ + 2, 0);
    index_.node.resize(g_.live_nodes);
    index_.kinds.assign(ids_, 0);
    index_.rows.resize(g_.live_nodes);
    index_.cls.resize(g_.live_nodes);
    index_.touched.resize(g_.live_nodes);
    index_.seen_anew.resize(g_.live_nodes);
    over(ids_, [&](std::size_t first, std::size_t last) { compress(first, last); });
    over(ids_, [&](std::size_t first, std::size_t last) { count(first, last); });
    for (std::size_t c = 2; c < ids_ + 2; ++c) index_.start[c] += index_.start[c - 1];
    over(ids_, [&](std::size_t first, std::size_t last) { place(first, last); });
    over(ids_, [&](std::size_t first, std::size_t last) { fill(first, last); });
    index_kinds();
  }

 private:
  template <class Pass>
  void over(std::size_t n, const Pass& pass) {
    if constexpr (!kShared) {
      pass(std::size_t{0}, n);
    } else {
      over_stretches(g_.team.get(), n, kStretch, pass);
    }
  }
  static std::uint32_t take_one(std::uint32_t& counter) {
    if constexpr (!kShared) return counter++;
    return std::atomic_ref(counter).fetch_add(1, std::memory_order_relaxed);
  }
  Id root(Id id) const {
    for (;;) {
      const Id up = kShared ? std::atomic_ref(g_.parent[id]).load(std::memory_order_relaxed) : g_.parent[id];
      if (up == id) return id;
      id = up;
    }
  }
  // Other threads climb the same ways meanwhile: whichever parent they see, old or new, leads to the root.
  void compress(std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      const Id r = root(static_cast<Id>(i));
      if constexpr (kShared) {
        std::atomic_ref(g_.parent[i]).store(r, std::memory_order_relaxed);
      } else {
        g_.parent[i] = r;
      }
    }
  }
  bool live(std::size_t i) const { return (g_.flags[i] & EGraph::Impl::kDead) == 0; }
  void count(std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      if (!live(i)) continue;
      const Id c = g_.parent[i];
      take_one(index_.start[c + 2]);
      if (g_.row_class[i] == c) continue;
      if (g_.row_class[i] != kNone) g_.moved[i] = g_.stamp;
      g_.row_class[i] = c;
    }
  }
  void place(std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      if (live(i)) index_.node[take_one(index_.start[g_.parent[i] + 1])] = static_cast<NodeId>(i);
    }
  }
  // Sorts the rows of classes first..last-1 and copies what matching reads.
  void fill(std::size_t first, std::size_t last) {
    const RowOrder order{g_.ops, g_.recs, g_.pool.data()};
    for (std::size_t c = first; c < last; ++c) {
      const std::uint32_t begin = index_.start[c], end = index_.start[c + 1];
      if (begin == end) continue;
      sort_class(index_.node.data() + begin, index_.node.data() + end, order);
      std::uint32_t kinds = 0;
      for (std::uint32_t r = begin; r < end; ++r) {
        const NodeId node = index_.node[r];
        index_.rows[r] = g_.recs[node];
        index_.cls[r] = static_cast<Id>(c);
        index_.touched[r] = g_.touched[node];
        index_.seen_anew[r] = std::max(g_.touched[node], g_.moved[node]);
        kinds |= 1u << (g_.ops[g_.recs[node].op].kind % 32);
      }
      index_.kinds[c] = kinds;
    }
  }
  static void sort_class(NodeId* first, NodeId* last, const RowOrder& order) {
    if (last - first > 16) return std::sort(first, last, order);
    for (NodeId* i = first + 1; i < last; ++i) {
      const NodeId x = *i;
      NodeId* j = i;
      for (; j > first && order(x, j[-1]); --j) *j = j[-1];
      *j = x;
    }
  }
  void index_kinds() {
    const std::size_t kinds = g_.ops.num_kinds();
    index_.kind_start.assign(kinds + 2, 0);
    for (const PackedENode& row : index_.rows) ++index_.kind_start[g_.ops[row.op].kind + 2];
    for (std::size_t k = 2; k < kinds + 2; ++k) index_.kind_start[k] += index_.kind_start[k - 1];
    index_.kind_rows.resize(index_.rows.size());
    for (std::size_t r = 0; r < index_.rows.size(); ++r) {
      index_.kind_rows[index_.kind_start[g_.ops[index_.rows[r].op].kind + 1]++] = static_cast<std::uint32_t>(r);
    }
  }

  static constexpr std::size_t kStretch = 32'768;
  EGraph::Impl& g_;
  Index& index_;
  std::size_t ids_;
};

void build(EGraph::Impl& g, Index& index) {
  // Below this, one thread is done before the others have woken up.
  constexpr std::size_t kWorthThreads = 200'000;
  if (!g.team || g.recs.size() < kWorthThreads) {
    IndexBuilder<false>(g, index).build();
  } else {
    IndexBuilder<true>(g, index).build();
  }
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
