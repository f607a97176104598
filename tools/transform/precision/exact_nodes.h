// Nodes whose results need all bits of a float: angles and positions, norms in parts, what a number near 0 keeps from 0, comparisons.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>

#include "onnx_bridge/model/model.h"
#include "tools/transform/precision/half_weights.h"

namespace saturate {

// What each value of a graph is, where that is known to be a tensor.
class KnownTypes {
 public:
  explicit KnownTypes(const std::map<std::string, ValueType>& types) : types_(types) {}
  DType of(const std::string& value) const;  // kUndefined: not known
  bool is_float(const std::string& value) const { return of(value) == DType::kFloat; }
  // Whether a node reads and makes nothing but tensors whose types are known.
  bool all_known(const Node& node) const;

 private:
  const std::map<std::string, ValueType>& types_;
};

using Constants = std::unordered_map<std::string, const Tensor*>;
using ExactNodes = std::unordered_map<const Node*, const char*>;  // and why

struct ExactQuestion {
  const Graph& graph;
  const KnownTypes& types;
  const Constants& constants;
  DType to;                                         // the type of 16 bits
  std::function<bool(const Node& node)> is_listed;  // stays in float whatever it computes
};
// Of the graph itself, not of its bodies.
ExactNodes exact_nodes(const ExactQuestion& question, HalfWeights& weights);

// Whether all of the tensor's numbers are so near to 0 that the type has none for them, as an epsilon may be.
bool is_near_zero(const Tensor& tensor, DType to, HalfWeights& weights);

}  // namespace saturate
