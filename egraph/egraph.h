// The e-graph: hash-consed e-nodes grouped into e-classes, congruence kept by rebuild(), facts kept by an Analysis.
// The engine knows nothing of ONNX: an operator is an OpId of a Kind, an e-node an OpId and child e-class ids.
// Vocabulary and rebuilding: Willsey et al., "egg: Fast and Extensible Equality Saturation", POPL 2021.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace saturate {

using Id = std::uint32_t;      // an e-class, named by any id of its union-find set; find() gives the canonical one
using NodeId = std::uint32_t;  // an e-node
using OpId = std::uint32_t;    // an operator with its attributes
using Kind = std::uint32_t;    // an operator without its attributes: what a pattern names
inline constexpr std::uint32_t kNone = 0xffffffffu;

struct ENode {
  OpId op;
  std::span<const Id> children;  // canonical after rebuild(); of commutative operators: sorted
};

struct OpTraits {
  Kind kind = 0;
  bool commutative = false;  // exactly two children, in any order: stored sorted, matched in both orders
};

// Two facts of one e-class that cannot both hold: an unsound rule, or an ill-typed input.
struct Contradiction {
  Id first = kNone, second = kNone;  // the classes whose facts clash (equal when one e-node clashes with its class)
  std::string what;                  // "dtype float and int64", in words
  std::string rule;                  // the rule whose union brought them together, empty if none
};

struct Join {
  bool first_changed = false;   // facts of the surviving class grew
  bool second_changed = false;  // they differ from the facts that the absorbed class had
  std::optional<std::string> contradiction;
};

class EGraph;

// Facts per e-class. The analysis owns the storage, indexed by canonical class id.
class Analysis {
 public:
  virtual ~Analysis() = default;
  // `node` has just become the first member of the new class `id`.
  virtual void make(const EGraph& egraph, Id id, const ENode& node) = 0;
  // `node` is a member of the existing class `id` (newly added, or its children's facts changed): join what follows from it.
  virtual Join update(const EGraph& egraph, Id id, const ENode& node) = 0;
  // Class `loser` is absorbed by class `winner`.
  virtual Join join(Id winner, Id loser) = 0;
  // The facts of `id` are new or have changed. May add e-nodes and merge.
  virtual void modify(EGraph& egraph, Id id) = 0;
  // Grows when facts that stay as they are may prove more than before.
  virtual std::uint64_t knowledge() const { return 0; }
};

class EGraph {
 public:
  explicit EGraph(Analysis* analysis = nullptr);
  ~EGraph();
  EGraph(EGraph&&) noexcept;
  EGraph& operator=(EGraph&&) noexcept;

  // Operators. Ids are dense from 0, in order of registration.
  OpId add_op(OpTraits traits);
  const OpTraits& op(OpId id) const;
  std::size_t num_ops() const;

  // Adds an e-node (children need not be canonical) and returns its class, the old one where the e-node exists.
  Id add(OpId op, std::span<const Id> children);
  // The class of an e-node, kNone where it does not exist. Valid on a clean e-graph.
  Id lookup(OpId op, std::span<const Id> children) const;
  Id find(Id id) const;
  // Merges two classes; congruence is restored by the next rebuild(). Returns whether they were distinct.
  // `rule` says why (an index into the run's rules, kNone for "given").
  bool merge(Id a, Id b, std::uint32_t rule = kNone);
  void rebuild();
  bool clean() const;

  std::size_t num_nodes() const;    // live canonical e-nodes
  std::size_t num_classes() const;  // canonical classes
  std::size_t num_ids() const;      // every class id is below this

  // Canonical class ids, ascending; and the live e-nodes of one class, ascending. Valid on a clean e-graph.
  std::vector<Id> classes() const;
  std::vector<NodeId> class_nodes(Id id) const;
  ENode node(NodeId id) const;
  Id class_of(NodeId id) const;
  // The rule that made this e-node, kNone for the ones that were given.
  std::uint32_t made_by(NodeId id) const;
  // What is added and united from now on is this rule's doing, outside of a run; kNone: nobody's.
  void set_maker(std::uint32_t rule);
  // Rules that ask for facts look at this class again, as if its facts had changed: what can be said of it has.
  void touch(Id id);

  // Additions to the first version: e-nodes that have `id` among their children (live, ascending; also during modify()),
  // whether an e-node has not become a duplicate of another, and the memory held (without that of the analysis).
  std::vector<NodeId> class_users(Id id) const;
  bool is_live(NodeId id) const;
  std::size_t class_size(Id id) const;  // number of its live e-nodes; valid on a clean e-graph
  std::size_t memory_bytes() const;
  std::uint64_t version() const;  // grows with every change of structure

  const Analysis* analysis() const;
  const std::optional<Contradiction>& contradiction() const;

  // For the other files of the engine (egraph_impl.h).
  struct Impl;
  Impl& impl();
  const Impl& impl() const;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace saturate
