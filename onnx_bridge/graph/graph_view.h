// Who makes and who reads the values of a graph, found once and asked often.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "onnx_bridge/model/model.h"

namespace saturate {

// The node of the graph that makes a value; null for inputs, initializers and "". For a single question: it looks through all nodes.
const Node* producer_of(const Graph& graph, std::string_view value);

// Of the graph itself, not of its bodies. Holds as long as the nodes stay where they are; it tells of the names that they had.
class GraphView {
 public:
  struct Use {
    const Node* node;
    std::size_t input;
    bool operator==(const Use&) const = default;
  };

  explicit GraphView(const Graph& graph);
  const Node* producer(std::string_view value) const;  // as producer_of
  // By inputs of nodes, in the order of the nodes.
  std::span<const Use> uses(std::string_view value) const;
  // By a body of If, Loop or Scan, at any depth.
  bool is_read_by_body(std::string_view value) const { return read_by_body_.contains(value); }
  bool is_output(std::string_view value) const { return outputs_.contains(value); }
  // The place of a node of the graph.
  std::size_t place_of(const Node& node) const { return static_cast<std::size_t>(&node - graph_->nodes.data()); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };
  template <typename T>
  using ByName = std::unordered_map<std::string, T, Hash, std::equal_to<>>;
  using Names = std::unordered_set<std::string, Hash, std::equal_to<>>;

  const Graph* graph_;
  ByName<const Node*> producers_;
  ByName<std::vector<Use>> uses_;
  Names read_by_body_, outputs_;
};

}  // namespace saturate
