// One opset inside: a node of any opset as an equal small graph of newest-form operators, and back.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/facts/facts.h"
#include "onnx_bridge/model/model.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {

// The node in newest form. Attributes are complete (schema defaults written out) and sorted by name. Axes are inputs where the newest form
// has them; they and axis attributes are >= 0 where the rank is known. Deprecated forms are replaced (Upsample -> Resize, Softmax below 13
// -> Flatten, Softmax, Reshape), trailing absent inputs dropped. Several nodes where one does not suffice; `constants` are initializers
// that the nodes name. New value names start with `prefix`. nullopt: the operator is unknown, or no newest form expresses it: it stays
// opaque.
struct Canonical {
  std::vector<Node> nodes;  // topological; the outputs of `node` are made under their own names
  std::vector<Initializer> constants;
};
std::optional<Canonical> to_canonical(const Node& node, std::int64_t opset, std::span<const Facts* const> inputs, const DimTable& dims,
                                      const std::string& prefix);

// The same the other way: a canonical node as nodes of `opset` of ai.onnx (attributes equal to schema defaults left out).
// kFailedPrecondition with the lowest opset that can express it in the message, where `opset` cannot.
absl::StatusOr<Canonical> from_canonical(const Node& node, std::int64_t opset, std::span<const Facts* const> inputs, const DimTable& dims,
                                         const std::string& prefix);
// Whether the input of this number lists axes (ReduceSum, Unsqueeze, Slice, ...).
bool is_axes_input(const OpSchema& schema, std::size_t input);
// The same axes counted from the front; nullopt where none is negative, one is out of range, or they are no int64.
std::optional<Tensor> axes_from_front(const Tensor& axes, std::int64_t rank);
// A place along an axis of this size as Slice and Shape read it: counted from the front, and within the axis.
std::int64_t place_within(std::int64_t at, std::int64_t size);
// The sizes of a Split of this size into a number of parts; nullopt: there is no such one.
std::optional<std::vector<std::int64_t>> sizes_of_parts(std::int64_t size, std::int64_t parts);
// The lowest opset of the node's domain that can express it with these inputs' dtypes; nullopt: none.
std::optional<std::int64_t> lowest_opset(const Node& node, std::span<const Facts* const> inputs);

}  // namespace saturate
