// Operators between quantizers that a runtime turns into one integer kernel when it loads the model (NodeUnit in extract/target/target.h),
// as part of the choice. A unit is a second form of its last value: e-nodes that only the unit reads, free but for the last, which bears
// the price of the kernel. So a choice of e-nodes either has the unit whole, or pays for the operators that are left of it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "extract/price/cost.h"
#include "extract/target/target.h"
#include "onnx_bridge/convert/emit/emit.h"
#include "onnx_bridge/convert/lower.h"

namespace saturate {

// The types of the integers that the unit dequantizes for input `i`; null where it reads that as it is.
const std::vector<std::string>* dequantized_from(const NodeUnit& unit, std::size_t i);
// Whether the runtime quantizes what the unit reads as input `i`: a vector of floats, which with the scale of constant integers (the
// weights) is a vector of integers.
bool is_quantized_at_load(const NodeUnit& unit, std::size_t i, const Facts& f);

// Adds the units that the target's runtime would find in any choice of e-nodes, but for coarse ones that the model does not have.
void add_node_units(OnnxEGraph& egraph, const Lowered& lowered, const Target& target);

// Whether the target's runtime computes an operator of a model in integers.
struct UnitAnswer {
  std::string kernel;  // "QLinearMatMul", or the operator itself; "": none
  std::string why;     // there is none: a clause about it
};
// What to call a value in a sentence.
using ValueNamer = std::function<std::string(Id)>;

// Who reads the values of a model: its nodes, and its outputs.
class UnitReaders;

// Of a lowered model, to which no rules were applied: where classes are merged, "who reads this value" has no answer.
class UnitAnswers {
 public:
  UnitAnswers(const OnnxEGraph& egraph, const Lowered& lowered, const Target& target);
  // `source`: a node of the model that has an e-node.
  UnitAnswer of(const Source& source, const ValueNamer& name) const;

 private:
  const OnnxEGraph& g_;
  const Target& target_;
  std::shared_ptr<const UnitReaders> readers_;
};

// What the runtime's kernel of a whole unit costs; `last` is its last e-node, of class `id`.
double unit_cost(const OnnxEGraph& egraph, const Target& target, const CostModel& cost, const ENode& last, Id id);

// The values that operators of units compute, as floats, before they are quantized or dequantized again.
absl::flat_hash_set<Id> values_in_units(const OnnxEGraph& egraph);
// What an operator costs beyond its own `alone` that computes such a value in floats, integer kernels on both sides of it: convolutions and
// pooling change the layout there and back, and times of single operators say less of it than of its neighbours in integers.
double cost_outside_unit(const OnnxEGraph& egraph, const CostModel& cost, const ENode& node, Id id, double alone);

// What a MaxPool of bytes costs beside integer kernels: the runtime has one in their layout, which takes no longer than that of floats,
// while times of single operators are those of another layout. Infinite for any other operator.
double cost_in_channels_last(const OnnxEGraph& egraph, const CostModel& cost, const ENode& node, Id id);

// The e-node that says the same as this one of a unit, and that others may read; kNone where there is none.
NodeId without_unit(const OnnxEGraph& egraph, NodeId in_unit);

// All e-nodes of the units that are the model's own nodes, where nothing else reads what is between them.
std::vector<NodeId> units_of_model(const OnnxEGraph& egraph, const Lowered& lowered);

// The same choice, in which nodes of units are those that they stand for wherever that changes no other choice.
Selection without_units(const OnnxEGraph& egraph, const std::vector<Id>& roots, Selection selection);

}  // namespace saturate
