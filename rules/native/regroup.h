// Operators at another rank than theirs: which of their axes may be joined to one, and where each comes to stand.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "onnx_bridge/operators/op_traits.h"
#include "rules/native/kit.h"

namespace saturate::native {

// How an operator treats the axes that it works on.
struct Axes {
  std::vector<bool> free;                               // size 1, and the operator does nothing to it: it may stand anywhere
  std::function<bool(std::size_t, std::size_t)> alike;  // whether two others that follow one another may be joined to one
  std::size_t size() const { return free.size(); }
};

// Axes at another rank: runs of them that became one axis each, in their order, behind axes of size 1.
class Regrouped {
 public:
  // At a rank that is taken and as near as can be: with axes of size 1 in front, or with as few joined as need be, those of size 1 first
  // and then the foremost. nullopt: the operator tells too many of them apart.
  static std::optional<Regrouped> at(const Axes& axes, Ranks ranks);
  std::size_t rank() const { return lead_ + runs_.size(); }
  std::size_t place(std::size_t axis) const;
  // Of a tensor with these axes: the product of each run.
  Dims dims(DimTable& table, const Dims& whole) const;
  // What stands for each axis, of a list with an entry for each of the old: that of a run is the one that is not `neutral`.
  std::vector<std::int64_t> list(const std::vector<std::int64_t>& whole, std::int64_t neutral) const;

 private:
  struct Run {
    std::size_t begin, end;
    std::optional<std::size_t> first, last;  // that are not free
  };
  bool may_join(const Axes& axes, std::size_t run, bool free_alone) const;
  bool join_one(const Axes& axes, bool free_alone);
  std::size_t lead_ = 0;
  std::vector<Run> runs_;
};

// An operator where a rule finds it.
struct Operation {
  const Views& v;
  OpKey key;
  std::vector<Id> inputs;
  Id result;
  Ranks ranks;  // that the target takes it with

  bool has(std::size_t input) const;
  const Dims* shape(std::size_t input) const { return has(input) ? v.shape(inputs[input]) : nullptr; }
  bool is_one(Dim d) const { return v.is_one(d); }
  // Whether a tensor that carries data has a rank that is not taken.
  bool is_at_refused_rank() const;
  // The int attribute of this name as an axis, counted from the front of `rank`.
  std::optional<std::size_t> axis(std::string_view name, std::int64_t absent, std::size_t rank) const;
  std::int64_t number(std::string_view name, std::int64_t absent) const;
  // The numbers that an input lists, as axes counted from the front; nullopt where they are unknown or no axes.
  std::optional<std::vector<std::size_t>> axes_in(std::size_t input, std::size_t rank) const;
};

// `x` with these dims.
Id with_dims(const Views& v, Id x, const Dims& dims);
// An operand that broadcasts, with these dims: as it is where that says the same and it keeps `least` axes.
Id operand_with_dims(const Operation& op, Id x, Dims dims, std::size_t least = 0);
// Axes of which those of size 1 are free, but for what is `touched`; others may be joined where `alike` says so.
Axes axes_of(const Operation& op, const Dims& dims, const std::function<bool(std::size_t)>& touched,
             std::function<bool(std::size_t, std::size_t)> alike);
// The axes of a result that operands broadcast to, which have its rank. Of the first `joinable` neighbours may be joined where each operand
// has both or none.
std::optional<Regrouped> regrouped_operands(const Operation& op, const Dims& whole, std::span<const Dims> operands, std::size_t joinable);
// The result with the shape that it had, of an operator that was made at another rank.
void unite(const Operation& op, Id made, Unions& unions);
OpKey with_attribute(OpKey key, Attribute a);
// Dims behind as many of size 1 as make `rank` of them.
Dims padded(DimTable& table, const Dims& dims, std::size_t rank);

// Of an operator over channels and places: its dims, and its lists with an entry for each axis of places (of pads: two), with `more` axes
// of size 1 in front of the places.
inline constexpr std::size_t kPlaces = 2;  // axes behind those of the batch and the channels
Dims with_places(const Views& v, const Dims& dims, std::size_t more);
OpKey with_places(OpKey key, std::size_t more);

// An operator that a rule looks for.
struct Taken {
  std::string_view op;
  std::size_t fewest, most;  // inputs
  int outputs = 1;
  std::string_view domain = "";
};
// An elementwise operator with its one number of operands; nullopt of others.
std::optional<Taken> elementwise_of_fixed_arity(const OperatorTraits& traits);
// A pattern of each operator with each number of inputs.
std::vector<Pattern> patterns_of(OnnxEGraph& g, const std::vector<Taken>& taken);
// The operator that such a pattern has found, at whatever ranks.
Operation operation_of(const Views& v, const Match& m);

// The rule `name`: on each operator of these that the target refuses for its rank, what `make` makes of it.
using MakeRegrouped = void (*)(const Operation& op, Unions& unions);
ViewRule regrouping(std::string name, std::string doc, Effect effect, std::vector<Taken> taken, MakeRegrouped make);

}  // namespace saturate::native
