// ONNX -> e-graph. Nothing is lost: every value of the graph gets an e-class, every node a record of the message it came from.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "onnx_bridge/convert/captured.h"
#include "onnx_bridge/convert/onnx_egraph.h"
#include "onnx_bridge/model/model.h"

namespace saturate {

// A node of the model and the e-node that says the same. The node is written back as it is where that e-node is selected.
struct Source {
  const Node* node = nullptr;         // of the lowered graph, alive as long as the model is
  OpId op = kNone;                    // its e-node, kNone for nodes that vanish (Identity, Constant)
  std::vector<Id> inputs;             // classes of its inputs in its own order, absent() for absent ones; then the captured values
  std::vector<Id> children;           // children of the e-node `op`
  std::vector<Id> outputs;            // classes of its outputs, kNone for absent ones
  std::vector<std::string> captures;  // names behind the last inputs, as the subgraphs spell them
};

struct Lowered {
  const Model* model = nullptr;
  std::vector<Id> roots;                                     // class of each graph output, in order
  std::vector<Source> sources;                               // by position in the graph
  std::unordered_map<OpId, std::vector<std::size_t>> by_op;  // sources by operator
  std::map<Id, std::vector<std::string>> names;              // names that the model gives to a class (ids not canonical after merges)
  std::unordered_map<std::string, Id> values;                // class of every value of the graph
  std::map<OpId, const Initializer*> initializers;           // #constant leaf -> first initializer that holds it
  std::map<OpId, const Node*> constant_nodes;                // #constant leaf -> first Constant node that holds it
  std::map<OpId, std::string> captured_constants;            // #constant leaf -> the value outside that holds it
  std::vector<std::shared_ptr<const Node>> owned_nodes;      // backing store of inlined function bodies
  // Their nodes, in order, and how many sources of the graph come before each: that of the call comes behind its body.
  std::vector<std::pair<std::size_t, Source>> inlined;
  std::size_t known_by_declaration = 0;                            // values of whose types nothing is known but what the model declares
  std::vector<std::pair<const Node*, std::string_view>> disputes;  // nodes that stay as they are, and why (disputed.h)
};

using OperatorName = std::pair<std::string, std::string>;  // domain, operator

struct LowerOptions {
  // Values that the graph captures from outside, by name: constants, and inputs of these names. A constant stays where it is: written back,
  // it is referred to by its name.
  std::map<std::string, Captured> captured;
  std::map<std::string, Facts> inputs = {};  // what is known of inputs of the graph, in the place of what it declares of them
  bool inline_functions = true;              // a call and its body become one e-class
  // Operators of domains of their own (is_of_own_domain) whose e-nodes rules match; others stay as they are.
  std::set<OperatorName> named = {};
  // Functions of the model whose calls stay calls: what they compute is known to nobody outside, but for the types of their outputs.
  std::set<OperatorName> kept = {};
  // Of several models in one e-graph. Each has a number of its own, by which what only one of them can mean is another thing in each:
  // random nodes, calls of its functions, sparse tensors. Inputs of one name in `input_names` are one value.
  int model = 0;
  std::map<std::string, std::string> input_names = {};  // in the e-graph, by those of the model; others keep theirs
  bool believes_types = true;       // false: types that the model declares of inner values and outputs are not taken for true
  bool disputes_are_unique = true;  // false: equal nodes that runtimes take differently (disputed.h) are equal
};

// Operator and canonical children as one key, equal exactly for equal e-nodes: children of commutative operators in one order.
std::vector<Id> node_signature(const EGraph& egraph, OpId op, std::span<const Id> children);

// Of the model's own nodes, as far as they have e-nodes.
absl::flat_hash_set<std::vector<Id>> node_signatures(const EGraph& egraph, const Lowered& lowered);

absl::StatusOr<Lowered> lower(const Model& model, OnnxEGraph& egraph, const LowerOptions& options = {});

}  // namespace saturate
