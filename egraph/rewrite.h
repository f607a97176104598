// Patterns, rewrites and the saturation runner.
#pragma once

#include <any>
#include <atomic>
#include <limits>
#include <memory>

#include "egraph/egraph.h"
#include "egraph/scheduler.h"

namespace saturate {

// A pattern is a DAG in an array; children come before parents. Node i binds slot i of the match.
// Operators that the root (the last node) does not reach are matched too, as second roots; a variable as the root stands alone.
// An operator node matches e-nodes of its kind with exactly as many children.
struct PatternNode {
  enum class Type : std::uint8_t { kVariable, kOperator };
  Type type = Type::kVariable;
  Kind kind = 0;                                   // operator: its kind
  OpId op = kNone;                                 // operator: exactly this OpId where not kNone
  std::function<bool(OpId)> accepts_op;            // operator: further test on attributes (pure; its answer is cached)
  std::function<bool(const EGraph&, Id)> accepts;  // test on the class's facts (pure, thread-safe), e.g. "constant 0.5"
  std::vector<std::uint32_t> children;
};

struct Pattern {
  std::vector<PatternNode> nodes;
  std::uint32_t root() const { return static_cast<std::uint32_t>(nodes.size()) - 1; }
};

// classes[i] / matched[i]: class and e-node bound to pattern node i (matched[i] is kNone for variables).
struct Match {
  std::span<const Id> classes;
  std::span<const NodeId> matched;
  std::span<const OpId> ops;  // operator of matched[i], kNone for variables
  Id root() const { return classes.back(); }
};

// What a rewrite does with a match.
class Applier {
 public:
  virtual ~Applier() = default;
  // Further condition, asked on the clean e-graph at search time; pure and thread-safe.
  virtual bool holds(const EGraph&, const Match&) const { return true; }
  // Adds the right-hand side and returns the unions that follow, as pairs of classes (empty: nothing to do).
  virtual void apply(EGraph&, const Match&, std::vector<std::pair<Id, Id>>& unions) const = 0;
};

// The plain applier: instantiates a template. Node i is a left-hand slot (op kNone, slot set) or an operator over earlier nodes.
struct Template {
  struct Node {
    OpId op = kNone;
    std::uint32_t slot = kNone;
    std::vector<std::uint32_t> children;
  };
  std::vector<Node> nodes;  // the last one is united with the match's root
};

struct Rewrite {
  std::string name;
  Pattern left;
  std::shared_ptr<const Applier> applier;    // either this
  std::optional<Template> right;             // or this (the fast path); with both, the applier's holds() is asked and the template applied
  std::uint64_t budget = ~std::uint64_t{0};  // most applications with an effect in one run (rules that feed themselves)
  int phase = 0;                             // rules of phase k run once those below k are saturated or exhausted
  // Rules of this phase, or of one above, run without those of the phases below: what they make is not looked at by those. Such a phase has
  // iterations of its own (Limits).
  static constexpr int kAlonePhase = 1000;
  // A phase in which the rule runs, too, though it is of another one.
  int also_in_phase = kNoPhase;
  static constexpr int kNoPhase = -1;
  // The phase of rules that run alone, and once, when all others are done (saturated, or out of iterations): what they make, nothing is
  // made of. For spellings that targets prefer and that other rules would only lead back.
  static constexpr int kLastPhase = std::numeric_limits<int>::max();
  // What the applier asks and makes follows from the match and the facts of its classes. So a match is looked at again only where these
  // have changed, as long as Analysis::knowledge() stays; others are looked at whenever a class of theirs gains e-nodes.
  bool of_facts_alone = false;
  // With `make`, `left` and what to do with it are made when they are wanted first: once there are e-nodes of all these kinds, and of each
  // pair one of the first kind with a child in whose class one of the second is. Without them nothing can match. Name, budget and phase
  // stay.
  std::vector<Kind> wants = {};
  std::vector<std::pair<Kind, Kind>> wants_below = {};
  std::function<Rewrite()> make = nullptr;
};

struct Limits {
  std::size_t iterations = 30;
  std::size_t nodes = 1'000'000;  // live canonical e-nodes, never exceeded by rules
  double seconds = 60.0;
  std::size_t memory_bytes = ~std::size_t{0};
  int threads = 1;                     // 0: as many as there are cores
  std::size_t threads_from = 250'000;  // e-nodes ever made: before that, what fits into the caches of one core is applied by one
  const std::atomic<bool>* cancel = nullptr;
};

enum class StopReason { kSaturated, kIterationLimit, kNodeLimit, kTimeLimit, kMemoryLimit, kCancelled, kContradiction };
std::string_view to_string(StopReason reason);

struct RuleStats {
  std::string name;
  std::uint64_t matches = 0, fresh = 0, applied = 0, nodes_made = 0, unions = 0, bans = 0;
  double search_s = 0, apply_s = 0;
};

struct IterationStats {
  std::size_t iteration = 0, nodes = 0, classes = 0;
  std::uint64_t matches = 0;
  double search_s = 0, apply_s = 0, rebuild_s = 0;
};

struct RunReport {
  StopReason stop = StopReason::kSaturated;
  std::vector<IterationStats> iterations;
  std::vector<RuleStats> rules;
  double seconds = 0;
  std::size_t peak_memory_bytes = 0;
  bool budget_exhausted = false;  // some rule had matches left when its budget was used up (then never kSaturated)
};

struct RunOptions {
  Limits limits;
  std::shared_ptr<Scheduler> scheduler;                     // none: everything is applied (make_simple_scheduler())
  std::function<void(const IterationStats&)> on_iteration;  // progress
  // Count matches that were applied before as well (as egg and egglog do: IterationStats and back-off then agree with theirs).
  // Off: guards are asked, and matches counted, for fresh matches only, which is cheaper. What is applied is the same.
  bool count_stale_matches = false;
};

// search all rules -> apply -> rebuild, until nothing changes or a limit is met. The e-graph is clean afterwards.
// Same input, same result, whatever the number of threads.
RunReport run(EGraph& egraph, std::span<const Rewrite> rules, const RunOptions& options);

// All matches of a pattern on a clean e-graph, in a fixed order (tests, explain, native rules).
struct OwnedMatch {
  std::vector<Id> classes;
  std::vector<NodeId> matched;
  std::vector<OpId> ops;
};
std::vector<OwnedMatch> search(const EGraph& egraph, const Pattern& pattern, std::size_t limit = ~std::size_t{0});

}  // namespace saturate
