#include "egraph/egraph.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "egraph/egraph_impl.h"
#include "egraph/invariants.h"

namespace saturate {

OpId OpTable::add(OpTraits traits) {
  const auto id = static_cast<OpId>(traits_.size());
  traits_.push_back(traits);
  if (by_kind_.size() <= traits.kind) by_kind_.resize(traits.kind + 1);
  by_kind_[traits.kind].push_back(id);
  any_commutative_ |= traits.commutative;
  return id;
}

std::span<const OpId> OpTable::of_kind(Kind kind) const {
  if (kind >= by_kind_.size()) return {};
  return by_kind_[kind];
}

PackedENode EGraph::Impl::canonical(OpId op, std::span<const Id> children_in) {
  const std::size_t n = children_in.size();
  PackedENode rec{op, {kNone, kNone, kNone}};
  if (n <= 3) {
    for (std::size_t i = 0; i < n; ++i) rec.c[i] = find_halving(children_in[i]);
    if (n == 2 && rec.c[0] > rec.c[1] && ops[op].commutative) std::swap(rec.c[0], rec.c[1]);
    return rec;
  }
  const std::vector<Id> copy(children_in.begin(), children_in.end());  // may stand in the pool that grows here
  const std::size_t place = pool.size();
  for (const Id id : copy) pool.push_back(find_halving(id));
  rec.c[0] = static_cast<Id>(place);
  rec.c[1] = static_cast<Id>(n);
  rec.c[2] = PackedENode::kPooled;
  return rec;
}

std::uint32_t EGraph::Impl::hash_pooled(OpId op, std::span<const Id> children_in) {
  std::uint64_t h = mix(op ^ kMix0, children_in.size() ^ kMix1);
  for (const Id id : children_in) h = mix(h ^ id, kMix1);
  return static_cast<std::uint32_t>(h ^ (h >> 32));
}

bool EGraph::Impl::equal_pooled(const PackedENode& a, const PackedENode& b) const {
  return std::equal(pool.data() + a.c[0], pool.data() + a.c[0] + a.c[1], pool.data() + b.c[0]);
}

inline void EGraph::Impl::link_use(Id child, NodeId user) {
  Uses& list = uses[child];
  const auto cell = static_cast<std::uint32_t>(cells.size());
  cells.append({user, list.head});
  list.head = cell;
  ++list.count;
}

void EGraph::Impl::ensure_ids(std::size_t more) {
  recs.ensure(more);
  parent.ensure(more);
  made_by.ensure(more);
  touched.ensure(more);
  moved.ensure(more);
  row_class.ensure(more);
  flags.ensure(more);
  uses.ensure(more);
  if (analysis != nullptr) facts_stamp.ensure(more), class_stamp.ensure(more), next_member.ensure(more);
  cells.ensure(3 * more);
}

void EGraph::Impl::check_border(std::size_t ids, std::size_t cells, std::size_t pool) {
  if (ids < 0xfffffff0u && cells < kNone && pool < kNone) return;
  std::fputs("saturate: the e-graph has reached its border of 2^32 ids; set a node limit below it\n", stderr);
  std::abort();
}

void EGraph::Impl::grow_ids(std::size_t nodes, std::size_t new_cells) {
  const std::size_t ids = recs.size() + nodes;
  check_border(ids, cells.size() + new_cells, pool.size());
  recs.resize(ids);
  parent.resize(ids);
  made_by.resize(ids);
  touched.resize(ids);
  moved.resize(ids);
  row_class.resize(ids);
  flags.resize(ids);
  uses.resize(ids);
  cells.resize(cells.size() + new_cells);
  live_nodes += nodes;
  nodes_created += nodes;
  version += nodes;
}

std::vector<std::span<std::byte>> EGraph::Impl::behind(std::size_t more) {
  ensure_ids(more);
  return {recs.behind(more),      parent.behind(more), made_by.behind(more), touched.behind(more),  moved.behind(more),
          row_class.behind(more), flags.behind(more),  uses.behind(more),    cells.behind(2 * more)};
}

NodeId EGraph::Impl::add_node(OpId op, std::span<const Id> children_in, Id into) {
  const PackedENode rec = canonical(op, children_in);
  const std::uint32_t h = hash(rec);
  const NodeId found = probe(rec, h);
  if (found == kNone) return insert(rec, h, into);
  if (rec.pooled()) pool.resize(rec.c[0]);
  return found;
}

NodeId EGraph::Impl::insert(const PackedENode& rec, std::uint32_t h, Id into) {
  ensure_ids(1);
  return insert_ensured(rec, h, into);
}

NodeId EGraph::Impl::insert_ensured(const PackedENode& rec, std::uint32_t h, Id into) {
  const std::size_t n = recs.size();
  check_border(n, cells.size() + rec.arity(), pool.size());
  const auto id = static_cast<NodeId>(n);
  recs.append(rec);
  parent.append(into == kNone ? id : into);
  made_by.append(current_rule);
  touched.append(stamp);
  moved.append(0);
  row_class.append(kNone);
  flags.append(0);
  uses.append({kNone, 0});
  if (analysis != nullptr) {
    facts_stamp.append(0);
    class_stamp.append(stamp);
    next_member.append(into == kNone ? id : std::exchange(next_member[into], id));
  }
  table.insert(h, id);
  if (proof) proof->added(rec, pool.data());
  if (rec.pooled()) {
    link_pooled(rec, id);
  } else {
    // Each class once, however often it stands among the children.
    if (rec.c[0] != kNone) link_use(rec.c[0], id);
    if (rec.c[1] != kNone && rec.c[1] != rec.c[0]) link_use(rec.c[1], id);
    if (rec.c[2] != kNone && rec.c[2] != rec.c[1] && rec.c[2] != rec.c[0]) link_use(rec.c[2], id);
  }
  ++live_nodes;
  ++nodes_created;
  ++version;
  if (into == kNone) ++live_classes;
  if (analysis != nullptr) analyse(id, into == kNone);
  return id;
}

void EGraph::Impl::link_pooled(const PackedENode& rec, NodeId id) {
  const std::span<const Id> ids = children(rec);
  cells.ensure(ids.size());
  for (const Id child : ids) {
    // Each class once: this e-node is the newest, so it heads the list of a class that it is linked to.
    const std::uint32_t head = uses[child].head;
    if (head == kNone || cells[head].node != id) link_use(child, id);
  }
}

// Facts of a new e-node.
void EGraph::Impl::analyse(NodeId id, bool founds_class) {
  if (!founds_class) return run_update(id, current_rule);
  analysis->make(*owner, id, owner->node(id));
  flags[id] |= kToModify;
  modifies.push_back(id);
}

bool EGraph::Impl::merge(Id a, Id b, std::uint32_t rule, std::uint32_t reason) {
  const NodeId from = a, to = b;
  a = find_halving(a);
  b = find_halving(b);
  if (a == b) return false;
  if (uses[a].count < uses[b].count || (uses[a].count == uses[b].count && b < a)) std::swap(a, b);
  if (proof) proof->link(from, to, reason);
  parent[b] = a;
  --live_classes;
  ++unions;
  ++version;
  Join join;
  if (analysis != nullptr) {
    join = analysis->join(a, b);
    if (join.contradiction) note(a, b, *std::move(join.contradiction), rule);
    if (join.first_changed) {
      facts_changed(a, rule, true);
    } else if (join.second_changed) {
      facts_changed(a, rule, false);
    }
    // A class that is new to `modify` stays new to it.
    if ((flags[b] & kToModify) != 0 && (flags[a] & kToModify) == 0) {
      flags[a] |= kToModify;
      modifies.push_back(a);
    }
    if ((flags[b] & kFactsDirty) != 0 && (flags[a] & kFactsDirty) == 0) {
      flags[a] |= kFactsDirty;
      dirty.push_back({a, rule});
    }
    std::swap(next_member[a], next_member[b]);
    facts_stamp[a] = std::max(facts_stamp[a], facts_stamp[b]);
    class_stamp[a] = std::max(class_stamp[a], class_stamp[b]);
  }
  if (uses[b].head == kNone) return true;
  std::uint32_t last = kNone;
  for (std::uint32_t cell = uses[b].head; cell != kNone; cell = cells[cell].next) {
    last = cell;
    const NodeId user = cells[cell].node;
    if ((flags[user] & (kDead | kPending)) == 0) {
      flags[user] |= kPending;
      pending.push_back({user, rule});
    }
    if (join.second_changed) push_update(user, rule);
  }
  cells[last].next = uses[a].head;
  uses[a] = {uses[b].head, uses[a].count + uses[b].count};
  uses[b] = {kNone, 0};
  return true;
}

void EGraph::Impl::repair(Pending entry) {
  const NodeId p = entry.node;
  flags[p] &= static_cast<std::uint8_t>(~kPending);
  if ((flags[p] & kDead) != 0) return;
  PackedENode& rec = recs[p];
  table.erase(hash(rec), p);
  if (rec.pooled()) {
    for (std::uint32_t i = 0; i < rec.c[1]; ++i) pool[rec.c[0] + i] = find_halving(pool[rec.c[0] + i]);
  } else {
    const std::uint32_t n = rec.arity();
    for (std::uint32_t i = 0; i < n; ++i) rec.c[i] = find_halving(rec.c[i]);
    if (n == 2 && rec.c[0] > rec.c[1] && ops[rec.op].commutative) std::swap(rec.c[0], rec.c[1]);
  }
  const std::uint32_t h = hash(rec);
  const NodeId twin = probe(rec, h);
  ++version;
  if (twin == kNone) {
    table.insert(h, p);
    touched[p] = stamp;
    return;
  }
  flags[p] |= kDead;
  --live_nodes;
  merge(p, twin, entry.rule, Proof::kCongruence);
}

// Repairs wait for memory: what the coming ones need is fetched ahead, in three steps that build on one another.
void EGraph::Impl::repair_all(const std::vector<Pending>& batch) {
  constexpr std::size_t kFar = 24, kMiddle = 16, kNear = 8;
  const std::size_t n = batch.size();
  for (std::size_t i = 0; i < n; ++i) {
    if (i + kFar < n) {
      __builtin_prefetch(&recs[batch[i + kFar].node], 1);
      __builtin_prefetch(&flags[batch[i + kFar].node], 1);
    }
    if (i + kMiddle < n) {
      const PackedENode& rec = recs[batch[i + kMiddle].node];
      if (!rec.pooled()) {
        table.prefetch(hash(rec));
        for (const Id child : rec.children(nullptr)) __builtin_prefetch(&parent[child]);
      }
    }
    if (i + kNear < n) {
      PackedENode rec = recs[batch[i + kNear].node];
      if (!rec.pooled()) {
        const std::uint32_t arity = rec.arity();
        for (std::uint32_t k = 0; k < arity; ++k) rec.c[k] = find(rec.c[k]);
        table.prefetch(hash(rec));
      }
    }
    repair(batch[i]);
  }
}

void EGraph::Impl::facts_changed(Id id, std::uint32_t rule, bool parents) {
  ++fact_changes;
  facts_stamp[id] = class_stamp[id] = stamp;
  if ((flags[id] & kToModify) == 0) {
    flags[id] |= kToModify;
    modifies.push_back(id);
  }
  if (parents && (flags[id] & kFactsDirty) == 0) {
    flags[id] |= kFactsDirty;
    dirty.push_back({id, rule});
  }
}

void EGraph::Impl::push_update(NodeId node, std::uint32_t rule) {
  if ((flags[node] & (kDead | kToUpdate)) != 0) return;
  flags[node] |= kToUpdate;
  updates.push({node, rule});
}

void EGraph::Impl::spread_facts(Pending entry) {
  const Id id = find_halving(entry.node);
  flags[entry.node] &= static_cast<std::uint8_t>(~kFactsDirty);
  flags[id] &= static_cast<std::uint8_t>(~kFactsDirty);
  for (std::uint32_t cell = uses[id].head; cell != kNone; cell = cells[cell].next) push_update(cells[cell].node, entry.rule);
}

void EGraph::Impl::run_update(NodeId node, std::uint32_t rule) {
  const Id id = find_halving(node);
  Join join = analysis->update(*owner, id, owner->node(node));
  if (join.contradiction) note(id, id, *std::move(join.contradiction), rule);
  if (join.first_changed) facts_changed(id, rule, true);
}

void EGraph::Impl::note(Id first, Id second, std::string what, std::uint32_t rule) {
  if (contradiction) return;
  contradiction = Contradiction{first, second, std::move(what), rule < rule_names.size() ? rule_names[rule] : std::string()};
}

void EGraph::Impl::rebuild() {
  if (rebuilding) return;  // called by modify(): the outer call goes on
  rebuilding = true;
  const std::uint32_t reason = proof ? std::exchange(proof->current, Proof::kByAnalysis) : 0;
  // An analysis whose facts never settle would hang here; no lattice of useful height needs this many rounds.
  std::uint64_t rounds = 0;
  for (;;) {
    if (!pending.empty()) {
      std::vector<Pending> batch;
      batch.swap(pending);
      repair_all(batch);
    } else if (!dirty.empty()) {
      std::vector<Pending> batch;
      batch.swap(dirty);
      for (const Pending entry : batch) spread_facts(entry);
    } else if (!updates.empty()) {
      const auto [node, rule] = updates.top();
      updates.pop();
      flags[node] &= static_cast<std::uint8_t>(~kToUpdate);
      if ((flags[node] & kDead) != 0) continue;
      if (++rounds > 10'000 * (live_nodes + 100)) {
        const Id id = find(node);
        note(id, id, "facts of this class never settle", rule);
        continue;
      }
      run_update(node, rule);
    } else if (!modifies.empty()) {
      std::vector<Id> batch;
      batch.swap(modifies);
      for (const Id entry : batch) {
        const Id id = find_halving(entry);
        flags[entry] &= static_cast<std::uint8_t>(~kToModify);
        flags[id] &= static_cast<std::uint8_t>(~kToModify);
        if ((flags[id] & kKilled) == 0) analysis->modify(*owner, id);
      }
    } else {
      break;
    }
  }
  rebuilding = false;
  if (proof) proof->current = reason;
  assert(live_nodes > 2000 || check_invariants(*owner).empty());
}

void EGraph::Impl::roll_back(NodeId first) {
  for (std::size_t i = recs.size(); i > first; --i) {
    const auto n = static_cast<NodeId>(i - 1);
    if ((flags[n] & kDead) != 0) continue;
    table.erase(hash(recs[n]), n);
    flags[n] |= kDead;
    --live_nodes;
    if (parent[n] == n) {
      flags[n] |= kKilled;
      --live_classes;
    }
  }
  ++version;
}

void EGraph::Impl::remove_node(NodeId node) {
  table.erase(hash(recs[node]), node);
  flags[node] |= kDead;
  --live_nodes;
  ++version;
}

std::size_t EGraph::Impl::memory_bytes() const {
  const std::size_t reasons = proof ? proof->bytes() : 0;
  return reasons + recs.bytes() + parent.bytes() + made_by.bytes() + touched.bytes() + moved.bytes() + row_class.bytes() + flags.bytes() +
         uses.bytes() + facts_stamp.bytes() + class_stamp.bytes() + next_member.bytes() + pool.bytes() + cells.bytes() + table.bytes() +
         index.bytes();
}

std::size_t EGraph::Impl::growth(std::size_t nodes) const {
  // An e-node: record, ten words and a byte, a cell per child.
  return table.growth(nodes) + nodes * (sizeof(PackedENode) + 41 + 3 * sizeof(Cell));
}

std::size_t EGraph::Impl::index_growth() const {
  const std::size_t whole = live_nodes * (sizeof(PackedENode) + 16) + (recs.size() + ops.num_kinds() + 4) * 8;
  return whole > index.bytes() ? whole - index.bytes() : 0;
}

// ---- public face ----

EGraph::EGraph(Analysis* analysis) : impl_(std::make_unique<Impl>(this, analysis)) {}
EGraph::~EGraph() = default;
EGraph::EGraph(EGraph&& other) noexcept : impl_(std::move(other.impl_)) {
  if (impl_) impl_->owner = this;
}
EGraph& EGraph::operator=(EGraph&& other) noexcept {
  impl_ = std::move(other.impl_);
  if (impl_) impl_->owner = this;
  return *this;
}

OpId EGraph::add_op(OpTraits traits) { return impl_->ops.add(traits); }
const OpTraits& EGraph::op(OpId id) const { return impl_->ops[id]; }
std::size_t EGraph::num_ops() const { return impl_->ops.size(); }
Id EGraph::add(OpId op, std::span<const Id> children) {
  const NodeId node = impl_->add_node(op, children);
  const Id id = impl_->find_halving(node);
  if (impl_->proof) impl_->proof->note_met(node, id);
  return id;
}

NodeId EGraph::Impl::find_node(OpId op, std::span<const Id> children_in) const {
  std::vector<Id> canonical(children_in.begin(), children_in.end());
  for (Id& id : canonical) id = find(id);
  if (canonical.size() == 2 && canonical[0] > canonical[1] && ops[op].commutative) std::swap(canonical[0], canonical[1]);
  if (canonical.size() <= 3) {
    PackedENode rec{op, {kNone, kNone, kNone}};
    std::copy(canonical.begin(), canonical.end(), rec.c);
    return probe(rec, hash(rec));
  }
  // The children of such a record stand in the pool, which must not grow here.
  const std::uint32_t h = hash_pooled(op, canonical);
  return table.find(h, [&](NodeId id) {
    const PackedENode& rec = recs[id];
    return rec.op == op && rec.pooled() && rec.c[1] == canonical.size() &&
           std::equal(canonical.begin(), canonical.end(), pool.data() + rec.c[0]);
  });
}

Id EGraph::lookup(OpId op, std::span<const Id> children) const {
  const NodeId node = impl_->find_node(op, children);
  if (node == kNone) return kNone;
  const Id id = impl_->find(node);
  if (impl_->proof) impl_->proof->note_met(node, id);
  return id;
}

std::vector<NodeId> EGraph::class_users(Id id) const {
  const Impl& g = *impl_;
  std::vector<NodeId> users;
  for (std::uint32_t cell = g.uses[g.find(id)].head; cell != kNone; cell = g.cells[cell].next) {
    const NodeId user = g.cells[cell].node;
    if ((g.flags[user] & Impl::kDead) == 0) users.push_back(user);
  }
  std::sort(users.begin(), users.end());
  users.erase(std::unique(users.begin(), users.end()), users.end());
  return users;
}

Id EGraph::find(Id id) const { return impl_->find(id); }
bool EGraph::merge(Id a, Id b, std::uint32_t rule) { return impl_->merge(a, b, rule == kNone ? impl_->current_rule : rule); }
void EGraph::rebuild() { impl_->rebuild(); }
bool EGraph::clean() const { return impl_->clean(); }
std::size_t EGraph::num_nodes() const { return impl_->live_nodes; }
std::size_t EGraph::num_classes() const { return impl_->live_classes; }
std::size_t EGraph::num_ids() const { return impl_->recs.size(); }
std::uint64_t EGraph::version() const { return impl_->version; }

std::vector<Id> EGraph::classes() const {
  const Impl& g = *impl_;
  std::vector<Id> out;
  out.reserve(g.live_classes);
  for (std::size_t i = 0; i < g.parent.size(); ++i) {
    if (g.parent[i] == i && (g.flags[i] & Impl::kKilled) == 0) out.push_back(static_cast<Id>(i));
  }
  return out;
}

std::vector<NodeId> EGraph::class_nodes(Id id) const {
  const Id c = find(id);
  std::vector<NodeId> out;
  if (impl_->analysis != nullptr) {
    NodeId member = c;
    do {
      if (is_live(member)) out.push_back(member);
      member = impl_->next_member[member];
    } while (member != c);
  } else {
    const Index& index = impl_->sorted_index();
    out.assign(index.node.begin() + index.start[c], index.node.begin() + index.start[c + 1]);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::size_t EGraph::class_size(Id id) const {
  const Index& index = impl_->sorted_index();
  const Id c = find(id);
  return index.start[c + 1] - index.start[c];
}

ENode EGraph::node(NodeId id) const {
  const PackedENode& rec = impl_->recs[id];
  return {rec.op, impl_->children(rec)};
}

Id EGraph::class_of(NodeId id) const { return impl_->find(id); }
std::uint32_t EGraph::made_by(NodeId id) const { return impl_->made_by[id]; }

void EGraph::set_maker(std::uint32_t rule) { impl_->current_rule = rule; }
void EGraph::touch(Id id) {
  if (impl_->analysis == nullptr) return;
  const Id c = find(id);
  impl_->facts_stamp[c] = impl_->class_stamp[c] = impl_->stamp;
}
bool EGraph::is_live(NodeId id) const { return (impl_->flags[id] & Impl::kDead) == 0; }
std::size_t EGraph::memory_bytes() const { return impl_->memory_bytes(); }
const Analysis* EGraph::analysis() const { return impl_->analysis; }
const std::optional<Contradiction>& EGraph::contradiction() const { return impl_->contradiction; }
EGraph::Impl& EGraph::impl() { return *impl_; }
const EGraph::Impl& EGraph::impl() const { return *impl_; }

}  // namespace saturate
