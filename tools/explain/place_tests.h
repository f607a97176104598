// Whether an operator is part of a block that is fused, or merely of the same name: a router's Softmax is no attention, a gate's Sigmoid no
// SiLU, a pooler's Tanh no GELU.
#pragma once

#include <set>
#include <string>

#include "onnx_bridge/graph/graph_view.h"

namespace saturate {

class PlaceTests {
 public:
  explicit PlaceTests(const Graph& graph);
  // Weighs values, by scores that are products of two values which inputs decide.
  bool attends(const Node& softmax) const;
  // Is Erf, has a constant added (Tanh), or is a factor of what it was computed from (Sigmoid).
  bool activates(const Node& node) const;

 private:
  bool varies(const std::string& value) const { return varies_.contains(value); }
  bool is_product(const Node& node) const;
  bool has_scores(const Node& softmax) const;
  bool weighs_values(const Node& softmax) const;
  const std::string& origin(const std::string& value) const;
  const GraphView view_;
  std::set<std::string> varies_;  // values that no constant is
};

}  // namespace saturate
