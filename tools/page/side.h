// A model on a page: its nodes, folded, with the places of all boxes.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "onnx_bridge/model/model.h"
#include "tools/diff/diff.h"
#include "tools/page/words.h"

namespace saturate {

// What a node of a page is, beyond the model: all by graph of ModelDiff::graphs and position.
struct SideFacts {
  std::string name;  // of the model
  int side = 0;      // of ModelDiff
  const ModelDiff* diff = nullptr;
  double cost_scale = 1;                              // of the costs that are written
  std::vector<std::vector<int>> regions;              // -1: in none
  std::vector<std::vector<std::vector<int>>> chains;  // the rules behind each, as words; empty: none are known
};

// The graphs of one model that ModelDiff::graphs tells of.
std::vector<const Graph*> compared_graphs(const Model& model, const ModelDiff& diff, int side);

// Bodies of nodes stand behind the main graph, as ModelDiff::graphs has them.
class PageSide {
 public:
  PageSide(const Model& model, const SideFacts& facts, PageWords& words);
  nlohmann::json to_json() const;
  // The number on the page of a node of a graph of ModelDiff::graphs.
  int node_number(std::size_t graph, std::size_t position) const { return base_[graph] + static_cast<int>(position); }
  // Of the node that makes a value of that name; -1: none does.
  int maker(const std::string& value) const;

 private:
  struct Parts;
  struct Place {
    std::size_t parent, owner;  // the graph and its node
    std::string attribute;
  };
  void find_graphs(const Model& model);
  void number_nodes();
  void add_nodes();
  void add_node(std::size_t graph, std::size_t position);
  void fold_graph(std::size_t graph);
  void add_memory();

  const SideFacts& facts_;
  PageWords& words_;
  std::vector<const Graph*> graphs_;  // the main one first
  std::vector<Place> places_;         // of bodies, by graph
  std::vector<int> base_;
  std::vector<std::unordered_map<std::string, int>> makers_;  // by graph, of values
  std::vector<std::string> op_types_;                         // by node number, as all below
  std::vector<std::vector<int>> reads_;                       // nodes; and words of values from outside, as ~word
  std::vector<std::string> scopes_;
  std::unordered_map<int, std::vector<std::string>> given_;  // outputs of the graph that a node makes
  std::shared_ptr<Parts> parts_;
};

}  // namespace saturate
