// Names of values, changed throughout a graph and the bodies of its If, Loop and Scan.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>

#include "onnx_bridge/model/model.h"

namespace saturate {

using Renaming = std::map<std::string, std::string>;  // old -> new, all at once

// Names that no value of a model has.
class FreshNames {
 public:
  explicit FreshNames(const Graph& graph) { collect_names(graph, taken_); }
  // `base` itself where it is free, else with a number behind.
  std::string operator()(const std::string& base);
  bool taken(const std::string& name) const { return taken_.contains(name); }
  void take(const std::string& name) { taken_.insert(name); }

 private:
  std::unordered_set<std::string> taken_;
};

// Names that a graph defines itself: inputs, initializers and what its nodes make.
std::unordered_set<std::string> defined_names(const Graph& graph);
// Where these values are made and where they are read, bodies included. A name of a body's own that one of the new names would fall onto
// becomes another one. In `graph` itself the new names must be free.
void rename_values(Graph& graph, const Renaming& renaming, FreshNames& fresh);

// Visits the nodes of a graph and of all its bodies, outer ones first; the bodies that hold changed nodes are copies.
void for_each_graph(Graph& graph, const std::function<void(Graph& graph)>& change);
bool reads(const Node& node, const std::string& value);  // as an input, or in a body

template <typename Named>
auto find_named(Named& list, const std::string& name) {
  auto it = list.begin();
  while (it != list.end() && it->name != name) ++it;
  return it == list.end() ? nullptr : &*it;
}

}  // namespace saturate
