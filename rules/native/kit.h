// What native rules are written with: nodes of patterns, facts, and the views that they build.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "egraph/rewrite.h"
#include "onnx_bridge/convert/onnx_egraph.h"
#include "rules/compile/rule_set.h"

namespace saturate::native {

using Dims = std::vector<Dim>;
using Unions = std::vector<std::pair<Id, Id>>;

// The truth guards of native rules, for the checker: it sets this note of its own e-graph before rules are made for that. They count from
// 0 in the order in which they are first asked.
struct GuardWatch {
  bool watching = false;
  int off = -1;  // the number of the guard that is taken to hold
  std::vector<std::string> names;
  bool holds(std::string_view name, bool truth);
};

// Builds nodes and asks facts; shared by the appliers of a rule set.
struct Views {
  OnnxEGraph& g;
  GuardWatch* watch = nullptr;  // null but in the checker

  // A condition without which the rule would be false. What it must know to be written, or what is only `useful`, is none.
  bool guard(std::string_view name, bool truth) const { return watch == nullptr ? truth : watch->holds(name, truth); }

  // Whether the target refuses the operator at this slot of a match where it stands, or wishes it away (`if_refused` of rules in text). The
  // rule says so: ViewRule::if_refused.
  bool refused(const Match& m, std::size_t slot) const { return g.is_refused(m.matched[slot], m.classes[slot]); }
  bool refused(const Match& m) const { return refused(m, m.matched.size() - 1); }
  // The ranks that the target takes an operator with; to the checker, who knows no target, rank 4 alone.
  Ranks ranks(const OpKey& key) const { return g.refusals() ? g.refusals()->ranks(key) : Ranks{4, 4}; }

  const Dims* shape(Id id) const;  // nullptr where it is unknown
  bool equal(Dim a, Dim b) const { return g.dims().equal(a, b); }
  bool equal(std::span<const Dim> a, std::span<const Dim> b) const;
  bool is_one(Dim d) const { return g.dims().value(d) == 1; }
  bool has_zero(std::span<const Dim> dims) const;
  // The dims of a shape that are not 1. Rules about Reshapes around Transposes count with these alone, and the Transposes that they make
  // have no others: wherever axes of size 1 stand, the elements are the same, so a view has one form instead of one for each of their
  // places.
  Dims without_ones(std::span<const Dim> dims) const;
  std::ptrdiff_t cuts(std::span<const Dim> dims) const;  // how many these are
  // Whether this input of a Reshape to the shape `to` says each size, as the literal does that every Reshape to a known shape gets: the
  // rules about Reshapes in Reshapes and Transposes look at that spelling only, or each view would meet each other one as often as both
  // have spellings.
  bool is_spelled_out(Id target, const Dims* to) const;
  Id reshape(Id x, std::span<const Dim> to, int rank) const;  // `rank` of x; 0 where only the literal matters
  Id reshape_by(Id x, std::vector<std::int64_t> to, int rank) const;
  Id transpose(Id x, std::vector<std::int64_t> perm) const;
  Id expand(Id x, std::span<const Dim> to) const;
  Id concat(std::span<const Id> parts, std::int64_t axis) const;
  // Of each of these axes, counted from the front, the part from `first` to `last`.
  Id slice(Id x, std::span<const Dim> first, std::span<const Dim> last, std::vector<std::int64_t> axes) const;
  std::optional<std::vector<std::int64_t>> perm(OpId op, std::size_t rank) const;
  // An int attribute of the operator, or what it is where absent.
  std::int64_t int_attribute(OpId op, std::string_view name, std::int64_t absent) const;
  // The operator's `axis` of a tensor, counted from the front; nullopt where its rank is unknown. An operator keeps a negative axis that
  // was written before the rank was known.
  std::optional<std::size_t> axis(OpId op, Id tensor, std::int64_t absent = 0) const;
  // The elements of a small constant int tensor.
  std::optional<std::vector<std::int64_t>> ints(Id id) const;
  // The same as axes, counted from the front; nullopt where they are unknown, or one is no axis.
  std::optional<std::vector<std::size_t>> axes(Id id, std::size_t rank) const;
};

// An int attribute of an operator, or what it is where absent.
std::int64_t int_attribute(const OpKey& key, std::string_view name, std::int64_t absent);
// An axis counted from the front; nullopt where there is no such axis.
std::optional<std::size_t> from_front(std::int64_t axis, std::size_t rank);

// Says of a condition that the rule is true without it: which direction helps, or what others look for.
inline bool useful(bool condition) { return condition; }

PatternNode variable();
PatternNode node(OnnxEGraph& g, std::string_view op, std::vector<std::uint32_t> children, std::string_view domain = "");
// Operator of so many variables: these are the first classes, then comes the root.
Pattern over(OnnxEGraph& g, std::string_view op, std::size_t inputs, std::string_view domain = "", int outputs = 1);
// Operator of two variables: classes 0 and 1, the root is 2.
Pattern over_two(OnnxEGraph& g, std::string_view op);
// Its Reshape: to the literal of class 3, the root is 4.
std::function<Pattern(OnnxEGraph&)> reshaped(std::string_view op);

// One rule: a pattern, and what a match makes.
struct ViewRule {
  std::string name, doc;
  Effect effect;
  std::function<Pattern(OnnxEGraph&)> pattern;
  std::function<void(const Views&, const Match&, Unions&)> apply;
  bool looks_around = false;                                       // asks more than the match and the facts of its classes
  std::function<std::vector<Pattern>(OnnxEGraph&)> patterns = {};  // in place of `pattern`: any of these
  bool if_refused = false;                                         // it asks Views::refused, and is left out where nobody refuses anything
  int phase = 0, also_in_phase = Rewrite::kNoPhase;
  // Whether there may be something to do, asked of every match on the clean e-graph; pure and thread-safe.
  std::function<bool(const OnnxEGraph&, const Match&)> where = {};
};

std::vector<NativeRule> to_native(std::vector<ViewRule> rules);

}  // namespace saturate::native
