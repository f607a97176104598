// Private to canonical*.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx_bridge/operators/op_table.h"
#include "onnx_bridge/opsets/canonical.h"

namespace saturate::canonical {

bool same_value(const Attribute& a, const Attribute& b);
Attribute* find(Node& node, std::string_view name);
bool erase(Node& node, std::string_view name);
void set(Node& node, Attribute attribute);  // adds or replaces
void sort_attributes(Node& node);
void drop_trailing_absent(Node& node);

// A conversion in progress: the node and what its inputs are known to be.
struct Job {
  Node node;
  std::int64_t opset = 0;                // coming from (up) or going to (down)
  std::span<const Facts* const> inputs;  // of the original node; changes of node.inputs do not move them
  std::vector<std::string> original_inputs;
  const DimTable* dims = nullptr;  // null: symbolic contents and shapes are not asked
  std::string prefix;
  Canonical result;  // nodes around `node`, constants
  std::string why;   // down: what this opset cannot say

  bool has(std::size_t i) const { return i < node.inputs.size() && !node.inputs[i].empty(); }
  std::string input(std::size_t i) const { return i < node.inputs.size() ? node.inputs[i] : std::string(); }
  void set_input(std::size_t i, std::string name);
  // Facts of the value that input i names now; null if that is a new value.
  const Facts* facts(std::size_t i) const;
  std::optional<int> rank(std::size_t i) const;
  std::optional<std::int64_t> dim(std::size_t i, int axis) const;
  DType dtype(std::size_t i) const;
  std::optional<std::vector<std::int64_t>> ints(std::size_t i) const;
  std::optional<double> number(std::size_t i) const;  // of a tensor of one element
  std::int64_t int_attribute(std::string_view name, std::int64_t otherwise) const;
  std::string string_attribute(std::string_view name, std::string_view otherwise) const;
  std::optional<std::vector<std::int64_t>> ints_attribute(std::string_view name) const;
  std::string fresh(std::string_view label) const { return prefix + "_" + std::string(label); }
  // A new initializer; returns its name.
  std::string constant(std::string_view label, Tensor tensor);
  std::string constant(std::string_view label, const std::vector<std::int64_t>& values) {
    return constant(label, Tensor::vector_int64(values));
  }
  bool fail(std::string reason) {
    why = std::move(reason);
    return false;
  }
};

// A float scalar of the given dtype (float, double, float16, bfloat16); nullopt for others.
std::optional<Tensor> scalar_of(DType dtype, double value);

// Operators that once took the axes from `axis` on for one (Softmax before opset 13): what they did by default says so.
bool took_rows_from_axis(std::string_view op_type);
// Brings job.node to the newest form as far as the operator's own steps go (upgrade.cpp). False: no newest form.
bool convert_up(Job& job);
// The opposite (downgrade.cpp). False: `job.opset` cannot say it, see job.why.
bool convert_down(Job& job);
// Axis attributes >= 0 where the rank is known; missing perm, strides, ... written out.
void normalize(Job& job);
// Along axes of known size (canonical_places.cpp): starts and ends of a Slice lie within it, axes are given, steps of 1 are not; indices of
// a Gather count from the front; a Split into a number of parts is one into their sizes.
void normalize_slice(Job& job, int rank);
void normalize_gather(Job& job);
void normalize_split(Job& job);

}  // namespace saturate::canonical
