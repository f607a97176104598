#include "egraph/batch_apply.h"

#include <algorithm>
#include <array>

namespace saturate {
namespace {

constexpr std::size_t kAhead = 16;  // how many matches ahead memory is asked for

// The children of an e-node, each class once, in the order of insert_ensured().
std::size_t distinct(const PackedENode& rec, std::array<Id, 3>& out) {
  std::size_t n = 0;
  if (rec.c[0] != kNone) out[n++] = rec.c[0];
  if (rec.c[1] != kNone && rec.c[1] != rec.c[0]) out[n++] = rec.c[1];
  if (rec.c[2] != kNone && rec.c[2] != rec.c[1] && rec.c[2] != rec.c[0]) out[n++] = rec.c[2];
  return n;
}

}  // namespace

void BatchApplier::apply(const std::uint32_t* words, std::size_t stride, std::size_t count) {
  words_ = words, stride_ = stride, count_ = count;
  constexpr std::size_t kPhases = 12;  // of a usual template
  team_ = g_.team && count > kStretch && g_.recs.size() >= g_.team_from && g_.team->helpful(kPhases) ? g_.team.get() : nullptr;
  columns_.resize(nodes_.size() * kMost);
  roots_.resize(kMost);
  unite_.resize(kMost / kStretch);
  losers_.resize(kMost / kStretch);
  over([&](std::size_t first, std::size_t last) { bind(first, last); });
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].op != kNone) add(i);
  }
  for (auto& matches : unite_) matches.clear();
  over([&](std::size_t first, std::size_t last) { find_unions(first, last); });
  const Id* right = column(nodes_.size() - 1);
  for (const auto& matches : unite_) {
    for (const std::uint32_t b : matches) g_.merge(roots_[b], right[b], rule_);
  }
}

std::size_t BatchApplier::bytes() const {
  return (columns_.size() + roots_.size()) * sizeof(Id) + recs_.size() * sizeof(PackedENode) + place_.size() * sizeof(std::size_t);
}

void BatchApplier::bind(std::size_t first, std::size_t last) {
  const auto fill = [&](std::size_t slot, Id* out) {
    const std::uint32_t* from = words_ + slot;
    for (std::size_t b = first; b < last; ++b) {
      if (b + kAhead < last) __builtin_prefetch(&g_.parent[from[(b + kAhead) * stride_]]);
      out[b] = g_.find(from[b * stride_]);
    }
  };
  fill(root_, roots_.data());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].op == kNone) fill(nodes_[i].slot, column(i));
  }
}

void BatchApplier::add(std::size_t i) {
  recs_.resize(kMost);
  place_.resize(kMost);
  made_.assign(kMost / kStretch, {});
  base_ = static_cast<NodeId>(g_.recs.size());
  cells_ = g_.cells.size();
  g_.table.reserve(count_, team_);
  g_.ensure_ids(count_);
  if (team_ != nullptr && pages_ahead_) touch_pages();
  const bool top = i + 1 == nodes_.size();
  if (team_ != nullptr) {
    over([&](std::size_t first, std::size_t last) { look_up<true>(i, first, last); });
  } else {
    look_up<false>(i, 0, count_);
  }
  drop_losers(column(i));
  Made sum;
  for (Made& made : made_) {
    const Made own = std::exchange(made, sum);
    sum.nodes += own.nodes, sum.cells += own.cells;
  }
  g_.grow_ids(sum.nodes, sum.cells);
  over([&](std::size_t first, std::size_t last) { write(column(i), top, first, last); });
  g_.table.added(sum.nodes);
  if (!top) g_.live_classes += sum.nodes;
  const Id* const ids = column(i);
  // Claims that lost get what won; and the new e-nodes enter the parent lists of their children, each list written by one owner, in the
  // order of ids.
  const auto follow = [&, out = column(i)](std::size_t first, std::size_t last) {
    for (std::size_t b = first; b < last; ++b) {
      if (place_[b] == kTwin) out[b] = ids[out[b] - base_];
    }
  };
  if (team_ == nullptr) {
    follow(0, count_);
    return link(0, 1, sum);
  }
  const std::size_t owners = team_->threads(), stretches = (count_ + kStretch - 1) / kStretch;
  team_->run(owners + stretches, [&](std::size_t task, std::size_t) {
    if (task < owners) return link(task, owners, sum);
    const std::size_t first = (task - owners) * kStretch;
    follow(first, std::min(count_, first + kStretch));
  });
}

// The e-nodes that the matches need: found, or claimed by the match.
template <bool kShared>
void BatchApplier::look_up(std::size_t i, std::size_t first, std::size_t last) {
  constexpr std::size_t kBatch = 64;
  const Template::Node& node = nodes_[i];
  const std::size_t n = node.children.size();
  const Id* columns[3] = {};
  Id* out = column(i);
  std::uint32_t hashes[kBatch];
  std::array<Id, 3> children;
  Made& total = made_[stretch_of(first)];
  Made made;
  std::vector<std::uint32_t>& losers = losers_[stretch_of(first)];
  for (; first < last; first += std::min(kBatch, last - first)) {
    const std::size_t count = std::min(kBatch, last - first);
    PackedENode* recs = recs_.data() + first;
    for (std::size_t k = 0; k < n; ++k) columns[k] = column(node.children[k]) + first;
    g_.compose(node.op, std::span(columns, n), count, recs, hashes);
    for (std::size_t b = 0; b < count; ++b) {
      const NodeId likely = g_.table.template home_id<kShared>(hashes[b]);
      if (likely >= base_) continue;
      __builtin_prefetch(&g_.recs[likely]);
      __builtin_prefetch(&g_.parent[likely]);
    }
    for (std::size_t b = 0; b < count; ++b) {
      const auto claim = g_.table.template claim<kShared>(hashes[b], base_ + static_cast<NodeId>(first + b),
                                                          [&](NodeId id) { return equal(id, recs[b]); });
      if (claim.id < base_) {
        place_[first + b] = kFound;
        out[first + b] = g_.find(claim.id);
        continue;
      }
      place_[first + b] = claim.place;
      ++made.nodes;
      made.cells += distinct(recs[b], children);
      if (claim.id != base_ + first + b) losers.push_back(static_cast<std::uint32_t>(std::max<std::size_t>(claim.id - base_, first + b)));
    }
  }
  total = made;
}

// Of each two claims of one e-node the later match has lost: it gets what the other makes.
void BatchApplier::drop_losers(Id* out) {
  std::array<Id, 3> children;
  for (auto& losers : losers_) {
    for (const std::uint32_t b : losers) {
      Made& made = made_[stretch_of(b)];
      --made.nodes;
      made.cells -= distinct(recs_[b], children);
      out[b] = g_.table.id_at(place_[b]);
      place_[b] = kTwin;
    }
    losers.clear();
  }
}

void BatchApplier::write(Id* out, bool top, std::size_t first, std::size_t last) {
  NodeId id = base_ + static_cast<NodeId>(made_[stretch_of(first)].nodes);
  std::size_t cell = cells_ + made_[stretch_of(first)].cells;
  std::array<Id, 3> children;
  for (std::size_t b = first; b < last; ++b) {
    if (place_[b] >= kTwin) continue;
    g_.recs[id] = recs_[b];
    g_.parent[id] = top ? roots_[b] : id;
    g_.made_by[id] = g_.current_rule;
    g_.touched[id] = g_.stamp;
    g_.moved[id] = 0;
    g_.row_class[id] = kNone;
    g_.flags[id] = 0;
    g_.uses[id] = {kNone, 0};
    g_.table.settle(place_[b], id);
    for (std::size_t k = distinct(recs_[b], children); k > 0; --k) g_.cells[cell++].node = id;
    out[b] = id++;
  }
}

void BatchApplier::link(std::size_t owner, std::size_t owners, Made end) {
  // Eight classes in a row have one owner, so that no two threads write to one cache line.
  const auto owned = [&](Id child) { return owners == 1 || std::uint64_t{(child >> 3) * 0x9e3779b9u} * owners >> 32 == owner; };
  std::array<Id, 3> children;
  std::size_t cell = cells_;
  const NodeId stop = base_ + static_cast<NodeId>(end.nodes);
  for (NodeId id = base_; id < stop; ++id) {
    if (id + kAhead < stop) {
      for (const Id child : g_.recs[id + kAhead].c) {
        if (child != kNone && owned(child)) __builtin_prefetch(&g_.uses[child], 1);
      }
    }
    const std::size_t n = distinct(g_.recs[id], children);
    for (std::size_t k = 0; k < n; ++k, ++cell) {
      if (!owned(children[k])) continue;
      EGraph::Impl::Uses& list = g_.uses[children[k]];
      g_.cells[cell].next = list.head;
      list = {static_cast<std::uint32_t>(cell), list.count + 1};
    }
  }
}

void BatchApplier::find_unions(std::size_t first, std::size_t last) {
  const Id* right = column(nodes_.size() - 1);
  const bool top = nodes_.back().op != kNone;
  for (std::size_t b = first; b < last; ++b) {
    if (top && place_[b] < kTwin) continue;  // made, in the class of the match
    if (g_.find(right[b]) != roots_[b]) unite_[stretch_of(first)].push_back(static_cast<std::uint32_t>(b));
  }
}

// New memory costs as much time as what is written to it: the threads share that too, each huge page touched by one.
void BatchApplier::touch_pages() {
  constexpr std::size_t kPiece = std::size_t{2} << 20, kPage = 4096;
  if (g_.recs.size() + count_ <= pages_ready_) return;
  const std::size_t more = std::max(count_, g_.recs.size() / 8);
  pages_ready_ = g_.recs.size() + more;
  std::vector<std::span<std::byte>> pieces;
  for (std::span<std::byte> bytes : g_.behind(more)) {
    while (!bytes.empty()) {
      const std::size_t size = std::min(bytes.size(), kPiece - reinterpret_cast<std::uintptr_t>(bytes.data()) % kPiece);
      pieces.push_back(bytes.first(size));
      bytes = bytes.subspan(size);
    }
  }
  team_->run(pieces.size(), [&](std::size_t i, std::size_t) {
    for (std::size_t at = 0; at < pieces[i].size(); at += kPage) pieces[i][at] = std::byte{0};
    pieces[i].back() = std::byte{0};
  });
}

}  // namespace saturate
