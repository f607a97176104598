// e-graph -> ONNX: a selection of e-nodes as a model. Names, order of inputs and outputs, and all that no rule touched stay.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/convert/lower.h"

namespace saturate {

// What stands for each class in the result: one of its e-nodes, or its value (folded).
struct Choice {
  NodeId node = kNone;
  bool folded = false;  // written as an initializer with the class's value
};
struct Selection {
  std::vector<Choice> by_class;  // indexed by canonical class id; node == kNone and not folded: not selected
  double refused = 0;            // how many of its operators the target refuses or the opset lacks
  double cost = 0;
  double cost_before = 0;  // of the model's own e-nodes, by the same prices
  bool proved = false;     // no choice costs less by the prices of operators, what the runtime makes of them at load aside
  const Choice* find(Id id) const { return id < by_class.size() ? &by_class[id] : nullptr; }
};

// An e-node as it was written.
struct WrittenNode {
  NodeId node = kNone;              // kNone: a copy of an output under a second name
  const Source* source = nullptr;   // the node of the model that says the same; null: rules made it
  bool kept = false;                // the message of that one was taken
  std::string op_type, output;      // op_type with its domain, as "com.microsoft.Attention"
  std::vector<std::string> values;  // a value of each node that it became: several where an older opset has no such operator
  std::vector<Id> inputs, outputs;  // classes
};

struct EmitModelOptions {
  bool only_initializers = false;  // the model's Constant nodes become initializers, but for outputs
  bool is_body = false;  // of an If, Loop or Scan: value_info is the model's own, as runtimes compare it with what they infer around it
  std::optional<std::int64_t>
      opset;                    // write this opset of ai.onnx; nullopt: the input's, or the lowest above it that can express the result
  std::int64_t max_opset = 28;  // never above this
  std::map<const Graph*, std::shared_ptr<const Graph>> bodies;  // optimized subgraphs in place of the original ones
  std::map<std::string, std::int64_t> body_imports;             // opsets of domains that those need
  std::map<std::string, std::int64_t> domain_versions;          // of domains that the model does not import; 1 of those not named
  std::vector<WrittenNode>* written = nullptr;                  // filled if given, in order
  std::unordered_set<std::string>* reserved = nullptr;          // names that new values must not take; grows by those that are made
};

absl::StatusOr<Model> emit_model(const OnnxEGraph& egraph, const Lowered& lowered, const Selection& selection,
                                 const EmitModelOptions& options = {});

}  // namespace saturate
