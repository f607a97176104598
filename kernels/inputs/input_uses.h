// What a model does with its inputs, as far as its graph tells: for drawing values and shapes that it is likely to take.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "onnx_bridge/model/model.h"

namespace saturate {

// What the first operators that read a value ask of its shape.
struct ShapeHint {
  std::optional<std::size_t> rank = {};
  std::size_t least_rank = 0;
  std::map<std::int64_t, std::int64_t> sizes = {};  // by axis; negative ones count from the end
};

// A QuantizeLinear that reads a value: its step, and the numbers that it holds.
struct QuantizerHint {
  double step = 1, low = 0, high = 0;
};

// Inputs of the model that a GroupQueryAttention reads as they are.
struct LengthInputs {
  std::string rows, past;     // the query and the past keys; "" where they are no inputs, or the node has none
  std::string last, total;    // seqlens_k (the index of the last key of each row) and total_sequence_length
  bool has_past = false;      // whether the node takes one at all
  bool past_is_fixed = true;  // a buffer, whose length the model says
};

class InputUses {
 public:
  explicit InputUses(const Graph& graph);
  // Whether it is taken from 1, as masks are.
  bool taken_from_one(const std::string& value, int depth = 0) const;
  // Rows of the smallest table that it indexes.
  std::optional<std::int64_t> rows(const std::string& value, int depth = 0) const;
  ShapeHint shape(const std::string& value, int depth = 0) const;
  // The quantizer that reads it as it is, with its first scale, where scale and zero point are constants.
  std::optional<QuantizerHint> quantizer(const std::string& value, int depth = 0) const;
  // Whether it is the distance of two quantized values beside each other ("y_scale" and the like).
  bool is_step(const std::string& value, int depth = 0) const;
  // Whether it is read as quantized integers.
  bool is_dequantized(const std::string& value, int depth = 0) const;
  // Constants that it is compared with or cut off at as it is, or but for its sign.
  std::vector<double> compared(const std::string& value, int depth = 0) const;
  // Of an integer that tells a length of other inputs: what it is less by.
  std::optional<std::int64_t> length(const std::string& value, int depth = 0) const;
  // Single numbers of the graph and its bodies that are not 0, of a size that values have.
  std::vector<double> constants() const;

 private:
  using Use = std::pair<const Node*, std::size_t>;
  void see_graph(const Graph& graph);
  void see_constant(const std::string& name, const Tensor& tensor);
  void add_compared(const Node& node, std::size_t position, std::vector<double>& out) const;
  std::optional<std::int64_t> gather_rows(const Node& node) const;
  std::optional<std::int64_t> table_rows(const std::string& table, std::int64_t axis) const;
  const Shape* constant_shape(const Node& node, std::size_t input) const;
  ShapeHint asked(const Node& node, std::size_t position) const;
  ShapeHint asked_by_product(const Node& node, std::size_t position) const;
  ShapeHint asked_by_window(const Node& node) const;
  ShapeHint asked_beside(const Node& node, std::size_t position) const;
  ShapeHint beside_constants(const Node& node, std::size_t position) const;
  // The numbers of a node's short constants, each once.
  const std::vector<double>& few_constants(const Node& node) const;

  std::optional<QuantizerHint> quantizer_of(const Node& node) const;

  std::map<std::string, Shape> shapes_;  // of constants
  std::map<std::string, Tensor> few_;    // constants of few elements
  std::set<std::string> ones_;
  std::map<std::string, std::vector<Use>> uses_;
  mutable std::map<const Node*, ShapeHint> beside_;
  mutable std::map<const Node*, std::vector<double>> few_constants_;
};

}  // namespace saturate
