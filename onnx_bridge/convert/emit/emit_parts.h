// The parts of emit_model(): which e-nodes become nodes, in which opset, under which names and with which types.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "onnx_bridge/convert/emit/emit.h"

namespace saturate {

// What emit_model() was given.
struct EmitTask {
  EmitTask(const OnnxEGraph& egraph, const Lowered& from, const Selection& chosen, const EmitModelOptions& how);
  const EGraph& e() const { return g.egraph(); }
  const Model& model() const { return *lowered.model; }
  bool is_absent(Id id) const { return g.facts(id).kind == Facts::Kind::kAbsent; }
  bool is_output(const std::string& name) const { return output_names.contains(name); }

  const OnnxEGraph& g;
  const Lowered& lowered;
  const Selection& selection;
  const EmitModelOptions& options;
  std::unordered_set<std::string> output_names;
};

// A node to be written.
struct EmitUnit {
  Id id = kNone;  // class of the e-node (the tuple's, for several outputs)
  NodeId node = kNone;
  const Source* source = nullptr;  // null: rules made it
  std::size_t position = 0;        // where it would like to stand
  std::vector<Id> children;
  std::map<int, Id> outputs;  // selected values by output index
  bool canonical = false;     // can't be written as its source
};
// Its operator with its domain.
std::string key_name(const EmitTask& task, const EmitUnit& unit);
// In the e-graph's form, with inputs i0, i1, ... and outputs o0, o1, ...
Node canonical_node(const EmitTask& task, const EmitUnit& unit);
std::vector<const Facts*> input_facts(const EmitTask& task, const EmitUnit& unit);
// Whether this is a Reshape that rules made and that must not take a size of 0 for a copy.
bool wants_zeros(const EmitTask& task, const EmitUnit& unit);

// What the selection holds: leaves, which become constants or inputs, and units, children before parents.
class SelectedNodes {
 public:
  explicit SelectedNodes(const EmitTask& task);

  const Choice& choice(Id id) const;
  // Topological, and as near to the model's own order as that allows.
  std::vector<std::size_t> in_order() const;
  // A constant that no selected node reads.
  void add_constant(Id id, Choice choice);

  std::vector<Id> classes, constants;  // selected, children first
  std::vector<EmitUnit> units;

 private:
  void walk();
  void add_class(Id id, const Choice& c);
  const Source* source_of(const ENode& node, std::size_t* index) const;
  // The class whose unit computes a value: the tuple's for projections.
  Id producer(Id id) const;

  const EmitTask& task_;
  absl::flat_hash_map<std::vector<Id>, std::vector<std::size_t>> sources_;  // by node_signature
  std::unordered_map<Id, Choice> added_;
  std::unordered_map<Id, std::size_t> unit_of_;
};

// The opset that is written, and what keeps its form in it.
class OpsetForms {
 public:
  // The opset asked for; else the model's, or the lowest above it that can express the result.
  static absl::StatusOr<OpsetForms> choose(const EmitTask& task, const std::vector<EmitUnit>& units);
  std::int64_t opset() const { return opset_; }
  // Whether the original message means the same in the result's opset.
  bool keeps_meaning(const Node& node) const;
  // Whether an older opset has the node's types.
  bool takes_types(const EmitUnit& unit) const;

 private:
  OpsetForms(const EmitTask& task, std::int64_t opset) : task_(&task), opset_(opset) {}
  bool is_control_flow(const Node& node) const;
  bool keeps_canonical_form(const Node& node) const;

  const EmitTask* task_;
  std::int64_t opset_;
};

// Names of values: graph outputs first, then the names that the nodes of the model gave, then other names of the class, then fresh ones.
class ValueNames {
 public:
  ValueNames(const EmitTask& task, const SelectedNodes& nodes);
  const std::string& of(Id id) const;
  const std::unordered_map<Id, std::string>& all() const { return name_; }
  std::string fresh(const std::string& base);
  // The name, or a fresh one like it where the model or the result has that already.
  std::string unused(const std::string& name);
  // Whether nobody had the name.
  bool take(const std::string& name) { return claimed_.insert(name).second; }

 private:
  bool reserve(const std::string& name);
  void claim(Id id, const std::string& name);
  void claim_leaves(const SelectedNodes& nodes);
  std::vector<bool> copied_outputs(const SelectedNodes& nodes) const;
  std::string label(const SelectedNodes& nodes, Id id) const;

  const EmitTask& task_;
  std::unordered_map<Id, std::string> name_;
  std::unordered_set<std::string> used_, claimed_;
  std::map<std::string, int> numbers_;
};

// The value_info of a graph whose nodes are written: what is still true of the model's, and types that runtimes do not infer.
void write_types(const EmitTask& task, const SelectedNodes& nodes, const ValueNames& names, Graph& graph);

}  // namespace saturate
