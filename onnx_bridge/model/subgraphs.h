// What the bodies of If, Loop and Scan take from the graph around them.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>

#include "onnx_bridge/model/model.h"

namespace saturate {

// Visits the bodies that a node has itself.
template <typename Visit>
void for_each_body(const Node& node, Visit visit) {
  for (const Attribute& a : node.attributes) {
    if (const auto* one = std::get_if<std::shared_ptr<const Graph>>(&a.value)) visit(**one);
    if (const auto* many = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&a.value))
      for (const auto& body : *many) visit(*body);
  }
}

// Whether any of them is a body, or bodies.
bool has_body(std::span<const Attribute> attributes);

// The model with a body in the place of its graph.
Model model_of_body(const Model& model, const Graph& body);

// The graph with the names that it takes from outside changed; names that it defines itself hide them.
std::shared_ptr<const Graph> rename_captures(const Graph& graph, std::map<std::string, std::string> renamed);

// Takes out the nodes and initializers that no output, no node and no body reads, but for those with a name in `kept`.
void erase_unread(Graph& graph, const std::unordered_set<std::string>& kept);

// Of the graph and its bodies.
std::unordered_set<std::string> initializer_names(const Graph& graph);

// Initializers that several bodies hold alike, or a body and the main graph, become one of the main graph: but for those named in `given`.
// `names` are all names of the model; those that are made are added.
void share_initializers(Graph& main, const std::unordered_set<std::string>& given, std::unordered_set<std::string>& names);

}  // namespace saturate
