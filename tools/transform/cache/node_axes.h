// What op_axes.inc says of the nodes of a model.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "onnx_bridge/model/model.h"
#include "onnx_bridge/operators/op_axes.h"
#include "tools/transform/cache/cache_parts.h"

namespace saturate {

// Of a node by the types of the model's values.
class ViewOfTypes : public NodeView {
 public:
  ViewOfTypes(const Model& model, const std::map<std::string, ValueType>& types, const Node& node)
      : NodeView(node, model.opset(node.domain)), model_(model), types_(types) {}
  std::optional<int> rank(Port port) const override;
  std::optional<std::int64_t> size(Port port, int axis) const override;
  bool same_sizes(Port a, int a_first, int a_last, Port b, int b_first, int b_last) const override;
  std::optional<std::vector<std::int64_t>> ints(int input) const override;

 private:
  const Model& model_;
  const std::map<std::string, ValueType>& types_;
};

// Of a node by what is known of a decoder, in the newest form of its operator.
class ViewOfFacts : public NodeView {
 public:
  ViewOfFacts(const DecoderFacts& facts, const Node& node);
  std::optional<int> rank(Port port) const override;
  std::optional<std::int64_t> size(Port port, int axis) const override;
  bool same_sizes(Port a, int a_first, int a_last, Port b, int b_first, int b_last) const override;
  std::optional<std::vector<std::int64_t>> ints(int input) const override;

 private:
  Dim product(Port port, int first, int last) const;
  const DecoderFacts& facts_;
};

struct AxisOf {
  std::string value;
  int axis = 0;
  auto operator<=>(const AxisOf&) const = default;
};
// Axes whose entries are of the same places.
struct SameAxes {
  // Place by place; all places count; as they are counted in the input, as by a running sum.
  enum class Kind { kApart, kTogether, kInOrder };
  std::vector<AxisOf> axes;
  Kind kind = Kind::kApart;
};

// Of what a node reads and makes. The ranks of all of it must be known. nullopt: nothing is known of the operator.
std::optional<std::vector<SameAxes>> same_axes(const DecoderFacts& facts, const Node& node);

}  // namespace saturate
