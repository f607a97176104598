// Inside of the e-graph. E-nodes and class ids share one number space: node n is created in class n or straight into an older class.
// Storage, union by parent list, repair from a worklist: Nelson & Oppen 1980; Downey, Sethi, Tarjan 1980; Willsey et al., POPL 2021.
#pragma once

#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "egraph/egraph.h"
#include "egraph/hash_table.h"
#include "egraph/index.h"
#include "egraph/parallel.h"
#include "egraph/proof.h"
#include "egraph/reserved_array.h"

namespace saturate {

class OpTable {
 public:
  OpId add(OpTraits traits);
  const OpTraits& operator[](OpId id) const { return traits_[id]; }
  std::size_t size() const { return traits_.size(); }
  bool any_commutative() const { return any_commutative_; }
  std::span<const OpId> of_kind(Kind kind) const;
  std::size_t num_kinds() const { return by_kind_.size(); }

 private:
  std::vector<OpTraits> traits_;
  std::vector<std::vector<OpId>> by_kind_;
  bool any_commutative_ = false;
};

inline constexpr std::uint64_t kMix0 = 0x9e3779b97f4a7c15ull, kMix1 = 0xd6e8feb86659fd93ull;
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

struct EGraph::Impl {
  explicit Impl(EGraph* owner, Analysis* analysis) : owner(owner), analysis(analysis) {}

  enum Flag : std::uint8_t { kDead = 1, kPending = 2, kToUpdate = 4, kToModify = 8, kFactsDirty = 16, kKilled = 32 };
  struct Cell {
    NodeId node;
    std::uint32_t next;
  };
  struct Uses {
    std::uint32_t head;  // first cell
    std::uint32_t count;
  };
  struct Pending {
    NodeId node;
    std::uint32_t rule;
  };

  EGraph* owner;
  Analysis* analysis;
  OpTable ops;

  // By id.
  ReservedArray<PackedENode> recs;
  ReservedArray<Id> parent;  // union-find
  ReservedArray<std::uint32_t> made_by;
  ReservedArray<std::uint32_t> touched;  // stamp of the last change of the row: made, re-canonicalized
  ReservedArray<std::uint32_t> moved;    // stamp of the last index in which it stood in another class than before
  ReservedArray<Id> row_class;           // its class in the last index
  ReservedArray<std::uint8_t> flags;
  ReservedArray<Uses> uses;  // class: its parent list
  // Empty where there is no analysis.
  ReservedArray<std::uint32_t> facts_stamp;  // class: stamp of the last change of its facts since they were made
  ReservedArray<std::uint32_t> class_stamp;  // class: the same, where the making of a class that has joined it counts, too
  ReservedArray<NodeId> next_member;  // the e-nodes of a class in a ring, with an analysis: it asks for them while the index is out of date
  // Shared pools.
  ReservedArray<Id> pool;     // children of e-nodes with more than three
  ReservedArray<Cell> cells;  // parent lists
  HashTable table;
  std::unique_ptr<Proof> proof;  // where reasons are kept

  std::size_t live_nodes = 0, live_classes = 0;
  std::uint32_t stamp = 1;
  std::uint64_t version = 1;  // grows with every change of structure
  std::uint64_t nodes_created = 0, unions = 0, fact_changes = 0;
  std::uint32_t current_rule = kNone;
  std::vector<std::string> rule_names;  // of the present run
  std::optional<Contradiction> contradiction;

  std::vector<Pending> pending;  // parents of absorbed classes
  std::vector<Pending> dirty;    // classes whose facts changed
  std::priority_queue<std::pair<NodeId, std::uint32_t>, std::vector<std::pair<NodeId, std::uint32_t>>, std::greater<>> updates;
  std::vector<Id> modifies;
  bool rebuilding = false;
  std::unique_ptr<Team> team;  // of the present run, where it has several threads
  std::size_t team_from = 0;   // e-nodes from which on it applies matches

  mutable std::mutex index_mutex;
  mutable Index index;

  Id find(Id id) const {
    while (parent[id] != id) id = parent[id];
    return id;
  }
  Id find_halving(Id id) {
    while (parent[id] != id) {
      parent[id] = parent[parent[id]];
      id = parent[id];
    }
    return id;
  }
  std::span<const Id> children(const PackedENode& rec) const { return rec.children(pool.data()); }

  // The canonical record of an e-node; more than three children are put at the end of the pool.
  PackedENode canonical(OpId op, std::span<const Id> children_in);
  std::uint32_t hash(const PackedENode& rec) const { return rec.pooled() ? hash_pooled(rec.op, children(rec)) : hash_inline(rec); }
  static std::uint32_t hash_inline(const PackedENode& rec) {
    const std::uint64_t h = mix((std::uint64_t{rec.c[0]} << 32 | rec.op) ^ kMix0, (std::uint64_t{rec.c[2]} << 32 | rec.c[1]) ^ kMix1);
    return static_cast<std::uint32_t>(h ^ (h >> 32));
  }
  static std::uint32_t hash_pooled(OpId op, std::span<const Id> children_in);
  NodeId find_node(OpId op, std::span<const Id> children_in) const;
  // Of records with at most three children.
  // E-nodes of one operator with at most three children, which stand in columns; with their hashes, and their slots in the table fetched
  // ahead.
  void compose(std::uint32_t op, std::span<const Id* const> columns, std::size_t count, PackedENode* recs, std::uint32_t* hashes) const {
    for (std::size_t k = 0; k < 3; ++k) {
      const Id* from = k < columns.size() ? columns[k] : nullptr;
      for (std::size_t b = 0; b < count; ++b) recs[b].c[k] = from != nullptr ? from[b] : kNone;
    }
    const bool sorted = columns.size() == 2 && ops[op].commutative;
    for (std::size_t b = 0; b < count; ++b) {
      PackedENode& rec = recs[b];
      rec.op = op;
      if (sorted && rec.c[0] > rec.c[1]) std::swap(rec.c[0], rec.c[1]);
      hashes[b] = hash_inline(rec);
      table.prefetch(hashes[b]);
    }
  }
  static bool equal_inline(const PackedENode& a, const PackedENode& b) {
    return a.op == b.op && a.c[0] == b.c[0] && a.c[1] == b.c[1] && a.c[2] == b.c[2];
  }
  bool equal(const PackedENode& a, const PackedENode& b) const {
    if (a.op != b.op || a.c[1] != b.c[1] || a.c[2] != b.c[2]) return false;
    return a.pooled() ? equal_pooled(a, b) : a.c[0] == b.c[0];
  }
  bool equal_pooled(const PackedENode& a, const PackedENode& b) const;
  NodeId probe(const PackedENode& rec, std::uint32_t hash) const {
    return table.find(hash, [&](NodeId id) { return equal(recs[id], rec); });
  }
  // Adds into class `into` (kNone: a class of its own). Returns the class where it is found or put.
  Id add(OpId op, std::span<const Id> children_in, Id into = kNone) { return find_halving(add_node(op, children_in, into)); }
  NodeId add_node(OpId op, std::span<const Id> children_in, Id into = kNone);  // the same, the e-node
  NodeId insert(const PackedENode& rec, std::uint32_t hash, Id into);
  // The same, without looking whether there is room: after ensure_ids() for so many e-nodes.
  NodeId insert_ensured(const PackedENode& rec, std::uint32_t hash, Id into);
  void ensure_ids(std::size_t more);
  // Makes so many e-nodes and parent cells, which the caller fills, and counts them; without an analysis.
  void grow_ids(std::size_t nodes, std::size_t new_cells);
  // The memory that so many more ids will need, after ensure_ids().
  std::vector<std::span<std::byte>> behind(std::size_t more);
  static void check_border(std::size_t ids, std::size_t cells, std::size_t pool);
  bool merge(Id a, Id b, std::uint32_t rule) { return merge(a, b, rule, proof ? proof->current : 0); }
  bool merge(Id a, Id b, std::uint32_t rule, std::uint32_t reason);
  void rebuild();
  // Takes out e-nodes that nothing refers to: the ones made since `first` (ids), if no union has touched them.
  void roll_back(NodeId first);
  // Takes one e-node out of its class, which must hold another.
  void remove_node(NodeId node);
  bool clean() const { return pending.empty() && dirty.empty() && updates.empty() && modifies.empty(); }
  const Index& sorted_index() const;
  std::size_t memory_bytes() const;
  // Bytes that so many new e-nodes may add, a rehash included; and that the next index may add.
  std::size_t growth(std::size_t nodes) const;
  std::size_t index_growth() const;

 private:
  void link_use(Id child, NodeId user);
  void link_pooled(const PackedENode& rec, NodeId id);
  void analyse(NodeId id, bool founds_class);
  void repair(Pending entry);
  void repair_all(const std::vector<Pending>& batch);
  void facts_changed(Id id, std::uint32_t rule, bool parents);
  void push_update(NodeId node, std::uint32_t rule);
  void run_update(NodeId node, std::uint32_t rule);
  void spread_facts(Pending entry);
  void note(Id first, Id second, std::string what, std::uint32_t rule);
};

}  // namespace saturate
