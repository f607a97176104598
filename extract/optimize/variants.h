// What an e-graph holds beside its cheapest graph: others that are told apart by what is fused where, to be measured.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// Places of fused operators that rules make, of one family (fused.h) and one size: those whose first operand has so many elements. They are
// fused or not all together.
struct Region {
  std::string name;              // "attention of 98304"
  std::set<std::string> taken;   // operators that stand there in the cheapest graph; none: it is left unfused
  std::set<std::string> others;  // operators that could stand there and do not
  std::string signature;         // operators, types, shapes and attributes: regions of other models have it too
  double elements = 0;           // of all its first operands
};

// One of the graphs. Of several wishes, each holds where it can.
struct Variant {
  std::set<std::string> unfused = {};                       // regions
  std::set<std::string> fused = {};                         // regions
  std::map<std::string, std::set<std::string>> other = {};  // of regions: operators that do not stand there
  bool fewest_operators = false;                            // by the cost model "nodes"
  bool own_opset = false;                                   // in the model's own opset
  bool original = false;                                    // the model as it came
  bool is_cheapest() const { return *this == Variant{}; }
  bool operator==(const Variant&) const = default;
};

class Variants {
 public:
  virtual ~Variants() = default;
  virtual const Model& original() const = 0;
  virtual const Model& cheapest() const = 0;
  virtual std::vector<Region> regions() const = 0;  // the largest first
  virtual bool has_other_opset() const = 0;         // than that of the cheapest graph
  // Whether the original is what was asked for: in its opset, and as far as the cheapest graph is, on its target.
  virtual bool may_stay() const = 0;
  virtual double seconds_to_make() const = 0;  // about, a graph
  virtual absl::StatusOr<Model> make(const Variant& variant) = 0;
};

// Chooses one; an error ends the run.
using Decide = std::function<absl::StatusOr<Variant>(Variants&)>;

}  // namespace saturate
