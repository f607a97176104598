// Edits that make a model smaller, each a model of its own. They keep its structure valid, and not what it computes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "onnx_bridge/model/model.h"
#include "onnx_bridge/model/node_order.h"

namespace saturate {

using ValueTypes = std::map<std::string, ValueType>;  // by the value's name

// Nodes of the graph, of the bodies of If, Loop and Scan, and of each function once.
std::size_t count_nodes(const Model& model);
// Without nodes, initializers, inputs, functions and imports that nothing reads.
Model without_unread(Model model);
// Without doc strings, metadata, value types, and whatever else is kept of the file as it was written.
Model plain(Model model);

// The nodes of the main graph that `keep` names. Values that the others computed become inputs, those that only the others read become
// outputs. nullopt: a type is not known, or nothing is left.
std::optional<Model> induced(const Model& model, const std::vector<bool>& keep, const ValueTypes& types);
std::optional<Model> with_outputs(const Model& model, const std::vector<bool>& keep);
// Initializers of the main graph that `keep` does not name become inputs.
Model with_initializers(const Model& model, const std::vector<bool>& keep);
// The Constants of the main graph as initializers.
Model with_constants_outside(Model model);

// A graph or function in which nodes stand: the main graph, a body (by node and attribute, from outside in), or a function.
struct Scope {
  int function = -1;                                        // of Model::functions; -1: the graph
  std::vector<std::pair<std::size_t, std::size_t>> bodies;  // node, attribute
  bool is_main() const { return function < 0 && bodies.empty(); }
};
std::vector<Scope> scopes(const Model& model);  // the main graph first
const std::vector<Node>& nodes_of(const Model& model, const Scope& scope);
std::vector<Node>& edit_nodes(Model& model, const Scope& scope);  // the bodies on the way become copies of the model's own

// Whoever reads the node's outputs reads that input instead.
struct Bypass {
  std::size_t node = 0, input = 0;
};
Model bypassed(const Model& model, const Scope& scope, const std::vector<Bypass>& bypasses);
// What a body's node computes becomes an input of the main graph. nullopt: a type is not known.
std::optional<Model> cut_in_body(const Model& model, const Scope& scope, std::size_t node, const ValueTypes& types);

// The nodes of a function in the place of a call in the main graph. nullopt: it is no call, or the two mean different opsets.
std::optional<Model> with_call_inlined(const Model& model, std::size_t node);
// The nodes of an If's branch in the place of the If. Of a Loop or Scan: the body beside the graph, with inputs and outputs of its own;
// what the node computed become inputs.
std::optional<Model> with_body_taken_out(const Model& model, std::size_t node, std::size_t attribute, const ValueTypes& types);

}  // namespace saturate
