// Application of the matches of one rule, within limits.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "egraph/egraph_impl.h"
#include "egraph/rewrite.h"

namespace saturate {

// Says when to stop. Asked often; looks at the clock only now and then.
class StopCheck {
 public:
  explicit StopCheck(const Limits& limits) : limits_(limits), begin_(std::chrono::steady_clock::now()) {}
  // `more`: bytes that are in use besides the e-graph, or will be in a moment.
  std::optional<StopReason> now(const EGraph::Impl& g, std::size_t more = 0) const;
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
  const Limits& limits() const { return limits_; }

 private:
  Limits limits_;
  std::chrono::steady_clock::time_point begin_;
};

// The matches of one rule that are to be applied: `stride` numbers each, as laid out by `slots` (and e-nodes, for appliers).
struct MatchList {
  std::uint32_t stride = 0;
  const std::uint32_t* words = nullptr;
  std::size_t count = 0;
  std::size_t bytes = 0;  // of the store in which they stand, all rules' together
  std::size_t size() const { return count; }
};

// Which slots of a match a rule needs later: the root first, then those that its template names; of an applier all, and their e-nodes.
// For explanations (`whole`) of a template all, by e-node where they are operators: an e-node names its class too.
struct MatchLayout {
  std::vector<std::uint32_t> slots;
  bool with_nodes = false, by_node = false;
  std::uint32_t stride() const { return static_cast<std::uint32_t>(slots.size() * (with_nodes ? 2 : 1)); }
};
MatchLayout layout_of(const Rewrite& rule, bool whole);

struct ApplyResult {
  std::uint64_t applied = 0;
  std::uint64_t effective = 0;  // those that made an e-node or a union
  bool left = false;            // matches were left when the budget was used up
  std::optional<StopReason> stop;
};
// Applies matches in order until `budget` of them had an effect. The node limit is kept exactly: no application that would pass it is done.
ApplyResult apply_matches(EGraph& egraph, const Rewrite& rule, const MatchLayout& layout, const MatchList& matches, std::uint64_t budget,
                          const StopCheck& check);

}  // namespace saturate
