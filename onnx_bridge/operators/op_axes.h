// What each axis of a result is of each input, said once: one line an operator in op_axes.inc. Everybody who asks "where does the axis of
// the batch, of the tokens, of the channels go" asks here. tests/kernels/op_axes/op_axes_test.cpp runs the kernels: each link is true, and
// where none is said, no choice of axes makes one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "onnx_bridge/model/model.h"

namespace saturate {

// An input or an output of an operator.
struct Port {
  int index = 0;
  bool output = false;
  bool operator==(const Port&) const = default;
};

// An operator with what is known of its inputs and outputs: of a node, an e-node, or of tensors.
class OpView {
 public:
  virtual ~OpView() = default;
  virtual std::string_view domain() const = 0;  // "" for ai.onnx
  virtual std::string_view op_type() const = 0;
  virtual const Attribute* attribute(std::string_view name) const = 0;  // null: not given
  virtual std::int64_t opset() const = 0;                               // of its domain
  virtual int inputs() const = 0;
  virtual int outputs() const = 0;
  virtual bool has(Port port) const = 0;                 // false: absent; of outputs also where nobody asks for it
  virtual std::optional<int> rank(Port port) const = 0;  // nullopt: not known
  virtual std::optional<std::int64_t> size(Port port, int axis) const = 0;
  // Whether the product of the dims [first, last) of one is that of the other, for certain.
  virtual bool same_sizes(Port a, int a_first, int a_last, Port b, int b_first, int b_last) const = 0;
  virtual std::optional<std::vector<std::int64_t>> ints(int input) const = 0;  // of a constant
};

// A node, its attributes and its opset; who uses it adds what is known of its values.
class NodeView : public OpView {
 public:
  NodeView(const Node& node, std::int64_t opset) : node_(node), opset_(opset) {}
  std::string_view domain() const override { return node_.domain; }
  std::string_view op_type() const override { return node_.op_type; }
  const Attribute* attribute(std::string_view name) const override { return find_attribute(node_.attributes, name); }
  std::int64_t opset() const override { return opset_; }
  int inputs() const override { return static_cast<int>(node_.inputs.size()); }
  int outputs() const override { return static_cast<int>(node_.outputs.size()); }
  bool has(Port port) const override { return port.index < (port.output ? outputs() : inputs()) && !name(port).empty(); }

 protected:
  const std::string& name(Port port) const { return (port.output ? node_.outputs : node_.inputs)[static_cast<std::size_t>(port.index)]; }
  const Node& node_;
  const std::int64_t opset_;
};

struct AxisAt {
  Port port;
  int axis = 0;
  bool one = false;  // it has one entry for all: it broadcasts along the others
};

// Axes of the same places, at most one of a value.
struct AxisLink {
  std::vector<AxisAt> inputs, outputs;
  // Place by place: taking some places of all the inputs gives the same places of the outputs, in their order, however often each is taken.
  // Otherwise all places count for each, in whatever order they are: of another order of the inputs' come the outputs' in that order.
  // Either way outputs that have no axis here stay as they are.
  bool apart = true;
  const AxisAt* of(Port port) const;
};

struct OpAxes {
  std::vector<AxisLink> links = {};
  std::optional<int> sizes = {};  // the input that says how large the result is, and changes with it

  const AxisLink* link(Port port, int axis) const;   // null: nothing is known of the axis
  const AxisLink* apart(Port port, int axis) const;  // the same, place by place
};

// nullopt: nothing is known of the operator, or too little of its inputs.
std::optional<OpAxes> axes_of(const OpView& op);
// Whether it is known at all.
bool tells_axes(std::string_view domain, std::string_view op_type);
// Names in the table, and those that op_traits.inc tells enough of; with their domain.
std::vector<std::string_view> operators_with_axes();

// Of what a function or a graph makes of its inputs, by what its nodes do. `view` of each node must stay as long as the call.
using ViewOfNode = std::function<std::unique_ptr<OpView>(const Node& node)>;
struct BodyOfOperator {
  std::span<const Node> nodes;
  std::span<const std::string> inputs, outputs;
};
std::optional<OpAxes> axes_of_body(const BodyOfOperator& body, const ViewOfNode& view);

}  // namespace saturate
