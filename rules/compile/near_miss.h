// Where the left side of a rule nearly matches, and what is missing: for people who ask why something did not fuse.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "egraph/rewrite.h"
#include "onnx_bridge/convert/onnx_egraph.h"

namespace saturate {

// What to call a class in a sentence.
using Namer = std::function<std::string(Id)>;

struct NearMiss {
  std::uint32_t matched = 0, total = 0;  // operators of the pattern: that are there, and all
  std::uint32_t missing = 0;             // requirements that fail: operators, attributes, constants; 1 where only a condition fails
  std::vector<NodeId> nodes;             // the e-nodes that stand for the pattern's operators
  std::vector<Id> classes;               // the classes below the root that it looked at
  std::string reason;                    // the first thing that fails, with the values it saw; "" : the rule applies
  Id at = kNone;                         // the class where an operator, attribute or constant is missing first; kNone where none is
  std::string wanted;                    // the operator that is missing there, if it is one
};

// The nearest match of a rule whose pattern's root lies in class `root`; nullopt where no e-node there has the root's operator.
// Choices inside the pattern are made one by one, each for the fewest failures below it, so a reported miss need not be the only near one.
// Valid on a clean e-graph. Linear in pattern nodes times e-nodes of the classes visited.
std::optional<NearMiss> nearest_miss(const OnnxEGraph& g, const Rewrite& rewrite, Id root, const Namer& name);

// "Mul or Reshape" : the operators of a class; "an input", "the constant 1.5", "a constant".
std::string operators_of(const OnnxEGraph& g, Id id);

}  // namespace saturate
