// Private to check*.cpp: examples of rules in an e-graph, and the values of its classes.
#pragma once

#include <map>
#include <set>
#include <string>

#include "onnx_bridge/convert/onnx_egraph.h"
#include "rules/check/check_run.h"

namespace saturate {

// The left side of a rule as e-nodes, with the example's tensors as inputs or constants.
class LeftSide {
 public:
  // `axes`: the names of symbolic dims of graph inputs, "" for those that are numbers.
  using Axes = std::map<std::string, std::vector<std::string>>;
  LeftSide(const Rule& rule, const Instance& instance, OnnxEGraph& g, Axes axes = {})
      : rule_(rule), instance_(instance), g_(g), axes_(std::move(axes)) {}

  // The names of dims: one for each size above 1 that graph inputs of the example have, and which size the instance has there. Empty where
  // the instance has two for one.
  static Axes named_sizes(const Instance& instance, const RuleExample& example, std::map<std::string, std::int64_t>& sizes);

  // `variable`: the inputs that are no constants. "" or what is wrong.
  std::string build(const std::set<std::string>& variable);
  Id id(const std::string& name) const { return ids_.at(name); }
  // A Softmax of a value, if it has one: rules about masks ask whether one reads what they make.
  static void add_reader(OnnxEGraph& g, Id output);

 private:
  const RuleNode* constant(const std::string& name) const;
  std::string add(const RuleNode& node);
  void normalize_axes(std::vector<Id>& children, const OpSchema* schema, bool grows);

  const Rule& rule_;
  const Instance& instance_;
  OnnxEGraph& g_;
  Axes axes_;
  std::map<std::string, Id> ids_;
};

// Runs classes of an e-graph whose graph inputs are known.
class ClassValues {
 public:
  // `sizes`: the numbers that symbolic dims are.
  ClassValues(const OnnxEGraph& g, const Instance& instance, const LeftSide& left, std::map<std::string, std::int64_t> sizes = {});
  absl::StatusOr<Value> of(Id id);

 private:
  absl::StatusOr<std::vector<Value>> run(const ENode& node);
  absl::StatusOr<Value> leaf(const ENode& node);
  bool is_literal(Id id) const;

  const OnnxEGraph& g_;
  std::map<Id, Value> known_;
  std::map<std::string, std::int64_t> sizes_;
  int depth_ = 0;
};

}  // namespace saturate
