// Where two models in one e-graph part: the nodes between values that are proven equal and values that are not.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/convert/onnx_egraph.h"
#include "tools/prove/prove.h"

namespace saturate {

class OpenRegions {
 public:
  OpenRegions(OnnxEGraph& g, const Lowered (&sides)[2]);

  // Nodes of a model whose values are all values of the other model, too.
  std::size_t proven_nodes(int side) const;
  // The places where outputs part, from the inputs on. Behind each the two values are taken as equal, so that what follows tells of itself:
  // the e-graph is of no other use then.
  std::vector<OpenRegion> between(const std::vector<std::pair<std::string, std::string>>& outputs);

 private:
  struct Site {
    std::size_t source;
    Id value;
    std::string name;
  };
  void read_values();
  bool is_shared(Id id) const;
  bool is_open(const Source& source) const;
  // Open nodes of a model that an output needs, in the model's order.
  std::vector<std::size_t> open_behind(int side, Id output) const;
  std::vector<Site> sites(int side, const std::vector<std::size_t>& open) const;
  std::optional<std::pair<Site, Site>> next_pair(const std::vector<std::size_t> (&open)[2]) const;
  bool alike(Id a, Id b) const;
  OpenRegion region(const Site& first, const Site& second) const;

  OnnxEGraph& g_;
  const Lowered (&sides_)[2];
  std::set<Id> values_[2];  // classes of each model's values
};

}  // namespace saturate
